"""The application that the tests' processes run too, on the test's own database."""

import pytest
from tests.processes.application import app, keep_calls

from assent.runtime import Runtime
from assent.store.database import Database


@pytest.fixture
async def runtime(database: Database) -> Runtime:
    await keep_calls(database)
    return app.runtime(database)
