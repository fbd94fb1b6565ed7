"""The server says goodbye at any moment of a connection's life: an outage like any other, or none at all."""

import asyncio
from typing import Any

import pytest

from assent.store.clock import SYSTEM_CLOCK
from assent.store.connection import LiveConnection
from assent.store.database import Database
from assent.store.errors import StoreError
from assent.store.failures import is_outage
from assent.store.settings import Settings

GOODBYE = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"


def say_goodbye(connection: LiveConnection) -> None:
    """Deliver the server's last message; the end of the connection has not arrived."""
    protocol: Any = connection._protocol  # type: ignore[attr-defined]
    protocol.data_received(b"E" + (len(GOODBYE) + 4).to_bytes(4, "big") + GOODBYE)


async def ask_after_goodbye(database: Database) -> None:
    async with database.transaction("acme") as connection:
        say_goodbye(connection.live)
        await connection.execute("SELECT 1")


async def works(database: Database) -> bool:
    async with database.transaction("acme") as connection:
        return bool(await connection.fetchval("SELECT true"))


async def test_goodbye_between_two_statements_is_an_outage(database: Database) -> None:
    with pytest.raises(StoreError, match="ended by the server") as raised:
        await ask_after_goodbye(database)
    assert is_outage(raised.value)
    assert await works(database)


async def test_goodbye_on_an_idle_connection_is_not_seen_by_its_next_user(database: Database) -> None:
    url, settings = database.url, Settings.defaults().replace(idle_check_after_ms=0, pool_connections_max=1)
    other = await Database.open(url, settings=settings, clock=SYSTEM_CLOCK)
    try:
        async with other.transaction("acme") as connection:
            live = connection.live
        say_goodbye(live)
        assert await works(other)
        assert live.is_closed()
    finally:
        await other.close()


async def test_connection_that_ends_while_it_is_given_back_undoes_nothing(database: Database) -> None:
    """asyncpg gives back in a task of its own: what ends the connection may come first, and COMMIT was answered."""
    loop = asyncio.get_running_loop()
    async with database.transaction(None) as connection:
        live = connection.live
        await connection.execute("CREATE TABLE kept (one int)")
        commit = live.execute

        async def commit_and_end(query: str, *arguments: object, **more: object) -> str:
            status = await commit(query, *arguments, **more)
            if query.startswith("COMMIT"):
                loop.call_soon(live.terminate)
            return status

        live.execute = commit_and_end
    assert live.is_closed()
    async with database.transaction(None) as connection:
        assert await connection.fetchval("SELECT count(*) FROM kept") == 0
    assert database.connections[0] == 0
