"""Workers that die over tasks, at every point between claim, run and mark: none is lost, and what a task writes with
its completion is written once. Processes are really killed; and once more the connection ends at each statement.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.tasks import Tasks
from tests.postgres import SETTINGS
from tests.processes.application import app as processes_app
from tests.processes.application import calls, keep_calls
from tests.processes.spawn import Child, ChildDied, children, closed_gate, wait_until_blocked
from tests.properties.crashing import Crash, CrashingDatabase
from tests.workers import TasksWorker

TASKS = 3

Killing = Callable[[Database, Child], AbstractAsyncContextManager[None]]


@pytest.fixture
async def tasks_worker(database: Database) -> AsyncIterator[TasksWorker]:
    await keep_calls(database)
    tasks_worker = TasksWorker(processes_app, database)
    yield tasks_worker
    await tasks_worker.duty.finish()


@asynccontextmanager
async def holding(database: Database, sql: str) -> AsyncIterator[Any]:
    async with database.transaction(None) as connection:
        await connection.execute(sql)
        yield connection


@asynccontextmanager
async def before_the_claim(database: Database, child: Child) -> AsyncIterator[None]:
    """It has chosen its tasks, in a transaction that still has to put them under its lease."""
    async with holding(database, "LOCK TABLE assent.worker_leases IN EXCLUSIVE MODE") as observer:
        yield
        await wait_until_blocked(observer, 1)
        await child.kill()


@asynccontextmanager
async def in_the_middle(database: Database, child: Child) -> AsyncIterator[None]:
    """Its functions have written, in transactions that still have to complete the tasks."""
    async with closed_gate(database) as observer:
        yield
        await wait_until_blocked(observer, TASKS)
        await child.kill()


@asynccontextmanager
async def before_the_mark(database: Database, child: Child) -> AsyncIterator[None]:
    """Its functions have returned, and their attempts are to be written down."""
    async with holding(database, "LOCK TABLE assent.job_attempts IN SHARE MODE") as observer:
        yield
        await wait_until_blocked(observer, 1)
        await child.kill()


KILLINGS: list[Killing] = [before_the_claim, in_the_middle, before_the_mark]


@pytest.mark.parametrize("killing", KILLINGS, ids=lambda killing: killing.__name__)
async def test_killed_worker_loses_no_task_and_what_tasks_write_is_written_once(
    tasks_worker: TasksWorker, killing: Killing
) -> None:
    for number in range(TASKS):
        await tasks_worker.submit("tests.run", {"what": f"task {number}", "waits": killing is in_the_middle})
    async with children(tasks_worker.database, 1) as (child,):
        async with killing(tasks_worker.database, child):
            dying = asyncio.create_task(child.ask("run_tasks"))
        assert isinstance((await asyncio.gather(dying, return_exceptions=True))[0], ChildDied)
    assert await calls(tasks_worker.database) == []
    await tasks_worker.sweep()
    await tasks_worker.work()
    rows = await tasks_worker.rows()
    assert [row["status"] for row in rows] == ["done"] * TASKS
    expected = 1 if killing is before_the_claim else 2
    assert [row["attempts"] for row in rows] == [expected] * TASKS
    assert sorted(await calls(tasks_worker.database)) == [f"task {number}" for number in range(TASKS)]


async def die_over_tasks(tasks_worker: TasksWorker) -> None:
    """Have a process of its own run tasks, one of which kills it."""
    async with children(tasks_worker.database, 1, MAY_DIE="yes") as (child,):
        dying = asyncio.create_task(child.ask("run_tasks"))
        assert isinstance((await asyncio.gather(dying, return_exceptions=True))[0], ChildDied)


async def test_task_that_kills_its_worker_ends_dead(tasks_worker: TasksWorker, clock: MovedClock) -> None:
    """Attempts are counted when they begin, so that each death counts."""
    await tasks_worker.submit("tests.kill", {"what": "poison"})
    for _ in range(3):
        await die_over_tasks(tasks_worker)
        await tasks_worker.sweep()
        clock.advance("1m")
    await tasks_worker.work()
    poison = await tasks_worker.row()
    assert (poison["status"], poison["attempts"]) == ("dead", 3)
    assert [one["outcome"] for one in await tasks_worker.attempts()] == ["lost"] * 3


async def test_task_that_kills_its_worker_costs_the_tasks_beside_it_nothing(
    tasks_worker: TasksWorker,
) -> None:
    """After the first worker is lost, the one that killed it runs alone, and the others go on at once."""
    poison = await tasks_worker.submit("tests.kill", {"what": "poison"})
    for number in range(20):
        await tasks_worker.submit("tests.run", {"what": f"task {number}"})
    await die_over_tasks(tasks_worker)
    assert (await tasks_worker.sweep())["tasks"] == 21
    now = tasks_worker.database.clock.now()
    assert {(row["suspect"], row["run_at"] <= now) for row in await tasks_worker.rows()} == {(True, True)}
    await die_over_tasks(tasks_worker)
    rows = {row["id"]: row for row in await tasks_worker.rows()}
    running = [row for row in rows.values() if row["status"] == "running"]
    assert [row["id"] for row in running] == [poison], "nothing else was under way when it killed again"
    assert (await tasks_worker.sweep()) == {"tasks": 1, "effects": 0, "results": 0, "dead": 0}
    tasks_worker.database.clock.advance("5s")  # type: ignore[attr-defined]
    await tasks_worker.work()
    for row in await tasks_worker.rows():
        lost = [one for one in await tasks_worker.attempts(row["id"]) if one["outcome"] == "lost"]
        left = row["attempts_max"] - row["attempts"]
        if row["id"] == poison:
            assert (len(lost), row["status"]) == (2, "done"), "this process is none that may die"
            assert left == 1, "one of its three attempts went with the worker that it had to itself"
        else:
            assert (len(lost), row["status"], left) == (1, "done", 2), "its own attempt, and no other"
    assert sorted(await calls(tasks_worker.database)) == sorted(f"task {number}" for number in range(20))


async def test_suspects_that_run_for_a_while_do_not_hold_up_each_other(
    tasks_worker: TasksWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies of something else leaves suspects that run for long: each is soon cleared."""
    monkeypatch.setattr("assent.jobs.lease.PROBATION_S", 0.01)
    number = 3  # as many as may have transactions of their own at once: a third of the pool
    for each in range(number):
        await tasks_worker.submit("tests.run", {"what": f"task {each}", "waits": True})
    assert len(await TasksWorker(processes_app, tasks_worker.database).claim(number)) == number
    assert (await tasks_worker.sweep())["tasks"] == number
    async with closed_gate(tasks_worker.database) as observer:
        async with asyncio.timeout(30):
            while len(tasks_worker.duty._under_way) < number:
                await tasks_worker.duty.run_once()
        await wait_until_blocked(observer, number)
    await tasks_worker.work()
    assert {row["status"] for row in await tasks_worker.rows()} == {"done"}


async def test_task_that_kills_late_is_found_out_too(tasks_worker: TasksWorker) -> None:
    """Each worker that is lost with it lengthens the time in which no other suspect starts."""
    await tasks_worker.submit("tests.run", {"what": "late"})
    jobs, probations = tasks_worker.duty._jobs, []
    for losses in (1, 2, 3, 4):
        jobs.begin(("acme", UUID(int=losses), 1), losses)
        (until_s,) = jobs._suspects.values()
        probations.append(round(until_s - time.monotonic()))
        jobs.end([("acme", UUID(int=losses), 1)])
    assert probations == [1, 4, 16, 64]


@pytest.mark.parametrize("by_server", [False, True], ids=["client dies", "server ends it"])
async def test_worker_that_dies_at_any_statement_loses_no_task(
    tasks_worker: TasksWorker, database_url: str, by_server: bool
) -> None:
    crashing = await CrashingDatabase.open(database_url, settings=SETTINGS, clock=tasks_worker.database.clock)
    statement, died = 0, True
    try:
        while died:
            statement += 1
            task_id = await tasks_worker.submit("tests.run", {"what": f"task {statement}"})
            crashing.arm(statement, by_server=by_server)
            worker = Tasks(WorkerContext(crashing, runtime=processes_app.runtime(crashing)))
            try:
                while (await worker.run_once()).more:
                    pass
            except (Crash, Exception):
                assert crashing.has_died
            died = crashing.has_died
            crashing.arm(None)
            for attempt in list(worker._under_way):
                attempt.cancel()
            await tasks_worker.sweep()
            await tasks_worker.work()
            row = next(row for row in await tasks_worker.rows() if row["id"] == task_id)
            assert row["status"] == "done"
    finally:
        await crashing.close()
    assert statement > 10, "there were statements to die at"
    assert await calls(tasks_worker.database) == [f"task {number + 1}" for number in range(statement)]
