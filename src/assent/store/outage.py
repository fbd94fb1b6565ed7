"""Outages: errors that say that the database is away, and that the caller's own code has no part in them."""

from typing import Final

import asyncpg

from assent.store.errors import StoreError

OUTAGE_STATES: Final = ("08", "53", "57P", "58", "25006")
"""How the states begin of a server that is starting, stopping, out of connections, memory or disk, or a standby."""


def is_outage(error: BaseException | None) -> bool:
    """Return whether the kind of an error says all there is to know: the database cannot be reached or used."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(OUTAGE_STATES)
    return isinstance(error, StoreError | asyncpg.InterfaceError | OSError)
