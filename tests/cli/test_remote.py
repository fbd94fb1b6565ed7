"""Commands on a server: which one, what is sent, what a lost answer leads to, and what stays on the database."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from assent.cli.main import app
from assent.people.api_keys import create_api_key
from assent.store.database import Database
from tests.cli.desk import ASSENT, ROOT
from tests.cli.test_cpu import CPU_S_MAX, HEAVY, least_cpu_s, probe
from tests.http.process import server
from tests.receiver import Receiver, ReceiverReply, receiving, reply_json
from tests.world import hire_with, insert_org

NAMES = ("DATABASE_URL", "APP", "ORG", "USER", "SERVER", "KEY", "PROFILE")
ID = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr("assent.cli.remote.PAUSE_S", 0.0)
    with receiving() as found:
        yield found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without profiles, and without variables of ours."""
    for name in NAMES:
        monkeypatch.delenv(f"ASSENT_{name}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "assent" / "profiles.json"


def run(*words: str, text: str | None = None, **variables: str) -> Result:
    return CliRunner().invoke(app, words, input=text, env={"COLUMNS": "300", **variables})


def at(door: Receiver, *words: str, text: str | None = None) -> Result:
    return run(*words, text=text, ASSENT_SERVER=door.url, ASSENT_KEY="ak_1")


DELEGATION = {"id": ID, "from_user": "ann", "to_user": "bob"}


def test_a_command_signs_in_with_the_key_and_has_a_key_of_its_own(door: Receiver) -> None:
    door.will(reply_json(DELEGATION))
    result = at(door, "delegations", "revoke", ID, "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, DELEGATION)
    (asked,) = door.received
    assert (asked.method, asked.path) == ("POST", f"/api/delegations/{ID}/revoke")
    assert asked.headers["authorization"] == "Bearer ak_1"
    assert len(asked.key) == 36


def test_an_inbox_by_a_key_is_of_the_member_of_the_key_and_not_of_the_variable(door: Receiver) -> None:
    counts = {key: {"open": 0, "overdue": 0} for key in ("mine", "roles", "delegated")}
    door.will(reply_json({"items": [], "next": None}), reply_json(counts))
    result = run("inbox", ASSENT_SERVER=door.url, ASSENT_KEY="ak_1", ASSENT_USER="olga")
    assert result.stdout == "Nothing waits for the member of the key.\n"


def test_a_lost_answer_is_asked_for_again_under_the_same_key(door: Receiver) -> None:
    door.will(ReceiverReply(hang_up=True), ReceiverReply(504), reply_json(DELEGATION))
    assert at(door, "delegations", "revoke", ID).exit_code == 0
    assert len({asked.key for asked in door.received}) == 1
    assert len(door.received) == 3


def test_a_command_whose_answers_are_all_lost_is_of_unknown_outcome(door: Receiver) -> None:
    door.otherwise = lambda _: ReceiverReply(hang_up=True)
    result = at(door, "delegations", "revoke", ID, "--json")
    assert (result.exit_code, result.stdout) == (3, "")
    assert json.loads(result.stderr)["code"] == "OUTCOME_UNKNOWN"
    assert len(door.received) == 3


def test_a_read_whose_answers_are_all_lost_changed_nothing(door: Receiver) -> None:
    door.otherwise = lambda _: ReceiverReply(hang_up=True)
    result = at(door, "members", "list", "--json")
    assert (result.exit_code, json.loads(result.stderr)["code"]) == (1, "UNAVAILABLE")


def test_nothing_was_sent_where_no_connection_was_made() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        result = run("keys", "revoke", ID, "--json", ASSENT_SERVER=url, ASSENT_KEY="ak_1")
    assert (result.exit_code, json.loads(result.stderr)["code"]) == (1, "UNAVAILABLE")
    assert "nothing was sent" in result.stderr


def test_a_refusal_is_printed_as_it_came(door: Receiver) -> None:
    problem = {
        "type": "urn:assent:problem:NOT_FOUND",
        "title": "Not found",
        "status": 404,
        "code": "NOT_FOUND",
        "detail": "no member bob",
        "instance": "/api/members/bob",
        "problems": [{"code": "NOT_FOUND", "message": "no member bob", "path": ["user_id"]}],
    }
    kind = {"Content-Type": "application/problem+json"}
    door.otherwise = lambda _: ReceiverReply(404, json.dumps(problem).encode(), kind)
    result = at(door, "members", "show", "bob", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert json.loads(result.stderr) == {name: value for name, value in problem.items() if name != "instance"}
    assert "NOT_FOUND user_id: no member bob" in at(door, "members", "show", "bob").stderr


def test_a_name_is_one_part_of_a_path(door: Receiver) -> None:
    door.will(reply_json({}))
    at(door, "rules", "show", "a/../../api/org", "x?y#z", "--json")
    assert door.received[0].path == "/api/rules/a%2F..%2F..%2Fapi%2Forg/x%3Fy%23z"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--server", "http://assent.example.com", "--key", "ak_1", "inbox"], "in the clear"),
        (["--server", "ftp://x", "--key", "ak_1", "inbox"], "expected https://host"),
        (["--server", "https://ann:pw@x", "--key", "ak_1", "inbox"], "without a user or a password"),
        (["--server", "https://x", "inbox"], "expected a key"),
        (["--key", "ak_1", "inbox"], "a key is for a server"),
        (["--server", "https://x", "--key", "a b", "inbox"], "expected a key"),
        (["--server", "https://x", "--key", "ak_1", "inbox", "--as", "bob"], "decides it"),
        (["--server", "https://x", "--key", "ak_1", "inbox", "--org", "acme"], "decides it"),
        (["--server", "https://x", "--key", "ak_1", "members", "list", "--org", "acme"], "decides it"),
        (["--server", "https://x", "--key", "ak_1", "instances", "show", "01890a5d"], "expected a whole id"),
        (["--server", "https://x", "--key", "ak_1", "migrate"], "ASSENT_DATABASE_URL"),
        (["--server", "https://x", "--key", "ak_1", "org", "create", "new"], "ASSENT_DATABASE_URL"),
        (["--server", "https://x", "--key", "ak_1", "definitions", "recompile"], "ASSENT_DATABASE_URL"),
        (["--profile", "gone", "inbox"], "no profile 'gone'"),
        (["inbox", "--server", "https://x"], "stands before the command: assent --server … inbox"),
        (["members", "list", "--profile", "x"], "before the command: assent --profile … members list"),
        (["members", "list", "--keys"], "No such option"),
    ],
)
def test_what_no_server_is_asked_is_a_usage_error(words: list[str], told: str) -> None:
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert told in " ".join(result.stderr.replace("│", " ").split())


def test_profiles_are_kept_for_the_user_alone_and_chosen(door: Receiver, home: Path) -> None:
    assert run("profiles", "add", "work", "--server", door.url, text="ak_work\n").exit_code == 0
    assert home.stat().st_mode & 0o777 == 0o600
    shown = run("profiles", "list", "--json").stdout
    assert "ak_work" in home.read_text(encoding="utf-8")
    (kept,) = json.loads(shown)["items"]
    assert (kept["name"], kept["server"], kept["in_use"]) == ("work", door.url, False)
    door.otherwise = lambda _: reply_json({"items": [], "next": None})
    assert run("--profile", "work", "tasks", "list", ASSENT_KEY="ak_other").exit_code == 0
    assert door.received[-1].headers["authorization"] == "Bearer ak_work"
    assert run("profiles", "use", "work").exit_code == 0
    assert run("tasks", "list").exit_code == 0
    assert len(door.received) == 2
    # The database that the environment names goes before a profile that was chosen for all commands.
    nowhere = "postgresql://assent@127.0.0.1:1/none"
    result = run("members", "list", "--json", ASSENT_DATABASE_URL=nowhere, ASSENT_ORG="acme")
    assert (result.exit_code, len(door.received)) == (1, 2)
    assert run("profiles", "remove", "work").exit_code == 0
    assert json.loads(home.read_text(encoding="utf-8")) == {"current": None, "profiles": {}}


def test_a_file_of_profiles_that_others_may_read_is_refused(door: Receiver, home: Path) -> None:
    run("profiles", "add", "work", "--server", door.url, text="ak_work\n")
    home.chmod(0o644)
    result = run("--profile", "work", "tasks", "list")
    assert (result.exit_code, door.received) == (2, [])
    assert "chmod 600" in result.stderr


def test_a_server_is_called_without_the_runtime_and_at_little_cost(door: Receiver) -> None:
    door.otherwise = lambda _: reply_json({"items": [], "next": None})
    variables = {"ASSENT_SERVER": door.url, "ASSENT_KEY": "ak_1"}
    found = probe("instances", "list", "--json", **variables)
    assert found["code"] == 0
    assert not ((HEAVY | {"asyncpg"}) - {"httpx"}) & set(found["loaded"])  # type: ignore[call-overload]
    assert least_cpu_s("instances", "list", "--json", **variables) < CPU_S_MAX


async def test_a_server_process_is_called_by_a_command_process(database: Database, database_url: str) -> None:
    async with database.transaction(None) as connection:
        await insert_org(connection)
    await hire_with(database, "ann", "*")
    async with database.transaction(None) as connection:
        key, _ = await create_api_key(connection, "acme", "ann", "desk", database.clock.now(), scopes=("*",))
    async with server(database_url) as running:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("ASSENT_")}

        def call(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [str(ASSENT), "--server", running.url, *words],
                cwd=ROOT,
                env={**ours, "ASSENT_KEY": key, "COLUMNS": "200"},
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )

        added = call("members", "add", "bob", "--role", "clerk", "--json")
        assert (added.returncode, json.loads(added.stdout)["user_id"]) == (0, "bob")
        again = call("members", "add", "bob", "--json")
        assert (again.returncode, json.loads(again.stderr)["code"]) == (1, "ALREADY_EXISTS")
        assert "Nothing waits for the member of the key." in call("inbox").stdout
        assert json.loads(call("health", "--json").stdout)["healthy"] in (True, False)
