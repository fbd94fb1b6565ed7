"""A worker of tasks on a database of the test's own, whose clock the test moves."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from assent.app import App
from assent.store.database import Database
from tests.workers import OpenTasksWorker, TasksWorker


@pytest.fixture
async def open_tasks_worker(app: App, database: Database) -> AsyncIterator[OpenTasksWorker]:
    """Opens workers of the tasks that the application has declared by then."""
    workers: list[TasksWorker] = []

    def open_worker(**options: Any) -> TasksWorker:
        workers.append(TasksWorker(app, database, **options))
        return workers[-1]

    yield open_worker
    for worker in workers:
        await worker.duty.finish()
