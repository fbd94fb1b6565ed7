"""A desk for results, on a database and a clock of the test's own."""

import pytest

from assent.app import App
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.workers import ResultsWorker


@pytest.fixture
def results_worker(database: Database, clock: MovedClock) -> ResultsWorker:
    return ResultsWorker(App().runtime(database), database, clock)
