"""Events that wait for a paused instance end with it, by every way in which an instance can end (D27)."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from assent.app import App
from assent.model.ids import new_id
from assent.model.mutation import ON_EVENT, Command, Event
from assent.model.outside_request import ON_RESULT
from assent.operations.health import health
from assent.outbox.events import count_emitted, emit_events
from assent.runtime import Runtime
from assent.runtime.event_inputs import ON_EXPIRED, ON_POKE, ON_TIMER
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.authored import END, arrows, call, form
from tests.postgres import past_the_guards
from tests.rows import insert
from tests.world import (
    ANN,
    FAILS_ON_DRIFT,
    OPS,
    ORDER,
    ORG,
    create_order,
    drain,
    publish_orders,
    publish_steps,
    rows,
)

NOTICES: dict[str, Callable[[str], dict[str, Any]]] = {
    ON_TIMER: lambda step: {"step": step},
    ON_EVENT: lambda step: {"step": step, "key": "paid:7"},
    ON_RESULT: lambda step: {"step": step, "request": step, "status": "completed", "result": {}},
    ON_POKE: lambda step: {},
    ON_EXPIRED: lambda step: {},
}
"""Event type → what its payload says of the step that it is for."""


async def defer(runtime: Runtime, database: Database, instance_id: UUID, *types: str) -> None:
    """Have events come for a paused instance, and a worker put them off."""
    now = database.clock.now()
    step = str(UUID(int=7))
    async with database.transaction(ORG) as connection:
        events = [
            Event(ORG, new_id(now), kind, {"cause": kind, **NOTICES[kind](step)}, instance_id)
            for kind in types
        ]
        assert await count_emitted(connection, events, now) == len(types)
    await drain(runtime)
    waiting = [row for row in await rows(database, "workflow_events_outbox") if row["status"] == "pending"]
    assert sorted(row["event_type"] for row in waiting) == sorted(types)


async def started(runtime: Runtime, database: Database) -> UUID:
    """Return an instance that waits at a form with one way on, which leads to its end."""
    await publish_steps(database, "a.b", [form("ask"), END], arrows("ask", "end"), timeout="1h")
    return (await runtime.org(ORG, ANN).instances.start("a.b")).id


async def paused(runtime: Runtime, database: Database) -> UUID:
    instance_id = await started(runtime, database)
    await runtime.org(ORG, OPS).instances.pause(instance_id, "a look at it")
    return instance_id


async def failed_step(runtime: Runtime, database: Database) -> UUID:
    """Return an instance that paused because its operation was not there; now it is."""
    await publish_steps(database, "a.b", [call("pay", "pay"), END], arrows("pay", "end"))
    view = await runtime.org(ORG, ANN).instances.start("a.b")
    assert view.status == "paused"

    async def pay(connection: Any, arguments: Any) -> dict[str, Any]:
        return {}

    runtime.core.advancing.operations["pay"] = pay
    return view.id


async def cancel(runtime: Runtime, database: Database, instance_id: UUID) -> None:
    await runtime.org(ORG, OPS).instances.cancel(instance_id, "not needed")


async def force_fail(runtime: Runtime, database: Database, instance_id: UUID) -> None:
    await runtime.org(ORG, OPS).instances.force_fail(instance_id, "cannot go on")


async def skip(runtime: Runtime, database: Database, instance_id: UUID) -> None:
    await runtime.org(ORG, OPS).instances.skip(instance_id, "ask", "ask->end")


async def retry(runtime: Runtime, database: Database, instance_id: UUID) -> None:
    await runtime.org(ORG, OPS).instances.retry(instance_id)


async def resume_and_expire(runtime: Runtime, database: Database, instance_id: UUID) -> None:
    async with database.transaction(None) as connection:
        now = database.clock.now()
        await emit_events(
            connection, [Event(ORG, new_id(now), ON_EXPIRED, {"cause": "end of time"}, instance_id)], now
        )
    await runtime.org(ORG, OPS).instances.resume(instance_id)
    await drain(runtime)


async def rebuild(runtime: Runtime, database: Database, instance_id: UUID) -> None:
    """The steps say that it was cancelled, and its row is behind them: as a restore of single tables leaves it."""
    before = [row for row in await rows(database, "workflow_events_outbox") if row["status"] == "pending"]
    await runtime.org(ORG, OPS).instances.cancel(instance_id, "not needed")
    async with past_the_guards(database.url) as connection:
        await connection.execute(
            "UPDATE assent.workflow_instances SET status = 'paused', completed_at = NULL WHERE id = $1"
            " AND org_id = $2",
            instance_id,
            ORG,
        )
        await connection.execute(
            "UPDATE assent.workflow_events_outbox SET status = 'pending', completed_at = NULL,"
            " retry_at = 'infinity' WHERE id = ANY ($1) AND org_id = $2",
            [row["id"] for row in before],
            ORG,
        )
    assert await runtime.org(ORG, OPS).operations.rebuild(instance_id)


End = Callable[[Runtime, Database, UUID], Awaitable[None]]
ENDS: dict[End, tuple[Callable[[Runtime, Database], Awaitable[UUID]], str]] = {
    cancel: (paused, "cancelled"),
    force_fail: (paused, "failed"),
    skip: (paused, "completed"),
    retry: (failed_step, "completed"),
    resume_and_expire: (paused, "failed"),
    rebuild: (paused, "cancelled"),
}
"""How an instance ends → how it comes to be paused before, and its last status."""


async def assert_nothing_waits(database: Database, instance_id: UUID, clock: MovedClock) -> None:
    """No event is open, none counts as delayed, and retention deletes the instance when its time has come."""
    events = [
        row for row in await rows(database, "workflow_events_outbox") if row["instance_id"] == instance_id
    ]
    assert {row["status"] for row in events} == {"completed"}, events
    clock.advance("40d")
    seen = await health(database, org_id=ORG)
    assert [(queue.pending, queue.delayed) for queue in seen.queues if queue.name == "events"] == [(0, 0)]
    async with database.transaction(None) as connection:
        await insert(connection, "orgs", org_id=ORG, settings={"retention_days": 30})
        await connection.fetch("SELECT * FROM assent.delete_ended_instances(100)")
    assert instance_id not in {row["id"] for row in await rows(database, "workflow_instances")}


@pytest.mark.parametrize("kind", NOTICES)
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
async def test_deferred_event_ends_with_its_instance(
    runtime: Runtime, database: Database, clock: MovedClock, end: End, kind: str
) -> None:
    begin, status = ENDS[end]
    instance_id = await begin(runtime, database)
    await defer(runtime, database, instance_id, kind)
    await end(runtime, database, instance_id)
    (found,) = await rows(database, "workflow_instances")
    assert found["status"] == status
    (event, *_) = [row for row in await rows(database, "workflow_events_outbox") if row["event_type"] == kind]
    # A resumed instance takes what waited, in order: a poke means something to it, and its expiry ends it.
    taken = kind in (ON_EXPIRED, ON_POKE) and end is resume_and_expire
    assert (event["status"], event["error"]) == ("completed", None if taken else "ignored")
    await assert_nothing_waits(database, instance_id, clock)


async def test_all_deferred_events_end_with_their_instance(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    instance_id = await paused(runtime, database)
    await defer(runtime, database, instance_id, *NOTICES)
    await runtime.org(ORG, OPS).instances.cancel(instance_id, "not needed")
    events = await rows(database, "workflow_events_outbox")
    assert {(row["status"], row["error"], row["attempts"]) for row in events} == {("completed", "ignored", 0)}
    await assert_nothing_waits(database, instance_id, clock)


@pytest.mark.parametrize("name", ["cancel", "amend"])
async def test_edits_that_wait_for_a_paused_document_end_with_its_instance(
    runtime: Runtime, database: Database, clock: MovedClock, name: str
) -> None:
    """A locked order of a paused instance is amended, and edits wait: resumed, the first of them cancels it."""
    await publish_orders(database)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    await runtime.org(ORG, OPS).instances.pause(view.id, "a look at it")
    if name == "amend":
        now = database.clock.now()
        payload = {"cause": "x", "actor": "ann", "amended_by": str(UUID(int=5))}
        async with database.transaction(ORG) as connection:
            await emit_events(connection, [Event(ORG, new_id(now), "on_superseded", payload, view.id)], now)
    for total in (600, 700):
        await runtime.core.kernel.mutate(Command(ORG, "order.update", ANN, {"total": total}, entity.id))
    await drain(runtime)
    if name == "cancel":
        await runtime.org(ORG, OPS).instances.cancel(view.id, "not needed")
    else:
        await runtime.org(ORG, OPS).instances.resume(view.id)
        await drain(runtime)
    statuses = {row["id"]: row["status"] for row in await rows(database, "workflow_instances")}
    assert statuses[view.id] == "cancelled"
    await assert_nothing_waits(database, view.id, clock)


async def test_events_wait_on_while_the_instance_is_only_paused(runtime: Runtime, database: Database) -> None:
    """Pausing again, and what is refused meanwhile, gives up nothing."""
    instance_id = await paused(runtime, database)
    await defer(runtime, database, instance_id, ON_TIMER, ON_EVENT)
    await runtime.org(ORG, OPS).instances.resume(instance_id)
    await runtime.org(ORG, OPS).instances.pause(instance_id, "again")
    await drain(runtime)
    events = await rows(database, "workflow_events_outbox")
    assert {row["status"] for row in events} <= {"pending", "completed"}


async def test_rebuild_of_a_running_instance_has_its_deferred_events_go_on(
    runtime: Runtime, database: Database
) -> None:
    """The row says paused and the steps say running: what waited for the pause to end is due."""
    instance_id = await started(runtime, database)
    async with past_the_guards(database.url) as connection:
        await connection.execute(
            "UPDATE assent.workflow_instances SET status = 'paused' WHERE id = $1 AND org_id = $2",
            instance_id,
            ORG,
        )
    await defer(runtime, database, instance_id, ON_POKE)
    assert await runtime.org(ORG, OPS).operations.rebuild(instance_id)
    assert await drain(runtime) == 1
    (event,) = await rows(database, "workflow_events_outbox")
    assert event["status"] == "completed"


async def test_edits_that_wait_for_a_document_end_when_the_first_of_them_fails_its_instance(
    database: Database, clock: MovedClock
) -> None:
    """The contract fails on drift: resumed, the instance fails by the first edit, and the others are too late."""
    runtime = App([{**ORDER, **FAILS_ON_DRIFT}]).runtime(database)
    await publish_orders(database, **FAILS_ON_DRIFT)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    await runtime.org(ORG, OPS).instances.pause(view.id, "a look at it")
    for total in (600, 700):
        await runtime.core.kernel.mutate(Command(ORG, "order.update", ANN, {"total": total}, entity.id))
    await drain(runtime)
    await runtime.org(ORG, OPS).instances.resume(view.id)
    await drain(runtime)
    (instance,) = await rows(database, "workflow_instances")
    assert (instance["status"], instance["incident"]["code"]) == ("failed", "WORKFLOW_VERSION_DRIFT")
    await assert_nothing_waits(database, view.id, clock)
