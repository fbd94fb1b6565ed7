"""The application that the tests' processes run too, on the test's own database."""

import pytest

from assent.runtime import Runtime
from assent.store.database import Database
from tests.processes.application import app, keep_calls


@pytest.fixture
async def runtime(database: Database) -> Runtime:
    await keep_calls(database)
    return app.runtime(database)
