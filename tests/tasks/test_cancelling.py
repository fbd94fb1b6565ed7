"""Cancelling a task that runs: its worker hears of it at once, and would find out by itself."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from statistics import median
from typing import Any
from uuid import UUID

import pytest

import assent
from assent.app import App
from assent.store.database import Database
from assent.worker.supervisor import Supervisor
from tests.authored import END, arrows
from tests.plain_sql import WAIT_MAX_S
from tests.workers import OpenTasksWorker, TasksWorker
from tests.world import ANN, ORG, publish_steps

NEVER_MS = 86_400_000
"""An interval at which nothing is found by polling during a test."""


class Long:
    """A task that runs until it is broken off."""

    def __init__(self, app: App) -> None:
        self.begun, self.broken = asyncio.Event(), asyncio.Event()
        app.task("tests.long")(self._run)

    async def _run(self) -> None:
        self.begun.set()
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            self.broken.set()
            raise

    async def took_s(self, event: asyncio.Event) -> float:
        """Wait for an event, and return how long that took."""
        began_s = time.monotonic()
        await asyncio.wait_for(event.wait(), WAIT_MAX_S)
        event.clear()
        return time.monotonic() - began_s


@pytest.fixture
def long(app: App) -> Long:
    return Long(app)


@asynccontextmanager
async def running(worker: TasksWorker) -> AsyncIterator[None]:
    """The worker as a process has it: its loops, and a connection that listens."""
    supervisor = Supervisor(worker.database, [worker.duty], worker.place.options)
    task = asyncio.create_task(supervisor.run())
    try:
        yield
    finally:
        supervisor.stop()
        await asyncio.wait_for(task, WAIT_MAX_S)


async def test_cancelled_task_is_interrupted_within_a_second(
    long: Long, open_tasks_worker: OpenTasksWorker
) -> None:
    """By notification alone: the worker polls once a day, and its lease is renewed every 20 seconds."""
    worker, took_s = open_tasks_worker(tasks_interval_ms=NEVER_MS), []
    async with running(worker):
        for _ in range(5):
            task_id = await worker.submit("tests.long")
            await long.took_s(long.begun)
            await worker.runtime.org(ORG).tasks.cancel(task_id)
            took_s.append(await long.took_s(long.broken))
    assert median(took_s) < 1, took_s
    assert {row["status"] for row in await worker.rows()} == {"cancelled"}
    assert await worker.attempts(task_id) == []


async def test_task_of_a_step_that_is_left_is_interrupted_at_once(
    long: Long, open_tasks_worker: OpenTasksWorker, database: Database
) -> None:
    worker = open_tasks_worker(tasks_interval_ms=NEVER_MS)
    await publish_steps(
        database,
        "build",
        [{"id": "build", "type": "task", "task": "tests.long"}, END],
        arrows("build", "end"),
    )
    async with running(worker):
        view = await worker.runtime.org(ORG, ANN).instances.start("build", {})
        await long.took_s(long.begun)
        await worker.runtime.org(ORG, ANN).instances.cancel(view.id, "not needed")
        await long.took_s(long.broken)
    assert await worker.status() == "cancelled"


async def cancel(worker: TasksWorker, task_id: UUID) -> None:
    await worker.runtime.org(ORG).tasks.cancel(task_id)


async def lose(worker: TasksWorker, task_id: UUID) -> None:
    """Have the task rescued, as that of a worker whose lease is over."""
    assert (await worker.sweep())["tasks"] == 1


@pytest.mark.parametrize("take", [cancel, lose])
async def test_worker_that_hears_nothing_interrupts_what_was_taken_from_it(
    long: Long, open_tasks_worker: OpenTasksWorker, take: Callable[[TasksWorker, UUID], Awaitable[None]]
) -> None:
    """No connection listens here: the worker looks by itself, and no comparison of its lease is due."""
    worker = open_tasks_worker(tasks_interval_ms=20)
    task_id = await worker.submit("tests.long")
    await worker.duty.run_once()
    await long.took_s(long.begun)
    await take(worker, task_id)
    renewals = worker.duty._jobs.lease.renewals
    async with asyncio.timeout(WAIT_MAX_S):
        while not long.broken.is_set():
            await worker.duty.run_once()
    assert worker.duty._jobs.lease.renewals == renewals


async def test_plain_function_asks_whether_it_was_interrupted(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    begun, seen = threading.Event(), threading.Event()

    @app.task("tests.plain")
    def plain(task: assent.TaskContext) -> None:
        begun.set()
        while not task.is_interrupted:
            time.sleep(0.01)
        seen.set()

    worker = open_tasks_worker(tasks_interval_ms=20)
    task_id = await worker.submit("tests.plain")
    async with running(worker):
        assert await asyncio.to_thread(begun.wait, WAIT_MAX_S)
        await cancel(worker, task_id)
        assert await asyncio.to_thread(seen.wait, WAIT_MAX_S)
    assert not worker.duty._jobs.is_held, "it would keep its lease for a task that is none of its own"
    assert (await worker.status(), await worker.attempts()) == ("cancelled", [])


async def test_attempt_that_has_written_its_end_is_not_taken_for_one_that_was_cancelled(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    """Between its commit and its return, the row of a task is done, and no worker's any more."""

    @app.task("tests.note")
    async def note() -> None: ...

    worker = open_tasks_worker()
    await worker.submit("tests.note")
    (task,) = await worker.claim(1)
    async with worker.database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.jobs SET status = 'done', worker_id = NULL, ended_at = assent.now() WHERE org_id = 'acme'"
        )
        assert await worker.duty._queue.find_taken(connection, [task.job]) == set()


async def test_cancel_of_what_waits_wakes_no_worker(long: Long, open_tasks_worker: OpenTasksWorker) -> None:
    worker = open_tasks_worker()
    heard: list[Any] = []
    async with worker.database.listen("assent_tasks") as listener:
        task_id = await worker.submit("tests.long")
        heard.append(await listener.hear())
        await cancel(worker, task_id)
        heard.append(await listener.hear(0.2))
    assert heard == [{"assent_tasks": {""}}, {}]
