"""Every command of the Python API, with its links cut or frozen at every commit: answers and tables agree.

A command that returns is done, once. One that raises `OutcomeUnknown` is done or not. One that raises anything else has
changed nothing, and does what it should when it is given again.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from assent.definitions import publish_flow
from assent.model.actor import Actor
from assent.model.mutation import Command
from assent.runtime import Runtime
from assent.runtime.task_commands import NewTask
from assent.store.errors import OutcomeUnknown
from tests.faults.company import NOW, ORG, Acme
from tests.faults.points import Laboratory, Point, Trial, complaints_of
from tests.faults.tables import Change
from tests.http.application import CAPABILITIES, INVOICE_DATA, PEOPLE, app
from tests.http.test_definitions import LEAVE


def person(name: str) -> Actor:
    roles, _ = PEOPLE[name]
    held = {capability for role in roles for capability in CAPABILITIES.get(role, ())}
    return Actor(name, roles=frozenset(roles), capabilities=frozenset(held))


ALICE, BOB, FIN, MAX, OLGA, ADAM = (person(name) for name in ("alice", "bob", "fin", "max", "olga", "adam"))

Parts = dict[str, str]
Operation = Callable[[Runtime, Parts], Awaitable[Any]]


def _mutate(verb: str, actor: Actor, payload: dict[str, Any], entity: str | None = None) -> Operation:
    async def operation(runtime: Runtime, parts: Parts) -> Any:
        entity_id = UUID(parts[entity]) if entity else None
        return await runtime.kernel.mutate(Command(ORG, f"invoice.{verb}", actor, payload, entity_id))

    return operation


async def _mutate_many(runtime: Runtime, parts: Parts) -> Any:
    return await runtime.kernel.mutate_many(
        [Command(ORG, "invoice.create", ALICE, {**INVOICE_DATA, "number": str(n)}) for n in range(3)]
    )


def _by(method: str, part: str, *arguments: Any, **more: Any) -> Operation:
    """A command to what a part of acme's names."""
    return lambda runtime, parts: getattr(runtime, method)(ORG, UUID(parts[part]), *arguments, **more)


async def _cancel_token(runtime: Runtime, parts: Parts) -> Any:
    kept, _ = await runtime.folded(ORG, UUID(parts["split_id"]))
    token = next(token.id for token in kept.tokens.values() if token.node == "left")
    return await runtime.cancel_token(ORG, kept.id, OLGA, token)


async def _publish(runtime: Runtime, parts: Parts) -> Any:
    async with runtime.database.transaction(ORG) as connection:
        await publish_flow(connection, ORG, {**LEAVE, "flow": "n"}, ADAM, NOW)


COMMANDS: dict[str, Operation] = {
    "create": _mutate("create", ALICE, INVOICE_DATA),
    "create under an id": _mutate("create", ALICE, INVOICE_DATA, "unused_id"),
    "update": _mutate("update", ALICE, {"grand_total": 5}, "draft_invoice_id"),
    "amend": _mutate("amend", ALICE, {"grand_total": 5}, "locked_id"),
    "mutate_many": _mutate_many,
    "start": lambda runtime, _: runtime.start(ORG, "pair", ALICE, {}),
    "start under a key": lambda runtime, _: runtime.start(ORG, "pair", ALICE, {}, idempotency_key="k"),
    "start_many": lambda runtime, _: runtime.start_many(ORG, "pair", ALICE, [{}, {}]),
    "emit": lambda runtime, _: runtime.emit(ORG, "payment:9", {}, actor=OLGA),
    "emit without an actor": lambda runtime, _: runtime.emit(ORG, "payment:9", {}),
    "advance": _by("advance", "survey_id", "completed", ALICE, {"rating": 3}),
    "transition": _by("transition", "draft_invoice_id", "submit", ALICE),
    "cancel": _by("cancel", "survey_id", OLGA, "enough"),
    "pause": _by("pause", "survey_id", OLGA),
    "resume": _by("resume", "paused_id", OLGA),
    "retry": _by("retry", "failed_id", OLGA),
    "skip": _by("skip", "failed_id", OLGA, "confirm", "confirm->end"),
    "cancel_token": _cancel_token,
    "force_fail": _by("force_fail", "survey_id", OLGA, "enough"),
    "revive": _by("revive", "event_letter_id", OLGA),
    "decide": _by("decide", "request_id", "approved", FIN),
    "reassign": _by("reassign", "request_id", OLGA, from_user="fin", to_user="max"),
    "claim": _by("claim", "request_id", FIN),
    "release": _by("release", "claimed_id", FIN),
    "claim_form": _by("claim_form", "step_id", ALICE),
    "release_form": _by("release_form", "claimed_form_id", ALICE),
    "save_draft": _by("save_draft", "step_id", ALICE, {"rating": 2}),
    "reassign_form": _by("reassign_form", "step_id", ALICE, from_user="alice", to_user="max"),
    "rebuild": _by("rebuild", "survey_id", ADAM),
    "reenqueue": _by("reenqueue", "survey_id", ADAM),
    "retry_effect": _by("retry_effect", "letter_id", ADAM),
    "retry_effects": lambda runtime, _: runtime.retry_effects(ORG, actor=ADAM),
    "push_result": _by("push_result", "asked_id", "k", [{"cargo": "external://vault/7"}], actor=OLGA),
    "push_result without an actor": _by("push_result", "asked_id", "k", [{"cargo": "external://vault/7"}]),
    "retry_result": _by("retry_result", "result_letter_id", ADAM),
    "retry_results": lambda runtime, _: runtime.retry_results(ORG, ADAM),
    "submit": lambda runtime, _: runtime.submit(ORG, "report.build", {"month": "May"}, actor=ADAM),
    "submit without an actor": lambda runtime, _: runtime.submit(ORG, "report.build", {"month": "May"}),
    "submit_many": lambda runtime, _: runtime.submit_many(
        ORG, [NewTask("report.build", {"month": month}) for month in ("May", "June")], actor=ADAM
    ),
    "cancel_task": _by("cancel_task", "task_id", ADAM),
    "retry_task": _by("retry_task", "dead_task_id", ADAM),
    "retry_tasks": lambda runtime, _: runtime.retry_tasks(ORG, actor=ADAM),
    "publish": _publish,
}
READS = {"dead_letters", "read_form", "folded", "dead_effects", "dead_results", "read_task", "list_tasks"}
WITHIN = {"run_input", "run_job", "run_together", "run_waiting", "push_bundle", "repin", "inside"}
"""What commands are made of, and a way into the caller's own transaction."""
OF_WORKERS = {"process_events", "recover_batches", "route_arrivals"}


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
    public = {name for name, _ in inspect.getmembers(Runtime, inspect.isfunction) if not name.startswith("_")}
    asynchronous = {
        name
        for name in public
        if inspect.iscoroutinefunction(found := getattr(Runtime, name)) or inspect.isasyncgenfunction(found)
    }
    tried = {name.partition(" ")[0] for name in COMMANDS}
    assert asynchronous - READS - WITHIN - OF_WORKERS <= tried
