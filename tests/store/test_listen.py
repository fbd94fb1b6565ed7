"""Listening: what wakes, and that nothing is missed when the connection is lost."""

import asyncio

import pytest

from assent.store.errors import StoreError
from assent.store.listen import Listener
from tests.plain_sql import end_listeners

LONG_S = 30
"""Long enough never to be the reason that a test passes."""


async def notify(database, *channels):
    async with database.transaction(None) as connection:
        for channel in channels:
            await connection.execute("select pg_notify($1, '')", channel)


async def test_a_notification_wakes_and_tells_its_channel(database):
    async with database.listen("events", "effects") as listener:
        await notify(database, "effects")
        assert await listener.wait(LONG_S) == {"effects"}


async def test_notifications_since_the_last_wait_are_told_together_and_once(database):
    async with database.listen("events", "effects") as listener:
        await notify(database, "effects", "events", "effects", "others")
        assert await listener.wait(LONG_S) == {"events", "effects"}
        assert await listener.wait(0) == frozenset()


async def test_waiting_ends_with_its_time(database):
    async with database.listen("events") as listener:
        assert await listener.wait(0.001) == frozenset()


async def test_a_name_is_taken_as_it_is_written(database):
    async with database.listen('Events; "odd"') as listener:
        await notify(database, 'Events; "odd"')
        assert await listener.wait(LONG_S) == {'Events; "odd"'}


async def test_after_a_reconnect_every_channel_wakes_once_and_works_again(database):
    async with database.listen("events", "effects") as listener:
        for _ in range(3):
            assert await end_listeners(database)
            assert await listener.wait(LONG_S) == {"events", "effects"}
            await notify(database, "events")
            assert await listener.wait(LONG_S) == {"events"}


async def test_a_waiting_listener_is_woken_by_the_reconnect(database):
    async with database.listen("events") as listener:
        waiting = asyncio.create_task(listener.wait(LONG_S))
        assert await end_listeners(database)
        assert await waiting == {"events"}


async def test_the_first_connection_must_succeed():
    with pytest.raises(StoreError, match="Cannot connect"):
        async with Listener("postgresql://127.0.0.1:1/nothing", ["events"]):
            raise AssertionError("entered")


async def test_leaving_while_the_server_is_away_ends_at_once(database):
    listener = database.listen("events")
    async with listener:
        listener._url = "postgresql://127.0.0.1:1/nothing"
        assert await end_listeners(database)
