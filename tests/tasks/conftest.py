"""A workshop on a database of the test's own, whose clock the test moves."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from assent.app import App
from assent.store.database import Database
from tests.tasks.workshop import Opened, Workshop


@pytest.fixture
async def opened(app: App, database: Database) -> AsyncIterator[Opened]:
    """Opens workshops for what the application has declared by then."""
    shops: list[Workshop] = []

    def open_shop(**options: Any) -> Workshop:
        shops.append(Workshop(app, database, **options))
        return shops[-1]

    yield open_shop
    for shop in shops:
        await shop.duty.finish()
