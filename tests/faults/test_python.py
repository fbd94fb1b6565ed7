"""Every command of the Python API, with its links cut or frozen at every commit: answers and tables agree.

A command that returns is done, once. One that raises `OutcomeUnknown` is done or not. One that raises anything else has
changed nothing, and does what it should when it is given again.
"""

import inspect
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, cast
from uuid import UUID

import pytest

import assent
from assent.model.actor import Actor
from assent.runtime import OrgRuntime, Runtime
from assent.runtime.core import Core, OrgScope
from assent.runtime.task_commands import NewTask
from assent.store.errors import OutcomeUnknown
from tests.faults.company import ORG, Acme
from tests.faults.points import Laboratory, Point, Trial, complaints_of
from tests.faults.tables import Change
from tests.http.application import CAPABILITIES, CHAIN, INVOICE_DATA, LEAVE, PEOPLE, RULE, app


def person(name: str) -> Actor:
    roles = PEOPLE[name].roles
    held = {capability for role in roles for capability in CAPABILITIES.get(role, ())}
    return Actor(name, roles=frozenset(roles), capabilities=frozenset(held))


ALICE, BOB, FIN, MAX, OLGA, ADAM = (person(name) for name in ("alice", "bob", "fin", "max", "olga", "adam"))

Parts = dict[str, str]
Operation = Callable[[Runtime, Parts], Awaitable[Any]]


def _mutate(verb: str, actor: Actor, payload: dict[str, Any], entity: str | None = None) -> Operation:
    async def operation(runtime: Runtime, parts: Parts) -> Any:
        entity_id = UUID(parts[entity]) if entity else None
        return await runtime.org(ORG, actor).entities.mutate(f"invoice.{verb}", payload, entity_id)

    return operation


async def _mutate_many(runtime: Runtime, parts: Parts) -> Any:
    return await runtime.org(ORG, ALICE).entities.mutate_many(
        [assent.Change("invoice.create", {**INVOICE_DATA, "number": str(n)}) for n in range(3)]
    )


def _by(method: str, part: str, actor: Actor | None, *arguments: Any, **more: Any) -> Operation:
    """Return a command, such as `instances.pause`, to what a part of acme's names."""

    def operation(runtime: Runtime, parts: Parts) -> Awaitable[Any]:
        command = attrgetter(method)(runtime.org(ORG, actor))
        return command(UUID(parts[part]), *arguments, **more)  # type: ignore[no-any-return]

    return operation


async def _cancel_token(runtime: Runtime, parts: Parts) -> Any:
    return await runtime.org(ORG, OLGA).instances.cancel_token(UUID(parts["split_id"]), parts["left_token"])


VAULT = {"cargo": "external://vault/7"}

COMMANDS: dict[str, Operation] = {
    "entities.mutate to create": _mutate("create", ALICE, INVOICE_DATA),
    "entities.mutate to create under an id": _mutate("create", ALICE, INVOICE_DATA, "unused_id"),
    "entities.mutate to update": _mutate("update", ALICE, {"grand_total": 5}, "draft_invoice_id"),
    "entities.mutate to amend": _mutate("amend", ALICE, {"grand_total": 5}, "locked_id"),
    "entities.mutate_many": _mutate_many,
    "entities.transition": _by("entities.transition", "draft_invoice_id", ALICE, "submit"),
    "instances.start": lambda runtime, _: runtime.org(ORG, ALICE).instances.start("pair", {}),
    "instances.start under a key": lambda runtime, _: runtime.org(ORG, ALICE).instances.start(
        "pair", {}, idempotency_key="k"
    ),
    "instances.start_many": lambda runtime, _: runtime.org(ORG, ALICE).instances.start_many("pair", [{}, {}]),
    "instances.advance": _by("instances.advance", "survey_id", ALICE, "completed", {"rating": 3}),
    "instances.cancel": _by("instances.cancel", "survey_id", OLGA, "enough"),
    "instances.pause": _by("instances.pause", "survey_id", OLGA),
    "instances.resume": _by("instances.resume", "paused_id", OLGA),
    "instances.retry": _by("instances.retry", "failed_id", OLGA),
    "instances.skip": _by("instances.skip", "failed_id", OLGA, "confirm", "confirm->end"),
    "instances.cancel_token": _cancel_token,
    "instances.force_fail": _by("instances.force_fail", "survey_id", OLGA, "enough"),
    "events.emit": lambda runtime, _: runtime.org(ORG, OLGA).events.emit("payment:9", {}),
    "events.emit without an actor": lambda runtime, _: runtime.org(ORG).events.emit("payment:9", {}),
    "approvals.decide": _by("approvals.decide", "request_id", FIN, "approved"),
    "approvals.reassign": _by("approvals.reassign", "request_id", OLGA, from_user="fin", to_user="max"),
    "approvals.claim": _by("approvals.claim", "request_id", FIN),
    "approvals.release": _by("approvals.release", "claimed_id", FIN),
    "forms.claim": _by("forms.claim", "step_id", ALICE),
    "forms.release": _by("forms.release", "claimed_form_id", ALICE),
    "forms.save_draft": _by("forms.save_draft", "step_id", ALICE, {"rating": 2}),
    "forms.reassign": _by("forms.reassign", "step_id", ALICE, from_user="alice", to_user="max"),
    "operations.rebuild": _by("operations.rebuild", "survey_id", ADAM),
    "operations.reenqueue": _by("operations.reenqueue", "survey_id", ADAM),
    "dead_letters.retry an event": _by("dead_letters.retry", "event_letter_id", OLGA, "event"),
    "dead_letters.retry an effect": _by("dead_letters.retry", "letter_id", ADAM, "effect"),
    "dead_letters.retry a result": _by("dead_letters.retry", "result_letter_id", ADAM, "result"),
    "dead_letters.retry_all effects": lambda runtime, _: runtime.org(ORG, ADAM).dead_letters.retry_all(
        "effect"
    ),
    "dead_letters.retry_all results": lambda runtime, _: runtime.org(ORG, ADAM).dead_letters.retry_all(
        "result"
    ),
    "requests.push_result": _by("requests.push_result", "asked_id", OLGA, "k", [VAULT]),
    "requests.push_result without an actor": _by("requests.push_result", "asked_id", None, "k", [VAULT]),
    "tasks.submit": lambda runtime, _: runtime.org(ORG, ADAM).tasks.submit("report.build", {"month": "May"}),
    "tasks.submit without an actor": lambda runtime, _: runtime.org(ORG).tasks.submit(
        "report.build", {"month": "May"}
    ),
    "tasks.submit_many": lambda runtime, _: runtime.org(ORG, ADAM).tasks.submit_many(
        [NewTask("report.build", {"month": month}) for month in ("May", "June")]
    ),
    "tasks.cancel": _by("tasks.cancel", "task_id", ADAM),
    "tasks.retry": _by("tasks.retry", "dead_task_id", ADAM),
    "tasks.retry_all": lambda runtime, _: runtime.org(ORG, ADAM).tasks.retry_all(),
    "instances.edit_variables": _by("instances.edit_variables", "paused_survey_id", ADAM, {"order": 8}),
    "dead_letters.discard": _by("dead_letters.discard", "letter_id", ADAM, "enough"),
    "settings.change": lambda runtime, _: runtime.org(ORG, ADAM).settings.change({"budget": 7}),
    "settings.save": lambda runtime, _: runtime.org(ORG, ADAM).settings.save({"budget": 7}),
    "rules.save": lambda runtime, _: runtime.org(ORG, ADAM).rules.save(
        {**RULE, "entity_type": "invoice", "name": "n"}
    ),
    "rules.delete": lambda runtime, _: runtime.org(ORG, ADAM).rules.delete("invoice", "cancel"),
    "chains.save": lambda runtime, _: runtime.org(ORG, ADAM).chains.save({**CHAIN, "chain": "n"}),
    "secrets.set": lambda runtime, _: runtime.org(ORG, ADAM).secrets.set(
        "erp", "s3cret-of-erp", ["erp.example"]
    ),
    "secrets.delete": lambda runtime, _: runtime.org(ORG, ADAM).secrets.delete("cancel"),
    "signing_secrets.rotate": lambda runtime, _: runtime.org(ORG, ADAM).signing_secrets.rotate(),
    "signing_secrets.retire": lambda runtime, _: runtime.org(ORG, ADAM).signing_secrets.retire(),
    "definitions.archive": _by("definitions.archive", "definition_id", ADAM),
    "definitions.roll_back": _by("definitions.roll_back", "earlier_id", ADAM),
    "definitions.publish": lambda runtime, _: runtime.org(ORG, ADAM).definitions.publish(
        {**LEAVE, "flow": "n"}
    ),
}
READS = {
    *("approvals.count_inbox", "approvals.get", "approvals.inbox", "chains.get", "chains.list"),
    *("entities.audit", "entities.compare", "entities.decisions", "entities.get", "entities.list"),
    *("entities.versions", "instances.get", "instances.history", "instances.list", "operations.incidents"),
    *("operations.list_incidents", "rules.get", "rules.list", "rules.list_evaluations", "secrets.list"),
    *("settings.read", "signing_secrets.list"),
    "dead_letters.list",
    "definitions.list_versions",
    "forms.get",
    "operations.fold",
    "tasks.get",
    "tasks.list",
}
WITHIN = {"requests.push_bundle"}
"""What commands are made of."""


@pytest.mark.parametrize("name", COMMANDS)
async def test_answers_and_tables_agree(laboratory: Laboratory, acme: Acme, name: str) -> None:
    operation = COMMANDS[name]

    async def give(trial: Trial[Exception]) -> Exception | None:
        try:
            await operation(app.runtime(trial.database), acme.parts)
        except Exception as error:
            return error
        return None

    async def disturb(point: Point) -> tuple[Change, str | None]:
        async with laboratory.trial(point) as trial:
            await laboratory.run(give, trial)
            assert trial.change is not None
            return trial.change, await _complaint(trial, done, give)

    async with laboratory.trial() as trial:
        done = (await laboratory.run(give, trial)).change
        order = list(trial.proxy.order)
    assert trial.result is None, repr(trial.result)
    assert done is not None
    assert not done.is_nothing, "expected a command that changes something"
    complaints = await complaints_of(disturb, order)
    assert not complaints, "\n".join(complaints)


async def _complaint(trial: Trial[Any], done: Change, give: Any) -> str | None:
    change, error = trial.change, trial.result
    assert change is not None
    if error is None:
        return None if change.is_like(done) else f"returned, and the tables say {change}"
    if isinstance(error, OutcomeUnknown) and change.is_like(done):
        return None
    if not change.is_nothing:
        return f"{error!r}, and the tables say {change}"
    again = await give(trial)
    found = await trial.look()
    return None if again is None and found.is_like(done) else f"{error!r}; again {again!r}: {found}"


def test_every_command_is_disturbed() -> None:
    org = OrgRuntime(OrgScope(cast("Core", None), ORG))
    found = {
        f"{noun}.{name}"
        for noun in OrgRuntime.__slots__
        if noun != "scope"
        for name, _ in inspect.getmembers(type(getattr(org, noun)), inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    tried = {name.partition(" ")[0] for name in COMMANDS}
    assert found - READS - WITHIN <= tried
    assert tried | READS | WITHIN <= found
