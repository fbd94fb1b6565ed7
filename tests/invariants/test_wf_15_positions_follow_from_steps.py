"""WF-15: where an instance stands follows from its workflow and its steps alone; its row is a copy of that."""

from typing import Any
from uuid import UUID

from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.timers import Timers
from tests.authored import END, arrows, call, form, script
from tests.runtime.spoiling import put_back
from tests.world import ANN, OPS, ORG, create_order, drain, edit_order, publish_orders, publish_steps, rows

NOWHERE: dict[str, Any] = {
    "active_tokens": [],
    "current_nodes": [],
    "context_json": {},
    "version": 0,
    "generation": 0,
    "chain_length": 0,
}
"""A row of which nothing is left that its steps do not say."""


async def assert_follows(runtime: Runtime, instance_id: UUID) -> None:
    kept, folded = await runtime.org(ORG).operations.fold(instance_id)
    assert kept == folded


async def publish_everything(database: Database) -> None:
    """A flow with what can happen to tokens: a split in a split, a loop, a timeout, a failure, a choice."""
    steps = [
        script("begin", n="1"),
        {"id": "fork", "type": "parallel_split"},
        form("left", timeout="1h", on_timeout="late"),
        script("late"),
        {"id": "inner", "type": "parallel_split"},
        form("up"),
        form("down"),
        {"id": "meet", "type": "parallel_join", "mode": "any"},
        {"id": "join", "type": "parallel_join", "mode": "all"},
        call("fails", "no.such"),
        form("review"),
        {"id": "choice", "type": "condition"},
        END,
    ]
    transitions = [
        *arrows("begin", "fork", "left"),
        *arrows("fork", "inner", "up"),
        *arrows("inner", "down"),
        *arrows("left", "join", event="done"),
        *arrows("late", "join"),
        *arrows("up", "meet", event="done"),
        *arrows("down", "meet", event="done"),
        *arrows("meet", "join", "fails", "review"),
        *arrows("review", "choice", event="done"),
        {"from": "choice", "to": "begin", "condition": "workflow.again == true", "priority": 1},
        {"from": "choice", "to": "end", "priority": 2},
    ]
    await publish_steps(database, "everything", steps, transitions)


async def test_every_position_of_a_long_life_can_be_rebuilt(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    await publish_everything(database)
    view = await runtime.org(ORG, ANN).instances.start("everything", {"again": True})

    async def then(view: Any) -> Any:
        await assert_follows(runtime, view.id)
        return view

    await then(view)
    for again in (True, False):
        await then(await runtime.org(ORG, OPS).instances.pause(view.id))
        await then(await runtime.org(ORG, OPS).instances.resume(view.id))
        await then(await runtime.org(ORG, ANN).instances.advance(view.id, "done", step="up"))
        clock.advance("2h")
        await Timers(WorkerContext(database)).run_once()
        await drain(runtime)
        await then(view)
        await then(await runtime.org(ORG, OPS).instances.retry(view.id))
        await then(await runtime.org(ORG, OPS).instances.skip(view.id, "fails", "fails->review"))
        view = await then(await runtime.org(ORG, ANN).instances.advance(view.id, "done", {"again": again}))
    assert view.status == "completed"
    assert len(await rows(database, "workflow_step_executions")) > 30


async def test_row_that_lost_everything_is_rebuilt_and_goes_on(runtime: Runtime, database: Database) -> None:
    await publish_everything(database)
    view = await runtime.org(ORG, ANN).instances.start("everything", {"again": False})
    await runtime.org(ORG, ANN).instances.advance(view.id, "done", step="left")
    (before,) = await rows(database, "workflow_instances")
    await put_back(database, view.id, NOWHERE)
    assert await runtime.org(ORG).operations.rebuild(view.id)
    (after,) = await rows(database, "workflow_instances")
    assert {name: value for name, value in after.items() if value != before[name]} == {}
    view = await runtime.org(ORG, ANN).instances.advance(view.id, "done", step="down")
    assert [waiting.name for waiting in view.waiting] == ["fails"]


async def test_position_of_an_entitys_instance_follows_too(runtime: Runtime, database: Database) -> None:
    """Gates, drift and the amendment branch; the pin is part of the position."""
    await publish_orders(database)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    await assert_follows(runtime, view.id)
    await runtime.org(ORG, ANN).instances.advance(view.id, "done", step="credit")
    await edit_order(runtime, entity.id, total=1)
    await drain(runtime)
    await assert_follows(runtime, view.id)
    await edit_order(runtime, entity.id, total=2)
    await drain(runtime)
    await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    await assert_follows(runtime, view.id)
    for step in ("stock", "credit"):
        await runtime.org(ORG, ANN).instances.advance(view.id, "done", step=step)
        await assert_follows(runtime, view.id)


async def test_one_step_for_each_node_and_token(runtime: Runtime, database: Database) -> None:
    await publish_everything(database)
    view = await runtime.org(ORG, ANN).instances.start("everything", {"again": False})
    for step in ("left", "down"):
        await runtime.org(ORG, ANN).instances.advance(view.id, "done", step=step)
    steps = [s for s in await rows(database, "workflow_step_executions") if s["node_type"] != "control"]
    places = [(step["node_id"], step["token_id"], step["entity_version"]) for step in steps]
    assert len(set(places)) == len(places)
