"""Workers that die over tasks, at every point between claim, run and mark: none is lost, and what a task writes with
its completion is written once. Processes are really killed; and once more the connection ends at each statement.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import Workplace
from assent.worker.tasks import Tasks
from tests.postgres import SETTINGS
from tests.processes.application import app as processes_app
from tests.processes.application import calls, keep_calls
from tests.processes.spawn import Child, ChildDied, children, closed_gate, wait_until_blocked
from tests.properties.crashing import Crash, CrashingDatabase
from tests.tasks.workshop import Workshop

TASKS = 3

Killing = Callable[[Database, Child], AbstractAsyncContextManager[None]]


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Workshop]:
    await keep_calls(database)
    shop = Workshop(processes_app, database)
    yield shop
    await shop.duty.finish()


@asynccontextmanager
async def holding(database: Database, sql: str) -> AsyncIterator[Any]:
    async with database.transaction(None) as connection:
        await connection.execute(sql)
        yield connection


@asynccontextmanager
async def before_the_claim(database: Database, child: Child) -> AsyncIterator[None]:
    lock = "SELECT pg_advisory_xact_lock(hashtextextended('assent.tasks', 3))"
    async with holding(database, lock) as observer:
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
    async with holding(database, "LOCK TABLE assent.task_attempts IN SHARE MODE") as observer:
        yield
        await wait_until_blocked(observer, 1)
        await child.kill()


KILLINGS: list[Killing] = [before_the_claim, in_the_middle, before_the_mark]


@pytest.mark.parametrize("killing", KILLINGS, ids=lambda killing: killing.__name__)
async def test_killed_worker_loses_no_task_and_what_tasks_write_is_written_once(
    shop: Workshop, killing: Killing
) -> None:
    for number in range(TASKS):
        await shop.submit("tests.run", {"what": f"task {number}", "waits": killing is in_the_middle})
    async with children(shop.database, 1) as (child,):
        async with killing(shop.database, child):
            dying = asyncio.create_task(child.ask("run_tasks"))
        assert isinstance((await asyncio.gather(dying, return_exceptions=True))[0], ChildDied)
    assert await calls(shop.database) == []
    await shop.sweep()
    await shop.work()
    rows = await shop.rows()
    assert [row["status"] for row in rows] == ["complete"] * TASKS
    expected = 1 if killing is before_the_claim else 2
    assert [row["attempts"] for row in rows] == [expected] * TASKS
    assert sorted(await calls(shop.database)) == [f"task {number}" for number in range(TASKS)]


async def test_task_that_kills_its_worker_ends_dead(shop: Workshop, clock: MovedClock) -> None:
    """Attempts are counted when they begin, so that each death counts."""
    await shop.submit("tests.kill", {"what": "poison"})
    for _ in range(3):
        async with children(shop.database, 1, MAY_DIE="yes") as (child,):
            dying = asyncio.create_task(child.ask("run_tasks"))
            assert isinstance((await asyncio.gather(dying, return_exceptions=True))[0], ChildDied)
        await shop.sweep()
        clock.advance("1m")
    await shop.work()
    poison = await shop.row()
    assert (poison["status"], poison["attempts"]) == ("dead", 3)
    assert [one["outcome"] for one in await shop.attempts()] == ["lost"] * 3


async def test_what_is_lost_again_and_again_is_spread_over_a_while(shop: Workshop) -> None:
    """So that those who only died with the one that kills are not there the next time."""
    for number in range(30):
        await shop.submit("tests.run", {"what": f"task {number}"})
    times = []
    for _ in range(2):
        worker = Workshop(processes_app, shop.database)
        assert len(await worker.claim(30)) == 30
        await shop.sweep()
        times.append(len({row["run_at"] for row in await shop.rows()}))
    assert times[0] == 1
    assert times[1] > 20


@pytest.mark.parametrize("by_server", [False, True], ids=["client dies", "server ends it"])
async def test_worker_that_dies_at_any_statement_loses_no_task(
    shop: Workshop, database_url: str, by_server: bool
) -> None:
    crashing = await CrashingDatabase.open(database_url, settings=SETTINGS, clock=shop.database.clock)
    statement, died = 0, True
    try:
        while died:
            statement += 1
            task_id = await shop.submit("tests.run", {"what": f"task {statement}"})
            crashing.arm(statement, by_server=by_server)
            worker = Tasks(Workplace(crashing, runtime=processes_app.runtime(crashing)))
            try:
                while (await worker.run_once()).more:
                    pass
            except (Crash, Exception):
                assert crashing.has_died
            died = crashing.has_died
            crashing.arm(None)
            for attempt in list(worker._under_way):
                attempt.cancel()
            await shop.sweep()
            await shop.work()
            row = next(row for row in await shop.rows() if row["id"] == task_id)
            assert row["status"] == "complete"
    finally:
        await crashing.close()
    assert statement > 10, "there were statements to die at"
    assert await calls(shop.database) == [f"task {number + 1}" for number in range(statement)]
