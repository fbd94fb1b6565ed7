"""Requests whose time is over: ended by the clock, and told like any other decision."""

from datetime import datetime
from typing import Final

from assent.evidence.telling import tell_decided
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.evidence", "expiring.sql")


async def expire_requests(connection: Connection, limit: int, now: datetime) -> int:
    """End requests that are due; answers how many there were. What comes for them now is late."""
    rows = await connection.fetch(_SQL.expire_requests, limit, now)
    await tell_decided(connection, [dict(row) for row in rows], now)
    return len(rows)
