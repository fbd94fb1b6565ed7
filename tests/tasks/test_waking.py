"""Notifications: workers are woken for what is due, and for nothing else."""

from datetime import timedelta
from typing import Any

import pytest

from assent.app import App
from assent.store.connection import connect
from tests.postgres import SETTINGS
from tests.workers import OpenTasksWorker, TasksWorker
from tests.world import ORG


@pytest.fixture
def tasks_worker(app: App, open_tasks_worker: OpenTasksWorker) -> TasksWorker:
    @app.task("tests.note")
    async def note() -> None: ...

    return open_tasks_worker()


async def test_workers_are_woken_for_what_is_due_and_for_nothing_else(tasks_worker: TasksWorker) -> None:
    heard: list[Any] = []
    listener = await connect(tasks_worker.database.url, SETTINGS)
    try:
        await listener.add_listener("assent_tasks", lambda *told: heard.append(told))
        await tasks_worker.submit("tests.note", run_at=tasks_worker.database.clock.now() + timedelta(hours=1))
        assert await tasks_worker.runtime.org(ORG).tasks.retry_all() == 0
        async with tasks_worker.database.transaction(None) as connection:
            assert await tasks_worker.duty._queue.give_back_unknown(connection, []) == 0
        await listener.fetchval("SELECT 1")
        assert heard == [], "nothing is to be done now"
        await tasks_worker.submit("tests.note")
        await listener.fetchval("SELECT 1")
        assert len(heard) == 1
    finally:
        await listener.close()
