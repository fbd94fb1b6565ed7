"""More tasks with a transaction of their own than the pool has connections: they wait, and keep nobody else waiting."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

import assent
from assent.app import App
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.timers import Timers
from tests.postgres import SETTINGS
from tests.rows import insert_step
from tests.workers import TasksWorker, run_until_done
from tests.world import ORG

POOL = SETTINGS.replace(pool_connections_max=10, pool_wait_timeout_ms=300)
"""A task that waits for a connection would fail after 0.3 s, if waiting were a failure."""


@pytest.fixture
async def narrow(database: Database) -> AsyncIterator[Database]:
    """The same database over a pool of ten."""
    open_tasks_worker = await Database.open(database.url, settings=POOL, clock=database.clock)
    try:
        yield open_tasks_worker
    finally:
        await open_tasks_worker.close()


async def test_200_tasks_with_transactions_starve_no_timer_and_none_fails(app: App, narrow: Database) -> None:
    held, go = asyncio.Semaphore(0), asyncio.Event()

    @app.task("tests.hold", attempts_max=1, timeout=timedelta(seconds=30))
    async def hold(task: assent.TaskContext) -> None:
        async with task.transaction() as connection:
            await connection.execute("SELECT 1")
            held.release()
            await go.wait()

    tasks_worker = TasksWorker(app, narrow)
    for _ in range(200):
        await tasks_worker.submit("tests.hold")
    working = asyncio.create_task(tasks_worker.work())
    for _ in range(POOL.task_transactions_max):
        await asyncio.wait_for(held.acquire(), 20)
    await asyncio.sleep(
        2 * POOL.pool_wait_timeout_ms / 1000
    )  # whoever waits for a connection gives up in this time
    async with narrow.transaction(None) as connection:
        await insert_step(connection, resume_at=narrow.clock.now())
    assert (await run_until_done(Timers(WorkerContext(narrow)))).count == 1
    go.set()
    assert await asyncio.wait_for(working, 60) == {"done": 200}
    assert {row["attempts"] for row in await tasks_worker.rows()} == {1}
    await tasks_worker.duty.finish()


async def test_waiting_for_a_connection_is_no_part_of_the_attempts_time(app: App, narrow: Database) -> None:
    async with narrow.transaction(None) as connection:
        await connection.execute("SELECT 1")
    first, go = asyncio.Event(), asyncio.Event()

    @app.task("tests.hold", attempts_max=1)
    async def hold(task: assent.TaskContext) -> None:
        async with task.transaction():
            first.set()
            await go.wait()

    @app.task("tests.wait", attempts_max=1, timeout=timedelta(milliseconds=200))
    async def wait(task: assent.TaskContext) -> None:
        async with task.transaction() as connection:
            await connection.execute("SELECT 1")

    one = await Database.open(
        narrow.url, settings=POOL.replace(pool_task_transactions_max=1), clock=narrow.clock
    )
    tasks_worker = TasksWorker(app, one)
    await tasks_worker.submit("tests.hold")
    holding = asyncio.create_task(tasks_worker.work())
    await asyncio.wait_for(first.wait(), 20)
    await tasks_worker.submit("tests.wait")
    tasks_worker.duty.wake()
    await asyncio.sleep(1)  # five times what the attempt may take
    go.set()
    assert await asyncio.wait_for(holding, 30) == {"done": 2}
    await tasks_worker.duty.finish()
    await one.close()


async def test_busy_pool_of_a_functions_own_transaction_counts_no_attempt(app: App, narrow: Database) -> None:
    calls = asyncio.Semaphore(0)

    @app.task("tests.own", attempts_max=1)
    async def own(task: assent.TaskContext) -> None:
        calls.release()
        async with small.transaction(ORG) as connection:
            await connection.execute("SELECT 1")

    small = await Database.open(narrow.url, settings=POOL.replace(pool_connections_max=1), clock=narrow.clock)
    tasks_worker = TasksWorker(app, narrow)
    await tasks_worker.submit("tests.own")
    async with small.transaction(None):
        working = asyncio.create_task(tasks_worker.work())
        for _ in range(2):
            await asyncio.wait_for(calls.acquire(), 20)
    assert await asyncio.wait_for(working, 20) == {"done": 1}
    assert (await tasks_worker.row())["attempts"] == 1
    await tasks_worker.duty.finish()
    await small.close()
