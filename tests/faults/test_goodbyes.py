"""The server says goodbye between two statements: an outage like any other, and nothing was changed."""

import pytest

from assent.store.database import Database
from assent.store.errors import StoreError
from assent.store.outage import is_outage

GOODBYE = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"


async def ask_after_goodbye(database: Database) -> None:
    """Send a statement when the server's message is there, and the end of the connection is not."""
    async with database.transaction("acme") as connection:
        protocol = connection.live._protocol
        protocol.data_received(b"E" + (len(GOODBYE) + 4).to_bytes(4, "big") + GOODBYE)
        await connection.execute("SELECT 1")


async def test_goodbye_between_two_statements_is_an_outage(database: Database) -> None:
    with pytest.raises(StoreError, match="ended by the server") as raised:
        await ask_after_goodbye(database)
    assert is_outage(raised.value)
    async with database.transaction("acme") as connection:
        assert await connection.fetchval("SELECT 1") == 1
