"""Timers: a step that is due tells its instance once, however many workers look."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

from assent.store.database import Database
from assent.worker.duty import RunResult, WorkerContext
from assent.worker.loop import Loop
from assent.worker.timers import Timers
from tests.postgres import SETTINGS, START
from tests.rows import insert_step, update
from tests.statements import StatementCounter
from tests.workers import Runs, events, run_until_done, second_worker, with_options
from tests.world import count, fetch

HOUR = timedelta(hours=1)


async def waiting_step(database: Database, **given):
    async with database.transaction(None) as connection:
        return await insert_step(connection, **{"resume_at": START + HOUR} | given)


async def test_step_is_left_alone_until_its_time_has_come(place, database, clock):
    step = await waiting_step(database)
    clock.move_to(START + HOUR - timedelta(microseconds=1))
    assert (await Timers(place).run_once()).count == 0
    clock.move_to(START + HOUR)
    assert await Timers(place).run_once() == RunResult(1)
    (event,) = await events(database)
    assert (event["event_type"], event["instance_id"], event["entity_version"]) == (
        "on_timer",
        step["instance_id"],
        step["entity_version"],
    )
    assert event["payload_json"] == {
        "cause": str(step["id"]),
        "step": str(step["id"]),
        "due": (START + HOUR).isoformat(),
    }
    assert event["created_at"] == START + HOUR


async def test_step_that_was_told_is_not_found_again_and_still_waits_for_the_engine(place, database, clock):
    await waiting_step(database)
    clock.advance("2h")
    assert [(await Timers(place).run_once()).count for _ in range(3)] == [1, 0, 0]
    (step,) = await fetch(
        database, "SELECT status, resume_at FROM assent.workflow_step_executions WHERE org_id <> 'aatwin'"
    )
    assert (step["status"], step["resume_at"]) == ("pending", None)


async def test_same_time_told_again_makes_no_second_event(place, database, clock):
    """A repair that puts the time back is swallowed by the receipt (WF-11)."""
    step = await waiting_step(database)
    clock.advance("2h")
    await Timers(place).run_once()
    async with database.transaction(None) as connection:
        await update(connection, "workflow_step_executions", step, resume_at=step["resume_at"])
    await Timers(place).run_once()
    assert await count(database, "workflow_events_outbox") == 1


async def test_step_that_is_given_another_time_fires_again(place, database, clock):
    step = await waiting_step(database)
    clock.advance("2h")
    await Timers(place).run_once()
    async with database.transaction(None) as connection:
        await update(connection, "workflow_step_executions", step, resume_at=clock.now())
    await Timers(place).run_once()
    assert [event["payload_json"]["due"] for event in await events(database)] == [
        (START + HOUR).isoformat(),
        (START + 2 * HOUR).isoformat(),
    ]


async def test_step_that_has_ended_does_not_fire(place, database, clock):
    for status in ("completed", "failed", "skipped", "cancelled"):
        await waiting_step(database, status=status)
    clock.advance("2h")
    assert await Timers(place).run_once() == RunResult(0)


async def test_orgs_are_served_alike_earliest_first(place, database, clock):
    for number, org_id in enumerate(["acme", "globex", "initech"]):
        await waiting_step(database, org_id=org_id, resume_at=START + (3 - number) * HOUR)
    clock.advance("1d")
    one_at_a_time = Timers(with_options(place, timers_batch_max=1))
    assert await one_at_a_time.run_once() == RunResult(1, more=True)
    assert [event["org_id"] for event in await events(database)] == ["initech"]
    assert (await run_until_done(one_at_a_time)).count == 2
    assert [event["org_id"] for event in await events(database)] == ["initech", "globex", "acme"]


async def test_step_that_somebody_holds_is_skipped_and_found_later(place, database, clock):
    held, free = await waiting_step(database), await waiting_step(database)
    clock.advance("2h")
    async with database.transaction(None) as advancing:
        await update(advancing, "workflow_step_executions", held, output_json={"seen": True})
        assert await Timers(place).run_once() == RunResult(1)
    assert await Timers(place).run_once() == RunResult(1)
    assert {event["payload_json"]["step"] for event in await events(database)} == {
        str(held["id"]),
        str(free["id"]),
    }


async def test_step_that_ends_while_it_is_looked_for_does_not_fire(place, database, clock):
    step = await waiting_step(database)
    clock.advance("2h")
    async with database.transaction(None) as advancing:
        await update(advancing, "workflow_step_executions", step, status="cancelled")
        assert await Timers(place).run_once() == RunResult(0)
    assert await Timers(place).run_once() == RunResult(0)
    assert await events(database) == []


async def test_two_workers_at_once_tell_every_step_exactly_once(place: WorkerContext, database, clock):
    steps = [await waiting_step(database) for _ in range(120)]
    clock.advance("2h")
    place = with_options(place, timers_batch_max=7)
    async with second_worker(place) as other:
        done = await asyncio.gather(run_until_done(Timers(place)), run_until_done(Timers(other)))
    assert sum(each.count for each in done) == 120
    told = [event["payload_json"]["step"] for event in await events(database)]
    assert sorted(told) == sorted(str(step["id"]) for step in steps)


async def test_round_trips_do_not_grow_with_the_batch(
    place, database, clock, statement_counter: StatementCounter
):
    sent = []
    for size in (1, 40):
        async with database.transaction(None) as connection:
            for _ in range(size):
                await insert_step(connection, resume_at=clock.now())
        statement_counter.clear()
        assert (await Timers(place).run_once()).count == size
        sent.append(len(statement_counter))
    assert sent[0] == sent[1]


async def test_step_of_an_older_month_fires_in_the_month_of_the_clock(place, database, clock):
    step = await waiting_step(database, created_at=START, resume_at=START + timedelta(days=75))
    clock.advance("80d")
    assert await Timers(place).run_once() == RunResult(1)
    (event,) = await fetch(
        database,
        "SELECT payload_json, tableoid::regclass::text AS place FROM assent.workflow_events_outbox"
        " WHERE org_id = 'acme'",
    )
    assert event["payload_json"]["step"] == str(step["id"])
    assert event["place"].endswith("workflow_events_outbox_2026_05")


async def test_timer_that_is_due_before_the_next_poll_is_armed(place, database, clock):
    """The duty says in how many seconds it has to run again; what is due later is left to a later poll."""
    place = with_options(place, timers_interval_ms=1_000)
    await waiting_step(database)
    assert await Timers(place).run_once() == RunResult(0)
    clock.move_to(START + HOUR - timedelta(seconds=1.5, microseconds=1))
    assert await Timers(place).run_once() == RunResult(0)
    clock.move_to(START + HOUR - timedelta(seconds=1.25))
    assert await Timers(place).run_once() == RunResult(0, again_in_s=1.25)


async def test_armed_timer_fires_once_at_its_moment_with_two_workers(place, database):
    """By the server's clock, with a poll once an hour: both workers armed it, neither waits for the poll, one fires."""
    place = with_options(place, timers_interval_ms=3_600_000)
    await waiting_step(database, resume_at=await _in_a_while(database))
    async with second_worker(place) as other:
        loops, runs = [], Runs()
        for each in (place, other):
            own = replace(each, database=await Database.open(each.database.url, settings=SETTINGS))
            loops.append((own, Loop(Timers(own), own.options, runs)))
        running = [asyncio.create_task(loop.run()) for _, loop in loops]
        done = [await runs.next() for _ in range(4)]
        for _, loop in loops:
            loop.stop()
        await asyncio.gather(*running)
        for each, _ in loops:
            await each.database.close()
    assert sorted(run.done.count for run in done) == [0, 0, 0, 1]
    (event,) = await events(database)
    late_s = (event["created_at"] - datetime.fromisoformat(event["payload_json"]["due"])).total_seconds()
    assert 0 <= late_s < 5


async def test_timer_is_armed_again_after_a_restart(place, database):
    """The worker that had armed it ends before its moment; the next one fires it at that moment, by no poll."""
    own = await Database.open(database.url, settings=SETTINGS)
    place = replace(with_options(place, timers_interval_ms=3_600_000), database=own)
    await waiting_step(database, resume_at=await _in_a_while(database))
    assert (await Timers(place).run_once()).again_in_s is not None
    runs = Runs()
    loop = Loop(Timers(place), place.options, runs)
    running = asyncio.create_task(loop.run())
    assert [(await runs.next()).done.count for _ in range(2)] == [0, 1]
    loop.stop()
    await running
    await own.close()
    assert len(await events(database)) == 1


async def _in_a_while(database: Database) -> datetime:
    (row,) = await fetch(database, "SELECT clock_timestamp() + interval '400 ms' AS at")
    return row["at"]
