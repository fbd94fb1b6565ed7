"""Who acts, for which org and application: what every such command refuses, and how it says so."""

import json

import pytest

from assent.cli.main import app
from tests.cli.desk import Desk

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
ID = "01890a5d-ac96-774b-bcce-b302099a8057"
COMMANDS = [
    ["instances", "start", "orders"],
    ["instances", "show", ID],
    ["instances", "list"],
    ["instances", "advance", ID, "go"],
    ["instances", "cancel", ID],
    ["instances", "pause", ID],
    ["instances", "resume", ID],
    ["instances", "retry", ID],
    ["instances", "skip", ID, "pay", "paid"],
    ["approvals", "decide", ID, "approved"],
    ["approvals", "claim", ID],
    ["approvals", "release", ID],
    ["approvals", "reassign", ID, "fin", "max"],
    ["entities", "create", "expense"],
    ["entities", "list", "expense"],
    ["entities", "show", "expense", ID],
    ["entities", "change", "expense", ID, "--version", "1"],
    ["entities", "act", "expense", ID, "update"],
    ["entities", "transition", "expense", ID, "submit"],
    ["entities", "versions", "expense", ID],
    ["entities", "diff", "expense", ID, "1", "2"],
    ["entities", "audit", "expense", ID],
    ["tasks", "submit", "report"],
    ["tasks", "list"],
    ["tasks", "show", ID],
    ["tasks", "cancel", ID],
    ["tasks", "retry", ID],
    ["delegations", "list"],
    ["delegations", "create", "fin"],
    ["delegations", "revoke", ID],
    ["forms", "show", ID],
    ["forms", "claim", ID],
    ["forms", "release", ID],
    ["forms", "save-draft", ID],
    ["forms", "reassign", ID, "ann", "carl"],
    ["inbox"],
    ["events", "emit", "paid:1"],
    ["events", "list"],
    ["dead-letters", "list"],
    ["dead-letters", "retry", ID],
    ["dead-letters", "retry-all"],
    ["rebuild", ID],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_every_command_refuses_whoever_is_no_active_member(desk: Desk, command) -> None:
    for user in ("stranger", "gone"):
        refused = await desk.refusal(*command, user=user)
        assert (refused["code"], refused["problems"][0]["path"]) == ("NOT_A_MEMBER", ["as"])
        assert refused["detail"] == f"{user} is no active member of acme"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_nobody_acts_as_the_system(desk: Desk, command) -> None:
    refused = await desk.refusal(*command, user="system")
    assert (refused["code"], refused["hint"]) == ("NOT_A_MEMBER", "name a member of the org")


@pytest.mark.parametrize("missing", ["--app", "--org", "--as"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_what_is_not_said_anywhere_is_a_usage_error(command, missing) -> None:
    desk = Desk(NOWHERE)
    given = {"--app": "a:b", "--org": "acme", "--as": "ann"}
    del given[missing]
    desk.environment |= {"ASSENT_APP": "", "ASSENT_ORG": ""}
    result = await desk.run(*command, *[part for pair in given.items() for part in pair], user="", code=2)
    assert f"Missing option '{missing}'" in result.stderr


async def test_members_of_another_org_are_strangers_here(desk: Desk) -> None:
    refused = await desk.refusal("instances", "list", "--org", "globex")
    assert refused["detail"] == "ann is no active member of globex"


async def test_a_refusal_for_people_has_code_place_message_and_hint(desk: Desk) -> None:
    result = await desk.run("instances", "list", user="system", code=1)
    assert result.stdout == ""
    assert result.stderr == (
        "✗ NOT_A_MEMBER as: the system does not act from outside\n  hint: name a member of the org\n"
    )


async def test_a_database_that_was_never_migrated_is_said_plainly(empty_database_url: str) -> None:
    refused = await Desk(empty_database_url).refusal("instances", "list")
    assert refused["code"] == "UNAVAILABLE"
    assert "Run `assent migrate` first" in refused["detail"]


async def test_a_database_that_cannot_be_reached_is_said_plainly() -> None:
    refused = await Desk(NOWHERE).refusal("instances", "list")
    assert refused["code"] == "UNAVAILABLE"
    assert "127.0.0.1:1" in refused["detail"]


@pytest.mark.parametrize("text", ["zz", "018", "01890a5d-ac96-774b-bcce-b302099a8057-00"])
@pytest.mark.parametrize(
    "command",
    [["instances", "show"], ["instances", "retry"], ["approvals", "claim"], ["rebuild"]],
    ids=" ".join,
)
async def test_what_is_no_id_is_a_usage_error(command, text) -> None:
    result = await Desk(NOWHERE).run(*command, text, code=2)
    assert "expected an id or at least 4 digits of its beginning" in result.stderr


@pytest.mark.parametrize("text", ["zz", ID[:13]])
async def test_a_dead_letter_is_named_by_its_whole_id(text) -> None:
    result = await Desk(NOWHERE).run("dead-letters", "retry", text, code=2)
    assert "Input should be a valid UUID" in result.stderr


@pytest.mark.parametrize("command", [[], ["instances"], ["instances", "cancel"], ["check"]], ids=" ".join)
async def test_h_is_help(command) -> None:
    long, short = [await Desk(NOWHERE).run(*command, option) for option in ("--help", "-h")]
    assert short.stdout == long.stdout != ""


async def test_the_installed_command_acts_and_refuses_the_same_way(desk: Desk) -> None:
    done = await desk.shell("instances", "start", "orders", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    started = json.loads(done.stdout)
    shown = await desk.shell("instances", "show", started["id"])
    assert shown.returncode == 0
    assert "\x1b" not in shown.stdout
    refused = await desk.shell("instances", "advance", started["id"], "nonsense")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "INVALID_TRANSITION" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert (await desk.shell("instances", "list", "--status", "nonsense")).returncode == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_a_shell_can_complete_the_commands(desk: Desk, shell) -> None:
    desk.environment |= {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = await desk.shell("--show-completion", shell)
    assert script.returncode == 0
    assert "_ASSENT_COMPLETE" in script.stdout
    desk.environment |= {
        "_ASSENT_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "assent re",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": "assent re",
        "COMP_CWORD": "1",
    }
    completed = await desk.shell()
    assert "rebuild" in completed.stdout
    assert "roles" not in completed.stdout


def test_every_command_has_a_help_text() -> None:
    for command in app.registered_commands:
        assert (command.callback.__doc__ or "").strip()
