"""The supervisor: duties start, wake and stop together, and one that fails is alone with it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from statistics import median

import pytest

from assent.store.database import Database
from assent.worker.duty import Duty, DutyRun, RunResult, Schedule, WorkerContext
from assent.worker.supervisor import DUTIES, Supervisor, duties
from tests.plain_sql import end_listeners, wait_until_a_connection_is_blocked
from tests.postgres import SETTINGS
from tests.rows import insert_event, insert_step
from tests.worker.application import HOLD_GATE, PATIENT, completing_context
from tests.workers import NEVER_S, Runs, ScriptedDuty, events, with_options


@pytest.fixture
def place(database: Database) -> WorkerContext:
    return completing_context(database, PATIENT)


@asynccontextmanager
async def supervised(place: WorkerContext, chosen: list[Duty]) -> AsyncIterator[tuple[Supervisor, Runs]]:
    runs = Runs()
    supervisor = Supervisor(place.database, chosen, place.options, [runs])
    task = asyncio.create_task(supervisor.run())
    try:
        yield supervisor, runs
    finally:
        supervisor.stop()
        await asyncio.wait_for(task, 10)


async def next_that(runs: Runs, holds: Callable[[DutyRun], bool]) -> DutyRun:
    while not holds(run := await runs.next()):
        pass
    return run


async def notify(database: Database, channel: str) -> None:
    async with database.transaction(None) as connection:
        await connection.execute("SELECT pg_notify($1, '')", channel)


async def insert_pending_event(database: Database) -> None:
    async with database.transaction(None) as connection:
        await insert_event(connection)


def test_the_list_holds_every_duty_once_by_its_name(place):
    names = [duty.name for duty in duties(place)]
    assert names == [duty.name for duty in DUTIES]
    assert len(set(names)) == len(names)


def test_without_a_runtime_only_what_needs_one_is_missing(place):
    names = {duty.name for duty in duties(replace(place, runtime=None))}
    assert {duty.name for duty in DUTIES} - names == {
        "alerts",
        "blobs",
        "digests",
        "effects",
        "events",
        "names",
        "recovered",
        "schedules",
        "tasks",
    }


def test_duties_are_chosen_by_name(place):
    assert [duty.name for duty in duties(place, ["prune", "events"])] == ["events", "prune"]


async def test_notification_wakes_the_duty_within_a_moment(place, database):
    """From commit to completed; an interval would be a day. Measured, not promised: far below a second."""
    latencies_s = []
    async with supervised(place, duties(place, ["events"])) as (_, runs):
        await runs.next()
        for _ in range(20):
            await insert_pending_event(database)
            started_s = time.perf_counter()
            await notify(database, "assent_events")
            await next_that(runs, lambda run: run.done.count == 1)
            latencies_s.append(time.perf_counter() - started_s)
    assert median(latencies_s) < 0.5
    assert {event["status"] for event in await events(database)} == {"completed"}


async def test_timer_that_fires_wakes_the_events_by_itself(place, database, clock):
    async with database.transaction(None) as connection:
        await insert_step(connection, resume_at=clock.now())
    async with supervised(place, duties(place, ["timers", "events"])) as (_, runs):
        await next_that(runs, lambda run: run.duty == "events" and run.done.count == 1)
    assert [event["status"] for event in await events(database)] == ["completed"]


async def test_polling_finds_what_no_notification_told(place, database):
    place = with_options(place, events_interval_ms=10)
    async with supervised(place, duties(place, ["events"])) as (_, runs):
        await next_that(runs, lambda run: run.done.count == 0)
        await insert_pending_event(database)
        await next_that(runs, lambda run: run.done.count == 1)


async def test_notifications_wake_only_those_who_asked_for_the_channel(database):
    listening = ScriptedDuty(pace=Schedule(NEVER_S, ("assent_events",)), name="listening")
    deaf = ScriptedDuty(pace=Schedule(NEVER_S, ("assent_effects",)), name="deaf")
    place = WorkerContext(database, PATIENT)
    async with supervised(place, [listening, deaf]) as (_, runs):
        assert {(await runs.next()).duty for _ in range(2)} == {"listening", "deaf"}
        for _ in range(3):
            await notify(database, "assent_events")
            assert (await runs.next()).duty == "listening"
        assert runs.queue.empty()


async def test_lost_listening_connection_wakes_everybody_once_and_works_again(place, database):
    async with supervised(place, duties(place, ["events"])) as (_, runs):
        await runs.next()
        await insert_pending_event(database)
        assert await end_listeners(database)
        await next_that(runs, lambda run: run.done.count == 1)
        await insert_pending_event(database)
        await notify(database, "assent_events")
        await next_that(runs, lambda run: run.done.count == 1)


async def test_duty_that_raises_does_not_stop_the_others(place, database):
    failing = ScriptedDuty([RuntimeError("always")] * 1_000, name="failing")
    place = with_options(place, backoff_min_ms=1, backoff_max_ms=1)
    async with supervised(place, [failing, *duties(place, ["events"])]) as (_, runs):
        for _ in range(3):
            await next_that(runs, lambda run: run.duty == "failing" and run.error is not None)
        await insert_pending_event(database)
        await notify(database, "assent_events")
        await next_that(runs, lambda run: run.duty == "events" and run.done.count == 1)


async def test_database_that_goes_away_is_waited_for(place, database):
    """Every connection is cut: runs fail, are waited out, and work goes on over new connections."""
    place = with_options(place, backoff_min_ms=1, backoff_max_ms=10, events_interval_ms=10)
    other = await Database.open(database.url, settings=SETTINGS)
    try:
        async with supervised(place, duties(place, ["events", "timers"])) as (_, runs):
            await runs.next()
            async with other.transaction(None) as connection:
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            await insert_pending_event(other)
            await next_that(runs, lambda run: run.duty == "events" and run.done.count == 1)
    finally:
        await other.close()


async def test_lanes_work_beside_each_other(place, database):
    place = with_options(place, events_lanes=2, events_batch_max=1)
    for _ in range(2):
        await insert_pending_event(database)
    async with database.transaction(None) as holding:
        await holding.execute(HOLD_GATE)
        async with supervised(place, duties(place, ["events"])) as (_, runs):
            blocked = 0
            while blocked < 2:
                await wait_until_a_connection_is_blocked(holding)
                blocked = await holding.fetchval(
                    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
                    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
                )
            await holding.execute("ROLLBACK; BEGIN")
            for _ in range(2):
                await next_that(runs, lambda run: run.done.count == 1)


async def test_stop_waits_for_what_runs(place, database):
    await insert_pending_event(database)
    supervisor = Supervisor(database, duties(place, ["events"]), place.options)
    async with database.transaction(None) as holding:
        await holding.execute(HOLD_GATE)
        task = asyncio.create_task(supervisor.run())
        await wait_until_a_connection_is_blocked(holding)
        supervisor.stop()
        await insert_pending_event(database)
        assert not task.done()
    assert await asyncio.wait_for(task, 10) is True
    assert sorted(event["status"] for event in await events(database)) == ["completed", "pending"]


async def test_what_is_not_finished_in_the_grace_period_is_cut_off_and_rolled_back(place, database, caplog):
    await insert_pending_event(database)
    place = with_options(place, grace_period_ms=20)
    supervisor = Supervisor(database, duties(place, ["events", "timers"]), place.options)
    async with database.transaction(None) as holding:
        await holding.execute(HOLD_GATE)
        task = asyncio.create_task(supervisor.run())
        await wait_until_a_connection_is_blocked(holding)
        supervisor.stop()
        assert await asyncio.wait_for(task, 10) is False
    assert [event["status"] for event in await events(database)] == ["pending"]
    (warning,) = [record for record in caplog.records if "grace period" in record.getMessage()]
    assert warning.duties == ["events"]


async def test_mistake_of_an_observer_ends_the_worker_instead_of_hiding(database):
    def broken(run: DutyRun) -> None:
        raise ZeroDivisionError

    other = ScriptedDuty(name="other")
    supervisor = Supervisor(database, [ScriptedDuty([RunResult(1)]), other], PATIENT, [broken])
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(supervisor.run(), 10)
    assert {type(error) for error in caught.value.exceptions} == {ZeroDivisionError}


async def test_cancelling_the_supervisor_cancels_its_duties(place, database):
    await insert_pending_event(database)
    async with database.transaction(None) as holding:
        await holding.execute(HOLD_GATE)
        task = asyncio.create_task(Supervisor(database, duties(place, ["events"]), place.options).run())
        await wait_until_a_connection_is_blocked(holding)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)
    assert [event["status"] for event in await events(database)] == ["pending"]
