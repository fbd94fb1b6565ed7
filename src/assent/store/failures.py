"""Errors of PostgreSQL that are no mistake of the caller: it is away, or the transaction lost against others.

A transaction that lost is run again here; for no other reason is one.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from assent.store.errors import StoreError
from assent.telemetry import hooks

T = TypeVar("T")

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


BACKOFF_S_MIN: Final = 0.005
BACKOFF_S_MAX: Final = 1.0

LOST_AGAINST_OTHERS: Final = frozenset({"40001", "40P01"})
"""Serialization failure and deadlock: the same transaction may well succeed the next time."""


SCHEMA_CHANGED: Final = (asyncpg.InvalidCachedStatementError, asyncpg.OutdatedSchemaCacheError)
"""A migration added to a table whose rows a prepared statement returns. By the time that asyncpg raises this it has
forgotten what it knew, for all connections of the pool, and the transaction is rolled back."""


def is_lost(error: BaseException) -> bool:
    """Return whether an attempt was rolled back for a reason that need not hold the next time."""
    if isinstance(error, SCHEMA_CHANGED):
        return True
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate in LOST_AGAINST_OTHERS


async def retry_lost(attempt: Callable[[], Awaitable[T]], attempts_max: int) -> T:
    """Return the result of the first attempt that does not lose against others; the last one's error is raised."""
    for count in range(1, attempts_max):
        try:
            return await attempt()
        except (asyncpg.PostgresError, asyncpg.InternalClientError) as error:
            if not is_lost(error):
                raise
            if hooks.metrics is not None:
                hooks.metrics.transaction_lost()
            await asyncio.sleep(backoff_s(count))
    return await attempt()


def backoff_s(attempts: int) -> float:
    """Return how long to wait after so many lost attempts: doubling, and random so that losers do not meet again."""
    ceiling = min(BACKOFF_S_MAX, BACKOFF_S_MIN * 2 ** min(attempts, 16))
    return random.uniform(BACKOFF_S_MIN, ceiling)  # noqa: S311 - jitter is no secret
