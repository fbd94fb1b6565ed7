"""Timers and times that are over, end to end: they go off at their time, once, and wait for who is paused (D27)."""

import asyncio
import time
from typing import Any
from uuid import UUID

import pytest

from assent.model.mutation import Refused
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.timers import Timeouts, Timers
from tests.authored import END, arrows, call, form, script
from tests.rows import insert_event
from tests.runtime.test_events import instance_of, side_by_side, start, wait
from tests.world import ANN, OPS, ORG, drain, publish_steps, rows, steps_of


async def due(database: Database, clock: MovedClock, length: str) -> None:
    """Let time pass, and have those told whose time it is."""
    clock.advance(length)
    for duty in (Timers, Timeouts):
        await duty(WorkerContext(database)).run_once()


async def test_step_says_how_long_its_node_and_its_own_call_took(
    runtime: Runtime, database: Database
) -> None:
    took_ms: dict[int, int] = {}

    async def work(connection: Any, arguments: Any) -> None:
        began = time.perf_counter()
        await asyncio.sleep(arguments["ms"] / 1000)
        took_ms[arguments["ms"]] = int((time.perf_counter() - began) * 1000)

    runtime.core.advancing.operations["work"] = work
    steps = [script("first"), call("work", "work", input={"ms": "workflow.ms"}), form("ask"), END]
    await publish_steps(database, "working", steps, [*arrows("first", "work", "ask"), *arrows("ask", "end")])
    ids = await runtime.org(ORG, ANN).instances.start_many("working", [{"ms": 300}, {"ms": 30}])
    await drain(runtime)
    found = []
    for instance_id in ids:
        steps_by_node = {step["node_id"]: step for step in await steps_of(database, instance_id)}
        assert steps_by_node["ask"]["duration_ms"] is None
        found.append(steps_by_node["work"]["duration_ms"])
    # Both were called in one batch: the time of one is no part of the other's.
    assert took_ms[30] <= found[1] < took_ms[300] <= found[0]


async def test_timer_and_step_timeout_go_off_at_their_time_and_once(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    steps = [
        {"id": "delay", "type": "wait", "for": "2h"},
        form("ask", timeout="24h", on_timeout="late"),
        script("late"),
        END,
    ]
    transitions = [*arrows("delay", "ask"), *arrows("ask", "end", event="done"), *arrows("late", "end")]
    await publish_steps(database, "timed", steps, transitions)
    instance_id = await start(runtime, "7", "timed")
    for length, node in (("1h", "delay"), ("1h", "ask"), ("23h", "ask")):
        await due(database, clock, length)
        await drain(runtime)
        assert (await instance_of(database, instance_id))["current_nodes"] == [node]
    await due(database, clock, "1h")
    await due(database, clock, "1h")
    await drain(runtime)
    trace = [step["node_id"] for step in await steps_of(database, instance_id)]
    assert trace == ["ctl:start", "sys:start", "delay", "ask", "late", "end"]


async def test_timer_that_lost_against_an_answer_is_ignored(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    await publish_steps(
        database,
        "timed",
        [form("ask", timeout="1h", on_timeout="end"), form("then"), END],
        [*arrows("ask", "then", event="done"), *arrows("then", "end", event="done")],
    )
    instance_id = await start(runtime, "7", "timed")
    clock.advance("2h")
    view = await runtime.org(ORG, ANN).instances.advance(instance_id, "done")
    assert [waiting.name for waiting in view.waiting] == ["then"], "nobody had looked at the clock yet"
    instance_id = await start(runtime, "8", "timed")
    await due(database, clock, "2h")
    with pytest.raises(Refused, match="WORKFLOW_NOT_ACTIVE"):
        await runtime.org(ORG, ANN).instances.advance(
            instance_id, "done"
        )  # the timer stands before it in the queue
    await drain(runtime)
    assert (await instance_of(database, instance_id))["status"] == "completed"


async def test_workflow_whose_time_is_over_goes_where_it_says(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    steps = [form("ask"), END, {"id": "expired", "type": "terminal"}]
    transitions = arrows("ask", "end", event="done")
    await publish_steps(database, "brief", steps, transitions, timeout="72h", on_timeout="expired")
    instance_id = await start(runtime, "7", "brief")
    await due(database, clock, "3d")
    await due(database, clock, "3d")
    await drain(runtime)
    steps_done = await steps_of(database, instance_id)
    assert [(s["node_id"], s["status"]) for s in steps_done][-3:] == [
        ("ask", "cancelled"),
        ("ctl:move", "completed"),
        ("expired", "completed"),
    ]
    told = [r for r in await rows(database, "workflow_events_outbox") if r["event_type"] == "on_expired"]
    assert len(told) == 1


async def test_paused_instance_finds_everything_that_came_when_it_goes_on(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    """An event and a timer; neither uses an attempt, and their order stays."""
    timed = {"id": "delay", "type": "wait", "for": "1h"}
    await publish_steps(database, "both", **side_by_side("all", wait("a"), timed))
    instance_id = await start(runtime, "7", "both")
    await runtime.org(ORG, OPS).instances.pause(instance_id)
    await runtime.org(ORG).events.emit("a:7", 4)
    await drain(runtime)
    for _ in range(3):
        await due(database, clock, "2h")
        assert await drain(runtime) <= 1
    waiting = [r for r in await rows(database, "workflow_events_outbox") if r["status"] == "pending"]
    assert sorted((row["event_type"], row["attempts"]) for row in waiting) == [
        ("on_event", 0),
        ("on_timer", 0),
    ]
    assert (await runtime.org(ORG, OPS).instances.resume(instance_id)).status == "running"
    assert await drain(runtime) == 2
    found = await instance_of(database, instance_id)
    assert (found["status"], found["context_json"]["a"]) == ("completed", 4)
    order = [s["node_id"] for s in await steps_of(database, instance_id) if s["node_id"] in ("a", "delay")]
    assert order == ["a", "delay"]


async def end(runtime: Runtime, how: str) -> UUID:
    """An instance that has ended."""
    instance_id = await start(runtime, "7", "asking")
    if how == "completed":
        await runtime.org(ORG, ANN).instances.advance(instance_id, "done")
    elif how == "cancelled":
        await runtime.org(ORG, ANN).instances.cancel(instance_id, "enough")
    else:
        await runtime.org(ORG, OPS).instances.force_fail(instance_id, "hopeless")
    return instance_id


@pytest.mark.parametrize("how", ["completed", "cancelled", "failed"])
async def test_what_comes_after_the_end_is_ignored(runtime: Runtime, database: Database, how: str) -> None:
    await publish_steps(database, "asking", [form("ask"), END], arrows("ask", "end", event="done"))
    instance_id = await end(runtime, how)
    (step,) = [s for s in await steps_of(database, instance_id) if s["node_id"] == "ask"]
    before = await rows(database, "workflow_step_executions")
    payloads: dict[str, Any] = {
        "on_timer": {"step": str(step["id"])},
        "on_event": {"step": str(step["id"])},
        "on_expired": {},
        "on_mutation": {},
        "on_amendment": {"changes": {}},
        "on_poke": {},
    }
    async with database.transaction(None) as connection:
        for event_type, payload in payloads.items():
            about = {"instance_id": instance_id, "event_type": event_type, "entity_version": 9}
            await insert_event(connection, **about, payload_json=payload)
    assert await drain(runtime) == len(payloads)
    found = await rows(database, "workflow_events_outbox")
    assert {(row["status"], row["error"]) for row in found} == {("completed", "ignored")}
    assert await rows(database, "workflow_step_executions") == before
    assert (await instance_of(database, instance_id))["status"] == how
