"""The queues as operators see them: how much waits, since when, and what is dead."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.operations", "operations.sql")

COUNTED_MAX: Final = 100_000
"""No queue is counted further: it is too long by then, and a look at it stays cheap."""


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    """`events`, `effects`, `results`, `tasks`, `timers`, or `people`: seats at which a person is asked."""
    pending: int
    """What is due."""
    delayed: int
    """What waits for its time: a retry, an instance that is paused, a timer."""
    oldest_s: float
    """How long the oldest has been due."""
    dead: int


async def look_at_queues(
    connection: Connection, now: datetime, partition_id: str | None = None
) -> list[Queue]:
    """Of all orgs, or of the one that the transaction is confined to; of one partition, where one is given."""
    await connection.execute(_SQL.find_by_index)
    if partition_id is None:
        rows = await connection.fetch(_SQL.look_at_queues, now, COUNTED_MAX)
    else:
        rows = await connection.fetch(_SQL.look_at_queues_of_partition, now, COUNTED_MAX, partition_id)
    return [
        Queue(row["name"], row["pending"], row["delayed"], _age_s(row["oldest_at"], now), row["dead"])
        for row in rows
    ]


def _age_s(oldest_at: datetime | None, now: datetime) -> float:
    return 0.0 if oldest_at is None else max(0.0, (now - oldest_at).total_seconds())
