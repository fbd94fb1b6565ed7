"""Workers that die: what they were at goes on at once, and what kills them ends as a dead letter (D26)."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from assent.runtime import Runtime
from assent.runtime.event_processor import EventProcessor
from assent.store.database import Database
from tests.authored import END, arrows, call
from tests.processes.application import app as processes_app
from tests.processes.application import calls, keep_calls
from tests.processes.spawn import Child, ChildDied, children, closed_gate, wait_until_blocked
from tests.world import ANN, OPS, ORG, drain, publish_steps, rows, steps_of

ATTEMPTS = 5
LIVES_MAX = 12


@pytest.fixture
async def runtime(database: Database) -> Runtime:
    await keep_calls(database)
    return processes_app.runtime(database)


async def publish_calling(database: Database, operation: str) -> None:
    arguments = {"what": "workflow.n", "kills": "workflow.kills"}
    await publish_steps(
        database, "calling", [call("call", operation, input=arguments), END], arrows("call", "end")
    )


async def start(runtime: Runtime, number: int, killer: int | None = None) -> list[UUID]:
    inputs: list[Any] = [{"n": n, "kills": n == killer} for n in range(number)]
    return await runtime.org(ORG, ANN).instances.start_many("calling", inputs)


async def live_until_it_survives(database: Database) -> int:
    """Start workers, one after the other, until one has nothing more to do; how many died."""
    for deaths in range(LIVES_MAX):
        child = await Child.start(database, MAY_DIE="1")
        try:
            await child.ask("process_until_empty")
        except ChildDied:
            continue
        else:
            return deaths
        finally:
            await child.kill()
    raise AssertionError(f"{LIVES_MAX} workers died")


async def test_event_that_kills_workers_ends_as_a_dead_letter_and_the_innocent_complete(
    runtime: Runtime, database: Database
) -> None:
    await publish_calling(database, "tests.kill")
    ids = await start(runtime, 10, killer=4)
    assert await live_until_it_survives(database) == 1 + ATTEMPTS, "once with the others, the rest alone"
    (letter,) = await runtime.org(ORG).dead_letters.list("event")
    assert (letter.instance_id, letter.error) == (ids[4], "its worker died")
    found = {row["id"]: row["status"] for row in await rows(database, "workflow_instances")}
    assert found == {instance_id: "completed" for instance_id in ids if instance_id != ids[4]}
    assert sorted(await calls(database)) == [str(n) for n in range(10) if n != 4]
    assert await rows(database, "workflow_batches") == []


async def test_event_that_kills_workers_later_in_a_life_pauses_its_instance(
    runtime: Runtime, database: Database
) -> None:
    """The instance is there already: it stands still and says why, until somebody tries again."""
    arguments = {"what": "workflow.n", "kills": "workflow.kills"}
    steps = [{"id": "wait", "type": "wait", "key": "go"}, call("call", "tests.kill", input=arguments), END]
    await publish_steps(database, "calling", steps, arrows("wait", "call", "end"))
    (instance_id,) = await start(runtime, 1, killer=0)
    await drain(runtime)
    assert await runtime.org(ORG).events.emit("go")
    await live_until_it_survives(database)
    (instance,) = await rows(database, "workflow_instances")
    assert (instance["status"], instance["incident"]["code"]) == ("paused", "EVENT_FAILED")
    assert instance["incident"]["message"] == "its worker died"
    (letter,) = await runtime.org(ORG).dead_letters.list("event")
    await runtime.org(ORG, OPS).dead_letters.retry(letter.id, "event")
    await drain(runtime)
    assert await calls(database) == ["0"], "this process is one that does not die"
    assert (await steps_of(database, instance_id))[-1]["node_id"] == "end"


async def test_what_a_killed_worker_was_at_is_done_by_the_next_at_once(
    runtime: Runtime, database: Database
) -> None:
    await publish_calling(database, "tests.gate")
    await start(runtime, 6)
    async with children(database, 1) as (victim,):
        async with closed_gate(database) as observer:
            dying = asyncio.create_task(victim.ask("process"))
            await wait_until_blocked(observer, 1)
            await victim.kill()
            await asyncio.gather(dying, return_exceptions=True)
        await drain(runtime)
    assert sorted(await calls(database)) == [str(n) for n in range(6)]
    attempts = [row["attempts"] for row in await rows(database, "workflow_events_outbox")]
    assert attempts == [1] * 6, "which of them killed the worker is not known, and none is charged"
    assert await rows(database, "workflow_batches") == []


async def test_event_with_its_last_attempt_does_not_die_of_the_one_beside_it(
    runtime: Runtime, database: Database
) -> None:
    await publish_calling(database, "tests.kill")
    ids = await start(runtime, 3, killer=1)
    async with database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.workflow_events_outbox SET attempts_max = 1 WHERE org_id = 'acme' AND instance_id <> $1",
            ids[1],
        )
    await live_until_it_survives(database)
    found = {row["id"]: row["status"] for row in await rows(database, "workflow_instances")}
    assert found == {ids[0]: "completed", ids[2]: "completed"}
    assert [letter.instance_id for letter in await runtime.org(ORG).dead_letters.list("event")] == [ids[1]]


async def test_batch_that_runs_is_left_alone_and_the_others_go_on(
    runtime: Runtime, database: Database
) -> None:
    await publish_calling(database, "tests.gate")
    await start(runtime, 3)
    async with children(database, 1) as (worker,):
        async with closed_gate(database) as observer:
            busy = asyncio.create_task(worker.ask("process"))
            await wait_until_blocked(observer, 1)
            assert await EventProcessor(runtime.core).recover_batches() == 0
            assert len(await rows(database, "workflow_batches")) == 1
            assert await EventProcessor(runtime.core).process_events() == 0
        assert await busy == 3
    assert {row["attempts"] for row in await rows(database, "workflow_events_outbox")} == {1}


async def test_two_who_recover_at_once_count_one_attempt(runtime: Runtime, database: Database) -> None:
    await publish_calling(database, "tests.gate")
    await start(runtime, 1)
    async with children(database, 3) as (victim, first, second):
        async with closed_gate(database) as observer:
            dying = asyncio.create_task(victim.ask("process"))
            await wait_until_blocked(observer, 1)
            await victim.kill()
            await asyncio.gather(dying, return_exceptions=True)
        async with closed_gate(database) as observer:
            recovering = asyncio.create_task(first.ask("recover"))
            await wait_until_blocked(observer, 1)
            assert await second.ask("recover") == 0
            (event,) = await rows(database, "workflow_events_outbox")
            assert event["attempts"] == 1
        await recovering
    assert await calls(database) == ["0"]
    assert await rows(database, "workflow_batches") == []
