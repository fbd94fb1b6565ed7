"""Notifications: workers are woken for what is due, and for nothing else."""

from datetime import timedelta
from typing import Any

import pytest

from assent.app import App
from assent.store.connection import connect
from tests.postgres import SETTINGS
from tests.runtime.flows import ORG
from tests.tasks.workshop import Opened, Workshop


@pytest.fixture
def shop(app: App, opened: Opened) -> Workshop:
    @app.task("tests.note")
    async def note() -> None: ...

    return opened()


async def test_workers_are_woken_for_what_is_due_and_for_nothing_else(shop: Workshop) -> None:
    heard: list[Any] = []
    listener = await connect(shop.database.url, SETTINGS)
    try:
        await listener.add_listener("assent_tasks", lambda *told: heard.append(told))
        await shop.submit("tests.note", run_at=shop.database.clock.now() + timedelta(hours=1))
        assert await shop.runtime.org(ORG).tasks.retry_all() == 0
        async with shop.database.transaction(None) as connection:
            assert await shop.duty._queue.give_back_unknown(connection, []) == 0
        await listener.fetchval("SELECT 1")
        assert heard == [], "nothing is to be done now"
        await shop.submit("tests.note")
        await listener.fetchval("SELECT 1")
        assert len(heard) == 1
    finally:
        await listener.close()
