"""Every command that writes, with its links cut or frozen at every commit: output, exit code and tables agree.

Exit code 0: it is done, once, and standard output says so. 1: nothing was changed. 3: the outcome is unknown, and
standard error says so. A command that does several things says of each what became of it.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import pytest
import typer
from typer.testing import Result

from assent.cli.main import app
from assent.store.database import Database
from tests.authored import END, arrows, form
from tests.cli.desk import Desk
from tests.faults.company import NOW, ORG, Acme
from tests.faults.points import SHORT, TRIES, Laboratory, Point, Trial, complaints_of, opened
from tests.faults.tables import TableChange
from tests.http.application import CHAIN, LEAVE, RULE, SCHEDULE
from tests.http.application import app as application
from tests.postgres import SETTINGS, Databases
from tests.runtime.definitions import older_compiler
from tests.runtime.spoiling import projection, put_back
from tests.world import ANN, publish_steps

APP: Final = "tests.http.application:app"
DONE, REFUSED, UNKNOWN = 0, 1, 3
DEADLINES: Final = {
    f"ASSENT_{name.upper()}": str(getattr(SHORT, name))
    for name in (
        "pool_wait_timeout_ms",
        "statement_timeout_ms",
        "statement_slack_ms",
        "cancel_timeout_ms",
        "lock_timeout_ms",
    )
}
"""The deadlines of the laboratory, for a process that reads them from its environment."""


@dataclass(frozen=True)
class Given:
    """A command with its arguments, in which `{name}` stands for a part of acme, and who runs it."""

    words: tuple[str, ...]
    user: str = "adam"
    text: str | None = field(default=None, repr=False)
    """Its standard input."""
    is_repeatable: bool = True
    """Whether the same again ends as once, the audit log included."""

    def __str__(self) -> str:
        return " ".join(self.words)


BOUND: Final = {"type": "report.build", "input": {"month": "all"}}
COMMANDS: Final = {
    "start": Given(("instances", "start", "pair"), "alice", is_repeatable=False),
    "start under a key": Given(("instances", "start", "pair", "--key", "k"), "alice"),
    "approve": Given(("approvals", "decide", "{request_id}", "approved"), "fin"),
    "advance": Given(("instances", "advance", "{survey_id}", "completed", "--data", "rating=4"), "alice"),
    "entities create": Given(
        ("entities", "create", "expense", "-d", "title=Taxi", "-d", "total=7", "--id", "{unused_id}"), "alice"
    ),
    "entities change": Given(
        ("entities", "change", "invoice", "{draft_invoice_id}", "--version", "1", "-d", "grand_total=7"),
        "alice",
    ),
    "entities act": Given(
        (
            "entities",
            "act",
            "invoice",
            "{draft_invoice_id}",
            "update",
            "--version",
            "1",
            "-d",
            "grand_total=7",
        ),
        "alice",
    ),
    "entities transition": Given(
        ("entities", "transition", "invoice", "{draft_invoice_id}", "submit", "--version", "1"), "alice"
    ),
    # Submitted again under its key it is the same task, and the audit log has an entry of each submission.
    "tasks submit": Given(
        ("tasks", "submit", "report.build", "-d", "month=May", "--key", "may"), is_repeatable=False
    ),
    "tasks submit-batch": Given(
        ("tasks", "submit-batch", "-"),
        text=json.dumps({"tasks": [{"type": "report.build", "input": {"month": "May"}}], "then": BOUND}),
        is_repeatable=False,
    ),
    "tasks cancel": Given(("tasks", "cancel", "{task_id}")),
    "tasks complete": Given(("tasks", "complete", "{background_task_id}", "-d", "pages=3")),
    "tasks fail": Given(("tasks", "fail", "{background_task_id}", "--message", "no paper")),
    "tasks retry": Given(("tasks", "retry", "{dead_task_id}")),
    "schedules save": Given(("schedules", "save", "nightly", "-"), text=json.dumps(SCHEDULE)),
    "schedules pause": Given(("schedules", "pause", "cancel")),
    "schedules resume": Given(("schedules", "resume", "paused")),
    "schedules run": Given(("schedules", "run", "cancel"), is_repeatable=False),
    "schedules delete": Given(("schedules", "delete", "cancel")),
    "delegations create": Given(("delegations", "create", "carol"), "bob", is_repeatable=False),
    "delegations revoke": Given(("delegations", "revoke", "{delegation_id}")),
    "attachments remove": Given(
        ("attachments", "remove", "invoice", "{entity_id}", "{attachment_id}", "--reason", "wrong"), "alice"
    ),
    "attachments erase": Given(
        ("attachments", "erase", "invoice", "{entity_id}", "{attachment_id}", "--reason", "asked to")
    ),
    "comments add": Given(
        ("comments", "add", "invoice", "{draft_invoice_id}", "fine"), "alice", is_repeatable=False
    ),
    "questions ask": Given(("questions", "ask", "{request_id}", "Why?"), "fin", is_repeatable=False),
    "questions answer": Given(("questions", "answer", "{question_id}", "So."), "alice"),
    "forms claim": Given(("forms", "claim", "{step_id}"), "alice", is_repeatable=False),
    "forms release": Given(("forms", "release", "{claimed_form_id}"), "alice", is_repeatable=False),
    "forms save-draft": Given(
        ("forms", "save-draft", "{step_id}", "-d", "rating=4"), "alice", is_repeatable=False
    ),
    "forms reassign": Given(("forms", "reassign", "{step_id}", "alice", "robot"), "alice"),
    "transition": Given(("instances", "advance", "{draft_invoice_id}", "submit"), "alice"),
    "cancel": Given(("instances", "cancel", "{survey_id}"), "olga"),
    "pause": Given(("instances", "pause", "{survey_id}"), "olga"),
    "resume": Given(("instances", "resume", "{paused_id}"), "olga"),
    "retry": Given(("instances", "retry", "{failed_id}"), "olga"),
    "skip": Given(("instances", "skip", "{failed_id}", "confirm", "confirm->end"), "olga"),
    "claim": Given(("approvals", "claim", "{request_id}"), "fin", is_repeatable=False),
    "release": Given(("approvals", "release", "{claimed_id}"), "fin", is_repeatable=False),
    "reassign": Given(("approvals", "reassign", "{request_id}", "fin", "max"), "olga"),
    "publish": Given(
        ("definitions", "publish", "-", "--org", "acme"), text=json.dumps({**LEAVE, "flow": "n"})
    ),
    "members add": Given(("members", "add", "newcomer", "--role", "clerk")),
    "members change": Given(("members", "change", "alice", "--name", "Alice A.")),
    "members remove": Given(("members", "remove", "alice")),
    "roles grant": Given(("roles", "grant", "clerk", "events:emit")),
    "keys revoke": Given(("keys", "revoke", "{key_id}")),
    "secrets delete": Given(("secrets", "delete", "cancel")),
    "keys create": Given(("keys", "create", "--user", "alice", "--name", "import"), is_repeatable=False),
    "secrets set": Given(
        ("secrets", "set", "erp", "--host", "erp.example"), text="s3cret-of-erp", is_repeatable=False
    ),
    "events emit": Given(("events", "emit", "payment:9", "--cause", "c"), "olga"),
    "force-fail": Given(("instances", "force-fail", "{survey_id}", "--reason", "enough")),
    "cancel-token": Given(("instances", "cancel-token", "{split_id}", "{left_token}", "--reason", "enough")),
    "edit": Given(("instances", "edit", "{paused_survey_id}", "--data", "order=8"), is_repeatable=False),
    "org create": Given(("org", "create", "newco")),
    "org set": Given(("org", "set", "limit=5")),
    "org unset": Given(("org", "unset", "limit")),
    "rules save": Given(
        ("rules", "save", "-"), text=json.dumps({**RULE, "entity_type": "invoice", "name": "n"})
    ),
    "rules delete": Given(("rules", "delete", "invoice", "cancel")),
    "chains save": Given(("chains", "save", "-"), text=json.dumps({**CHAIN, "chain": "n"})),
    "signing-secrets rotate": Given(("signing-secrets", "rotate"), is_repeatable=False),
    "signing-secrets retire": Given(("signing-secrets", "retire")),
    "documents create": Given(("documents", "create", "passport", "c-1"), is_repeatable=False),
    "documents add-version": Given(
        ("documents", "add-version", "{document_id}", "-d", "number=7"), is_repeatable=False
    ),
    "documents verify": Given(("documents", "verify", "{document_id}", "{version_id}")),
    "documents reject": Given(
        ("documents", "reject", "{document_id}", "{version_id}", "--code", "UNREADABLE")
    ),
    "documents erase": Given(("documents", "erase", "{document_id}", "{version_id}", "--reason", "asked to")),
    "requirements create": Given(("requirements", "create", "c-1", "passport")),
    "requirements waive": Given(("requirements", "waive", "{requirement_id}", "--reason", "seen")),
    "requirements reset": Given(("requirements", "reset", "{waived_id}", "--reason", "he is back")),
    "requirements save-code": Given(
        (
            *("requirements", "save-code", "FOLDED", "--category", "quality", "--client-message", "a"),
            *("--ops-message", "b", "--next-action", "c"),
        ),
        is_repeatable=False,
    ),
    "drafts create": Given(("drafts", "create", "-"), text=json.dumps({**LEAVE, "flow": "n"})),
    "drafts change": Given(
        ("drafts", "change", "{draft_id}", "-", "--version", "*"),
        text=json.dumps({**LEAVE, "flow": "draft", "timeout": "72h"}),
    ),
    "drafts discard": Given(("drafts", "discard", "{draft_id}")),
    "drafts publish": Given(("drafts", "publish", "{draft_id}", "--version", "*")),
    "definitions archive": Given(("definitions", "archive", "{definition_id}")),
    "definitions rollback": Given(("definitions", "rollback", "{earlier_id}"), is_repeatable=False),
    "event-sources create": Given(("event-sources", "create", "n", "n:")),
    "event-sources rotate": Given(("event-sources", "rotate", "cancel"), is_repeatable=False),
    "event-sources retire": Given(("event-sources", "retire", "cancel")),
    "event-sources delete": Given(("event-sources", "delete", "cancel")),
    "filters save": Given(("filters", "save", "invoice", "mine", "-"), text=json.dumps({"state": ["draft"]})),
    "filters delete": Given(("filters", "delete", "invoice", "cancel")),
    "mail-templates save": Given(
        ("mail-templates", "save", "asked", "en", "-"), text=json.dumps({"subject": "{what}"})
    ),
    "mail-templates delete": Given(("mail-templates", "delete", "escalated", "en")),
    "preferences set": Given(("preferences", "set", "--language", "de"), "alice"),
    "roles save": Given(("roles", "save", "reader", "audit:read")),
    "outside-requests push": Given(
        ("outside-requests", "push", "{asked_id}", "--key", "k", "--item", "external://vault/7"), "olga"
    ),
    "instances reenqueue": Given(("instances", "reenqueue", "{survey_id}"), is_repeatable=False),
    "requirements solicit": Given(("requirements", "solicit", "c-8", "passport"), is_repeatable=False),
    "verbs run": Given(("verbs", "run", "(requirement.create :subject-entity-id c-8 :doc-type passport)")),
    "outside-requests upload-link": Given(
        ("outside-requests", "upload-link", "{solicited_id}"), is_repeatable=False
    ),
    "outside-requests revoke-links": Given(
        ("outside-requests", "revoke-links", "{solicited_id}"), is_repeatable=False
    ),
    "org test-alert": Given(("org", "test-alert"), is_repeatable=False),
}
SEVERAL: Final = {
    "retry an event": Given(("dead-letters", "retry", "{event_letter_id}"), "adam"),
    "retry two": Given(("dead-letters", "retry", "{dead_task_id}", "{result_letter_id}"), "adam"),
    "retry all": Given(("dead-letters", "retry-all"), "adam"),
    "discard two": Given(
        ("dead-letters", "discard", "{dead_task_id}", "{result_letter_id}", "--reason", "enough"), "adam"
    ),
}
"""Commands that commit one thing after the other."""


READING: Final = {
    *("attachments list", "attachments download"),
    *("comments list", "questions list", "questions show", "services list"),
    *("inbox", "instances list", "instances show", "definitions list", "doctor", "health", "audit"),
    *("members list", "roles list", "keys list", "secrets list", "events list", "dead-letters list"),
    *(
        "approvals show",
        "incidents",
        "org show",
        "org partitions",
        "rules list",
        "rules show",
        "rules evaluations",
    ),
    *("chains list", "chains show", "signing-secrets list"),
    *("nodes", "schedules list", "schedules show", "schedules next"),
    *("tasks list", "tasks show", "tasks log", "tasks tree", "resources list", "resources show"),
    *("delegations list", "forms show"),
    *("entities list", "entities show", "entities versions", "entities diff", "entities audit"),
    *(
        "entities contract",
        "entities count",
        "entities indexes",
        "instances count",
        "instances path",
        "instances step",
        "instances steps",
        "instances stuck",
    ),
    *("documents list", "documents show", "requirements list", "requirements show", "requirements codes"),
    *("documents download", "documents link", "requirements count", "verbs list"),
    *("definitions show", "definitions compare", "definitions draw", "drafts show", "event-sources list"),
    *("filters list", "filters show", "mail-templates list", "mail-templates show", "mail-templates preview"),
    *("preferences show", "members show", "roles show", "outside-requests list", "outside-requests show"),
}
WITHOUT_A_DATABASE: Final = {
    *("check", "test", "compile", "diagram", "diff", "schema", "expression"),
    *("templates list", "templates show", "templates copy"),
    *("profiles add", "profiles list", "profiles remove", "profiles use"),
}
NOT_ONE_TRANSACTION: Final = {"documents upload", "attachments add"}
"""The row of a file is committed before its first byte; they call what `test_uploads.py` tries."""
AS_THEIR_NEIGHBOUR: Final = {"members restore", "roles revoke"}
"""The same function as a command that is tried, with another argument."""
ELSEWHERE: Final = {"worker", "serve", "demo"}
"""Processes of their own (`test_duties`, `test_http`)."""


@dataclass(frozen=True)
class Upkeep:
    """A command of an operator that commits one transaction after the other, and the database that needs it."""

    given: Given
    spoil: Callable[[Database, dict[str, str]], Awaitable[None]] | None
    """Make the work; None for a database without a schema."""


async def _spoil_instance(database: Database, parts: dict[str, str]) -> None:
    instance_id = UUID(parts["survey_id"])
    before = await projection(database, instance_id)
    await put_back(database, instance_id, {**before, "active_tokens": [], "current_nodes": []})


async def _leave_stale_definitions(database: Database, parts: dict[str, str]) -> None:
    with older_compiler():
        runtime = application.runtime(database)
        for name in ("stale.one", "stale.two"):
            await publish_steps(database, name, [form("ask"), END], arrows("ask", "end", event="done"))
            for _ in range(2):
                await runtime.org(ORG, ANN).instances.start(name)


UPKEEP: Final = {
    "rebuild": Upkeep(Given(("rebuild", "{survey_id}"), "olga"), _spoil_instance),
    "recompile": Upkeep(Given(("definitions", "recompile")), _leave_stale_definitions),
    "migrate": Upkeep(Given(("migrate",)), None),
}


class CommandTerminal:
    """Runs commands one at a time: they share the environment and the standard output of this process."""

    _one_at_a_time = asyncio.Lock()

    def __init__(self, url: str, parts: dict[str, str]) -> None:
        self._desk = Desk(url, APP)
        self._desk.environment |= DEADLINES | {"ASSENT_PUBLIC_URL": "https://flows.example.com"}
        self._parts = parts

    async def run(self, given: Given) -> Result:
        words = [word.format(**self._parts) for word in given.words]
        async with self._one_at_a_time:
            return await self._desk.attempt(*words, user=given.user, text=given.text)


@pytest.mark.parametrize("name", COMMANDS)
async def test_exit_code_output_and_tables_agree(laboratory: Laboratory, acme: Acme, name: str) -> None:
    given = COMMANDS[name]

    async def run(trial: Trial[Result]) -> Result:
        return await CommandTerminal(trial.proxy.url, acme.parts).run(given)

    async with laboratory.trial() as trial:
        undisturbed = (await laboratory.run(run, trial)).result
        order, done = list(trial.proxy.order), trial.change
    assert undisturbed is not None
    assert done is not None
    assert undisturbed.exit_code == DONE, undisturbed.output
    assert not done.is_nothing, "expected a command that changes something"

    async def disturb(point: Point) -> tuple[TableChange, str | None]:
        async with laboratory.trial(point) as trial:
            result = (await laboratory.run(run, trial)).result
            change = trial.change
            assert result is not None
            assert change is not None
            said = f"{result.exit_code} {result.stdout!r} {result.stderr!r}"
            wrong = _lie(result, change, done, undisturbed)
            if wrong is None and (change.is_nothing or given.is_repeatable):
                wrong = await _complaint_of_repeat(trial, run, change, done)
            return change, f"{said}: {wrong}" if wrong else None

    complaints = await complaints_of(disturb, order)
    assert not complaints, "\n".join(complaints)


def _lie(result: Result, change: TableChange, done: TableChange, undisturbed: Result) -> str | None:
    """What is wrong with what a command says."""
    if result.exit_code == DONE:
        if not change.is_like(done):
            return f"done, and the tables say {change}"
        same = len(result.stdout.splitlines()) == len(undisturbed.stdout.splitlines())
        return None if same else "it does not say what was done"
    if result.stdout:
        return "it failed, and standard output says something"
    if result.exit_code == UNKNOWN:
        if "unknown" not in result.stderr:
            return "standard error does not say that the outcome is unknown"
        return None if change.is_nothing or change.is_like(done) else f"unknown, and half done: {change}"
    is_right = result.exit_code == REFUSED and change.is_nothing
    return None if is_right else f"failed, and the tables say {change}"


async def _complaint_of_repeat(
    trial: Trial[Any], run: Any, change: TableChange, done: TableChange
) -> str | None:
    """What is wrong after the same command again: a person who reads an error types it once more.

    On a busy machine a deadline of the laboratory may be over: the person reads so, sees nothing done, and repeats.
    """
    for _ in range(TRIES):
        again = await run(trial)
        found = await trial.look()
        if not ("UNAVAILABLE" in again.output and found.is_nothing):
            break
    if found.is_like(done):
        return None if again.exit_code in (DONE, REFUSED) else f"again {again.exit_code} {again.output}"
    return f"again {again.exit_code} {again.output!r}: {found}"


@pytest.mark.parametrize("name", SEVERAL)
async def test_command_that_does_several_things_says_what_became_of_each(
    laboratory: Laboratory, acme: Acme, name: str
) -> None:
    """As JSON: what was tried again is counted, and what was not is named with its reason."""
    given = SEVERAL[name]
    given = Given((*given.words, "--json"), given.user)

    async def run(trial: Trial[Result]) -> Result:
        return await CommandTerminal(trial.proxy.url, acme.parts).run(given)

    async with laboratory.trial() as trial:
        undisturbed = (await laboratory.run(run, trial)).result
        order, done = list(trial.proxy.order), trial.change
    assert undisturbed is not None
    assert done is not None
    assert undisturbed.exit_code == DONE, undisturbed.output

    async def disturb(point: Point) -> tuple[TableChange, str | None]:
        async with laboratory.trial(point) as trial:
            result = (await laboratory.run(run, trial)).result
            change = trial.change
            assert result is not None
            assert change is not None
            wrong = _miscount(result, change)
            if wrong is None:
                wrong = await _complaint_of_repeat(trial, run, change, done)
            return change, f"{result.exit_code} {result.output!r}: {wrong}" if wrong else None

    complaints = await complaints_of(disturb, order)
    assert not complaints, "\n".join(complaints)


def _miscount(result: Result, change: TableChange) -> str | None:
    retried = sum(
        number
        for action, number in change.actions.items()
        if action.endswith((".retry", ".revive", ".discard"))
    )
    if result.exit_code == DONE or result.stdout:
        body = json.loads(result.stdout)
        counted = sum(number for name, number in body.items() if name != "refused")
        unknown = sum(one["code"] == "OUTCOME_UNKNOWN" for one in body["refused"])
        is_right = counted <= retried <= counted + unknown
        return None if is_right else f"it counts {counted}, and the audit log has {change.actions}"
    return (
        None if change.is_nothing or result.exit_code == UNKNOWN else f"failed, and the tables say {change}"
    )


@pytest.mark.parametrize("name", UPKEEP)
async def test_upkeep_that_is_cut_off_claims_nothing_and_is_finished_by_the_next_run(
    databases: Databases, acme: Acme, name: str
) -> None:
    given, spoil = UPKEEP[name].given, UPKEEP[name].spoil
    async with databases.fresh(acme.template if spoil else "template1") as url:
        if spoil:
            async with opened(url, SETTINGS, NOW) as database:
                await spoil(database, acme.parts)
        laboratory = Laboratory(databases, urlsplit(url).path.removeprefix("/"))
        one_at_a_time = asyncio.Lock()

        async def run(trial: Trial[Result]) -> Result:
            return await CommandTerminal(trial.proxy.url, acme.parts).run(given)

        async with laboratory.trial() as trial:
            undisturbed = (await laboratory.run(run, trial)).result
            order, done = list(trial.proxy.order), trial.change
        assert undisturbed is not None
        assert done is not None
        assert undisturbed.exit_code == DONE, undisturbed.output
        assert not done.is_nothing

        async def disturb(point: Point) -> tuple[TableChange, str | None]:
            # One at a time: an answer in time means without waiting for another command.
            async with one_at_a_time, laboratory.trial(point) as trial:
                result = (await laboratory.run(run, trial)).result
                change = trial.change
                assert result is not None
                assert change is not None
                wrong = _false_claim(result, change, done)
                if wrong is None:
                    wrong = await _complaint_of_repeat(trial, run, change, done)
                return change, f"{result.exit_code} {result.output!r}: {wrong}" if wrong else None

        complaints = await complaints_of(disturb, order)
        assert not complaints, "\n".join(complaints)


def _false_claim(result: Result, change: TableChange, done: TableChange) -> str | None:
    """What is wrong with what a run says that may have been cut off between two of its transactions."""
    if result.exit_code == DONE:
        return None if change.is_like(done) else f"done, and the tables say {change}"
    if result.exit_code == UNKNOWN:
        return None if "unknown" in result.stderr else "it does not say that the outcome is unknown"
    if result.exit_code != REFUSED:
        return "no exit code of ours"
    claims = "nothing was changed" in result.output
    return (
        f"nothing was changed, it says, and the tables say {change}"
        if claims and not change.is_nothing
        else None
    )


def test_every_command_that_writes_is_disturbed() -> None:
    upkeep = [one.given for one in UPKEEP.values()]
    tried = {given.words for given in (*COMMANDS.values(), *SEVERAL.values(), *upkeep)}
    found = {" ".join(words) for words in _commands(app)}
    excused = READING | WITHOUT_A_DATABASE | NOT_ONE_TRANSACTION | AS_THEIR_NEIGHBOUR | ELSEWHERE
    assert excused <= found
    assert found - excused == {
        name for name in found for words in tried if f"{' '.join(words)} ".startswith(f"{name} ")
    }


def _commands(group: typer.Typer, *path: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command below a group."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*path, command.name or command.callback.__name__)
    for below in group.registered_groups:
        assert below.typer_instance is not None
        yield from _commands(below.typer_instance, *path, str(below.name))
