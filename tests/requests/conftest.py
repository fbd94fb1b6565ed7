"""A desk for results, on a database and a clock of the test's own."""

import pytest

from assent.app import App
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.requests.asking import Desk


@pytest.fixture
def desk(database: Database, clock: MovedClock) -> Desk:
    return Desk(App().runtime(database), database, clock)
