"""The company's application, on a database of the test's own."""

import pytest

from assent.app import App
from assent.kernel import Kernel
from assent.store.database import Database
from tests.kernel.company import EXPENSE, INVOICE


@pytest.fixture
def app() -> App:
    return App([EXPENSE, INVOICE])


@pytest.fixture
def kernel(app: App, database: Database) -> Kernel:
    return app.kernel(database)
