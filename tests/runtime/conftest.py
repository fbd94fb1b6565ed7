"""Definitions and a runtime that go by the test's clock."""

import pytest

from assent.app import App
from assent.definitions import Definitions
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.kernel.company import EXPENSE, INVOICE


@pytest.fixture
def definitions(clock: MovedClock) -> Definitions:
    return Definitions(clock)


@pytest.fixture
def app() -> App:
    return App([EXPENSE, INVOICE])


@pytest.fixture
def runtime(app: App, database: Database) -> Runtime:
    return app.runtime(database)
