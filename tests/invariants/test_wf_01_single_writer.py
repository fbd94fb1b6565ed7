"""WF-01: one writer per instance. Who commands waits for the writer, a worker passes by and comes back."""

import asyncio
from uuid import UUID

from assent.runtime import Runtime
from assent.store.database import Database
from tests.authored import END, arrows, call, form, script
from tests.processes.application import calls
from tests.processes.spawn import children, closed_gate, wait_until_blocked
from tests.world import ANN, ORG, publish_steps, rows, steps_of

ADVISORY_WAITS = """
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid <> 0
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
"""Those who wait for an instance; the gate's number is small, an instance's is a hash of 64 bits."""


async def publish_gated(database: Database) -> None:
    """Ask, then hold the transaction open as long as the gate is closed, then ask again."""
    steps = [form("ask"), call("hold", "tests.gate", input={"what": "'held'"}), form("again"), END]
    transitions = [
        *arrows("ask", "hold", event="done"),
        *arrows("hold", "again"),
        *arrows("again", "end", event="done"),
    ]
    await publish_steps(database, "gated", steps, transitions)


async def effects(database: Database, instance_id: UUID) -> list[int]:
    """The numbers of all effects that an instance's steps had; without a writer at a time, some come twice."""
    outputs = [step["output_json"] for step in await steps_of(database, instance_id)]
    return sorted(number for output in outputs for name in ("n", "entered") if (number := output.get(name)))


async def test_second_command_waits_for_the_first_and_finds_what_it_left(
    runtime: Runtime, database: Database
) -> None:
    await publish_gated(database)
    view = await runtime.org(ORG, ANN).instances.start("gated")
    async with children(database, 2) as (first, second):
        async with closed_gate(database) as observer:
            one = asyncio.create_task(first.ask("advance", instance=view.id, event="done"))
            await wait_until_blocked(observer, 1)
            two = asyncio.create_task(second.ask("advance", instance=view.id, event="done", step="ask"))
            await wait_until_blocked(observer, 2)
            assert await observer.fetchval(ADVISORY_WAITS) == 1, "the second waits for the instance itself"
        assert (await one)["waiting"] == ["again"]
        assert await two == "INVALID_TRANSITION"
    assert await calls(database) == ["held"]


async def test_worker_passes_a_busy_instance_and_comes_back(runtime: Runtime, database: Database) -> None:
    await publish_gated(database)
    await publish_steps(database, "quick", [script("one"), END], arrows("one", "end"))
    view = await runtime.org(ORG, ANN).instances.start("gated")
    async with children(database, 2) as (person, worker):
        async with closed_gate(database) as observer:
            busy = asyncio.create_task(person.ask("advance", instance=view.id, event="done"))
            await wait_until_blocked(observer, 1)
            await runtime.org(ORG).operations.reenqueue(view.id)
            await runtime.org(ORG, ANN).instances.start_many("quick", [{}] * 5)
            assert await worker.ask("process") == 5
            assert not busy.done()
        await busy
        assert await worker.ask("process") == 1
    assert {row["status"] for row in await rows(database, "workflow_events_outbox")} == {"completed"}


async def test_many_writers_of_one_instance_lose_nothing(runtime: Runtime, database: Database) -> None:
    steps = [form("ask"), call("count", "tests.mark", input={"what": "'one'"}), END]
    transitions = [
        *arrows("ask", "count", event="more"),
        *arrows("ask", "end", event="enough"),
        *arrows("count", "ask"),
    ]
    await publish_steps(database, "counting", steps, transitions)
    view = await runtime.org(ORG, ANN).instances.start("counting")
    async with children(database, 3) as writers:
        asked = {"instance": view.id, "event": "more", "times": 25}
        done = await asyncio.gather(*(writer.ask("advance_often", **asked) for writer in writers))
    assert done == [25, 25, 25]
    (instance,) = await rows(database, "workflow_instances")
    assert await calls(database) == ["one"] * 75
    assert await effects(database, view.id) == list(range(1, instance["version"] + 1))
