"""The loop: when a duty runs again, what wakes it, and that its errors end nothing."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from assent.worker.duty import DutyRun, RunResult, Schedule
from assent.worker.loop import Loop, exhaust
from assent.worker.options import Options
from tests.workers import NEVER_S, Runs, ScriptedDuty


@asynccontextmanager
async def running(duty: ScriptedDuty, **options: int) -> AsyncIterator[tuple[Loop, Runs]]:
    runs = Runs()
    loop = Loop(duty, Options(**{"jitter_percent": 0} | options), runs)
    task = asyncio.create_task(loop.run())
    try:
        yield loop, runs
    finally:
        loop.stop()
        await asyncio.wait_for(task, 10)


async def let_others_run() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_runs_at_once_and_again_while_there_is_more():
    duty = ScriptedDuty([RunResult(5, more=True), RunResult(5, more=True), RunResult(1)])
    async with running(duty) as (_, runs):
        assert [(await runs.next()).done.count for _ in range(3)] == [5, 5, 1]
        await let_others_run()
        assert runs.queue.empty()


async def test_notification_ends_the_wait():
    async with running(ScriptedDuty()) as (loop, runs):
        await runs.next()
        await let_others_run()
        loop.wake()
        assert (await runs.next()).done == RunResult()


async def test_notification_during_a_run_is_not_lost():
    duty = ScriptedDuty()
    async with running(duty) as (loop, runs):
        await runs.next()
        duty.before_once = loop.wake
        loop.wake()
        assert [(await runs.next()).done for _ in range(2)] == [RunResult(), RunResult()]
        await let_others_run()
        assert runs.queue.empty()


async def test_interval_ends_the_wait_where_no_notification_comes():
    async with running(ScriptedDuty(pace=Schedule(0.001))) as (_, runs):
        for _ in range(5):
            await runs.next()


async def test_error_is_logged_and_counted_and_the_next_run_comes(caplog: pytest.LogCaptureFixture):
    duty = ScriptedDuty([RuntimeError("no such table"), RuntimeError("still none"), RunResult(3)])
    async with running(duty, backoff_min_ms=1) as (_, runs):
        seen = [await runs.next() for _ in range(3)]
    assert [str(run.error) for run in seen] == ["no such table", "still none", "None"]
    assert seen[2].done.count == 3
    assert [(record.duty, record.error) for record in caplog.records] == [  # type: ignore[attr-defined]
        ("scripted", "RuntimeError: no such table"),
        ("scripted", "RuntimeError: still none"),
    ]
    assert caplog.records[0].exc_info is not None


async def test_notifications_do_not_hurry_a_duty_that_fails():
    async with running(ScriptedDuty([RuntimeError("away")]), backoff_min_ms=3_600_000) as (loop, runs):
        await runs.next()
        for _ in range(5):
            loop.wake()
            await let_others_run()
        assert runs.queue.empty()


async def waits_ms(duty: ScriptedDuty, number: int, **options: int) -> list[float]:
    """Return how long a duty waited after each of its first runs."""
    started: list[float] = []
    duty.before = lambda: started.append(time.monotonic())
    async with running(duty, **options) as (_, runs):
        for _ in range(number + 1):
            await runs.next()
    return [(later - earlier) * 1000 for earlier, later in pairwise(started)]


async def test_wait_after_errors_doubles_up_to_its_limit():
    duty = ScriptedDuty([RuntimeError(str(number)) for number in range(6)])
    found = await waits_ms(duty, 6, backoff_min_ms=4, backoff_max_ms=32)
    wanted = [4, 8, 16, 32, 32, 32]
    assert all(waited >= least * 0.95 for waited, least in zip(found, wanted, strict=True))


async def test_wait_after_errors_begins_again_after_a_success():
    # Nine errors, then a success: the next wait is 1 ms. Without the success it would be 512 ms; nothing shorter is
    # asked of the machine.
    script = [RuntimeError(str(number)) for number in range(9)]
    duty = ScriptedDuty([*script, RunResult(1, more=True), RuntimeError("again")])
    found = await waits_ms(duty, 11, backoff_min_ms=1)
    assert found[-1] < 512 * 0.95 <= sum(found[:9])


async def test_stop_ends_every_kind_of_wait_at_once():
    for duty in (
        ScriptedDuty(),
        ScriptedDuty([RuntimeError("away")]),
        ScriptedDuty([RunResult(1, more=True)], Schedule(NEVER_S, pause_s=NEVER_S)),
    ):
        async with running(duty, backoff_min_ms=3_600_000) as (_, runs):
            await runs.next()
            await let_others_run()


async def test_stop_lets_the_run_finish_and_begins_no_other():
    gate, entered = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedDuty):
        async def run_once(self) -> RunResult:
            entered.set()
            await gate.wait()
            return RunResult(1, more=True)

    async with running(Slow()) as (loop, runs):
        await entered.wait()
        loop.stop()
        await let_others_run()
        assert runs.queue.empty()
        gate.set()
        assert (await runs.next()).done.count == 1
    assert runs.queue.empty()


async def test_exhausting_ends_with_nothing_more_or_with_an_error():
    seen: list[DutyRun] = []
    await exhaust(ScriptedDuty([RunResult(2, more=True), RunResult(1), RunResult(9)]), seen.append)
    assert [run.done.count for run in seen] == [2, 1]
    seen.clear()
    await exhaust(ScriptedDuty([RunResult(2, more=True), RuntimeError("away"), RunResult(9)]), seen.append)
    assert [run.error is None for run in seen] == [True, False]


async def test_intervals_vary_so_that_workers_do_not_stay_together():
    loop = Loop(ScriptedDuty(), Options(jitter_percent=50), lambda run: None)
    seen = [loop._varied(100) for _ in range(200)]
    assert min(seen) >= 75
    assert max(seen) <= 125
    assert max(seen) - min(seen) > 10


class Holding(ScriptedDuty):
    """A duty that has jobs under way between its runs."""

    async def finish(self) -> None:
        """Such duties are known by this."""


async def test_duty_with_jobs_under_way_waits_no_longer_than_its_lease_lasts() -> None:
    """After an outage that is shorter than the lease, it renews the lease before the lease is over."""
    duty = Holding([RuntimeError("away")] * 3)
    async with running(duty, backoff_min_ms=3_600_000, backoff_max_ms=3_600_000, lease_ms=1_000) as (_, runs):
        for _ in range(3):
            assert (await runs.next()).error is not None
        assert (await runs.next()).error is None


async def test_what_is_due_before_the_interval_is_over_ends_the_wait():
    duty = ScriptedDuty([RunResult(0, again_in_s=0.01), RunResult(1)])
    async with running(duty) as (_, runs):
        assert [(await runs.next()).done.count for _ in range(2)] == [0, 1]
        await let_others_run()
        assert runs.queue.empty()


async def test_what_is_due_after_the_interval_does_not_lengthen_it():
    duty = ScriptedDuty([RunResult(0, again_in_s=NEVER_S)], Schedule(0.01))
    async with running(duty) as (_, runs):
        assert [(await runs.next()).done.count for _ in range(2)] == [0, 0]
