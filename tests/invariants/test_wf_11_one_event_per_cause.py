"""WF-11: one cause is one event, and one event has its effect once, also when the worker dies over it."""

import asyncio
from typing import Any

from assent.model.ids import new_id
from assent.model.mutation import ON_EVENT, Event
from assent.outbox.events import count_emitted
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Connection, Database
from tests.authored import END, arrows, call, form
from tests.processes.application import calls
from tests.processes.spawn import ChildDied, children, closed_gate, wait_until_blocked
from tests.world import ANN, ORG, drain, publish_steps, rows


async def of_type(database: Database, event_type: str) -> list[dict[str, Any]]:
    return [row for row in await rows(database, "workflow_events_outbox") if row["event_type"] == event_type]


async def test_processes_that_find_the_same_times_tell_each_once(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    """Timers and expiries of thirty instances, looked for by three processes at once."""
    steps = [form("ask", timeout="1h", on_timeout="end"), END]
    await publish_steps(
        database, "timed", steps, arrows("ask", "end", event="done"), timeout="1h", on_timeout="end"
    )
    await runtime.org(ORG, ANN).instances.start_many("timed", [{}] * 30)
    await drain(runtime)
    clock.advance("2h")
    async with children(database, 3) as workers:
        told = await asyncio.gather(*(worker.ask("tell_times") for worker in workers))
    assert [sum(count) for count in zip(*told, strict=True)] == [30, 30]
    for event_type in ("on_timer", "on_expired"):
        found = await of_type(database, event_type)
        assert len({row["instance_id"] for row in found}) == len(found) == 30


async def test_event_told_to_two_waits_by_two_processes_reaches_each_once(
    runtime: Runtime, database: Database
) -> None:
    wait = {"id": "wait", "type": "wait", "key": "payment:7"}
    await publish_steps(
        database,
        "paid",
        [wait, call("book", "tests.mark", input={"what": "'paid'"}), END],
        arrows("wait", "book", "end"),
    )
    await runtime.org(ORG, ANN).instances.start_many("paid", [{}] * 2)
    await drain(runtime)
    now = database.clock.now()
    payload = {"cause": "bank-1", "key": "payment:7", "data": {}}

    async def tell(connection: Connection) -> int:
        return await count_emitted(connection, [Event(ORG, new_id(now), ON_EVENT, payload, None)], now)

    assert [await database.run(tell, org_id=ORG) for _ in range(2)] == [1, 0]
    async with children(database, 2) as workers:
        await asyncio.gather(*(worker.ask("process_until_empty") for worker in workers))
    assert await calls(database) == ["paid", "paid"]
    assert {row["status"] for row in await rows(database, "workflow_instances")} == {"completed"}


async def test_worker_that_dies_before_its_commit_has_done_nothing_and_the_next_does_it_once(
    runtime: Runtime, database: Database
) -> None:
    """Killed between the operation and the commit: neither its row nor its step nor its receipt is there."""
    steps = [call("write", "tests.gate", input={"what": "'written'"}), END]
    await publish_steps(database, "writing", steps, arrows("write", "end"))
    await runtime.org(ORG, ANN).instances.start_many("writing", [{}])
    async with children(database, 2) as (victim, heir):
        async with closed_gate(database) as observer:
            dying = asyncio.create_task(victim.ask("process"))
            await wait_until_blocked(observer, 1)
            await victim.kill()
            assert isinstance((await asyncio.gather(dying, return_exceptions=True))[0], ChildDied)
        assert await calls(database) == []
        await heir.ask("process_until_empty")
    assert await calls(database) == ["written"]
    (event,) = await rows(database, "workflow_events_outbox")
    assert event["status"] == "completed"
