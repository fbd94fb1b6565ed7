"""Outages: errors that say that the database is away, and that the caller's own code has no part in them."""

from typing import Final

import asyncpg

from assent.store.errors import StoreError

OUTAGE_STATES: Final = ("08", "53", "57P", "58", "25006")
"""How the states begin of a server that is starting, stopping, out of connections, memory or disk, or a standby."""

CONNECTION_LOST: Final = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What asyncpg raises on a connection that ends. An internal error is one of them: the server's last message has
arrived, and the end of the connection has not."""


def is_outage(error: BaseException | None) -> bool:
    """Return whether the kind of an error says all there is to know: the database cannot be reached or used."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(OUTAGE_STATES)
    return isinstance(error, StoreError | asyncpg.InterfaceError | OSError)
