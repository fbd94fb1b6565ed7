"""Requests that no result ends: their time is over, or their call never arrived. The step that
waits is notified as of any other decision."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from assent.requests.notify import notify_steps
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.requests", "requests.sql")

Lost = tuple[str, UUID, str]
"""An org, a request, and why its call is dead."""


async def expire_requests(connection: Connection, limit: int, now: datetime) -> int:
    """End requests that are due, and return how many there were. Results that arrive for them now are late."""
    rows = await connection.fetch(_SQL.expire_requests, limit, now)
    await notify_steps(connection, [dict(row) for row in rows], now)
    return len(rows)


async def fail_requests(connection: Connection, lost: Sequence[Lost], now: datetime) -> None:
    """End requests whose call did not arrive; one that has results by now did arrive."""
    if lost:
        rows = await connection.fetch(_SQL.fail_requests, *map(list, zip(*lost, strict=True)), now)
        await notify_steps(connection, [dict(row) for row in rows], now)
