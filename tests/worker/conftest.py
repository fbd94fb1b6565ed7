"""A workplace on a database of the test's own, whose clock the test moves."""

import pytest

from assent.store.database import Database
from assent.worker.duty import WorkerContext


@pytest.fixture
def place(database: Database) -> WorkerContext:
    return WorkerContext(database)
