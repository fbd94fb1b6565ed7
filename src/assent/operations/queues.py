"""The queues as operators see them: how much waits, since when, what it is one by one, and what is dead.

Reads, and never writes.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.jobs import dead_letters as jobs
from assent.model.ids import Cursor
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
    processing: int = 0
    """What a worker has claimed."""


async def look_at_queues(
    connection: Connection, now: datetime, partition_id: str | None = None
) -> list[Queue]:
    """Return the queues of all orgs, or of the one that the transaction is confined to, or of one of its partitions."""
    await connection.execute(_SQL.find_by_index)
    if partition_id is None:
        rows = await connection.fetch(_SQL.look_at_queues, now, COUNTED_MAX)
    else:
        rows = await connection.fetch(_SQL.look_at_queues_of_partition, now, COUNTED_MAX, partition_id)
    return [
        Queue(
            *(row["name"], row["pending"], row["delayed"], _age_s(row["oldest_at"], now)),
            *(row["dead"], row["processing"]),
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class IncidentCount:
    """How many instances of one workflow are paused with one code."""

    code: str
    """The code of the incident; `PAUSED` where an operator paused the instance."""
    definition: str
    number: int
    oldest_at: datetime | None = None
    """Since when the first of them is paused, where that was asked for."""


async def count_open_incidents(
    connection: Connection, partition_id: str | None = None
) -> list[IncidentCount]:
    """Return how many instances an error paused, of all orgs or of the one of the transaction."""
    rows = await connection.fetch(_SQL.count_open_incidents, COUNTED_MAX, partition_id)
    return [IncidentCount(**row) for row in rows]


async def count_incidents(connection: Connection) -> list[IncidentCount]:
    """Return the paused instances of all orgs, by code and workflow; together at most `COUNTED_MAX`."""
    await connection.execute(_SQL.find_by_index)
    return [IncidentCount(**row) for row in await connection.fetch(_SQL.count_incidents, COUNTED_MAX)]


def _age_s(oldest_at: datetime | None, now: datetime) -> float:
    return 0.0 if oldest_at is None else max(0.0, (now - oldest_at).total_seconds())


@dataclass(frozen=True, slots=True)
class OpenItem:
    """What a worker has yet to do: an event, an effect or a result; or an event that is kept."""

    queue: Literal["events", "effects", "results", "kept"]
    id: UUID
    what: str
    """The type of an event, the destination of an effect, the request that a result came for."""
    status: str
    created_at: datetime
    instance_id: UUID | None = None
    event_key: str | None = None
    """An event that a step waits for, or will wait for."""
    attempts: int = 0
    retry_at: datetime | None = None
    error: str | None = None


async def list_open(
    connection: Connection, org_id: str, limit: int, partition_id: str | None = None
) -> list[OpenItem]:
    """Return events, effects, results, and the events that no step has waited for yet: the oldest of each first.

    Of one partition, where one is named: what is of no instance is in no partition.
    """
    events = await connection.fetch(_SQL.list_open_events, org_id, limit, partition_id)
    effects = await jobs.list_open(connection, org_id, "effect", limit, partition_id)
    results = await jobs.list_open(connection, org_id, "result", limit, partition_id)
    kept = await connection.fetch(_SQL.list_kept_events, org_id, limit, partition_id)
    return [
        *(OpenItem("events", **row) for row in events),
        *(OpenItem("effects", **row) for row in effects),
        *(OpenItem("results", **row) for row in results),
        *(OpenItem("kept", **row) for row in kept),
    ]


LetterKind = Literal["event", "effect", "result", "task"]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event, an effect, a result or a task that is dead."""

    id: UUID
    created_at: datetime
    kind: LetterKind
    what: str
    """The type of an event or a task, the destination of an effect, what was asked where a result came for it."""
    instance_id: UUID | None
    attempts: int
    error: str | None
    awaited: bool
    """Whether a step waited for it; that step has failed, and is what is tried again."""
    trace_id: str | None
    code: str | None = None
    """Of the last attempt."""
    ambiguous: bool = False
    """Whether the last attempt may have had its effect all the same."""
    evidence: Any = None
    """What the receiver of an effect answered at the last attempt."""


async def page_of_dead_letters(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    kind: LetterKind | None,
    after: Cursor | None,
    limit: int,
    *,
    partition_id: str | None = None,
    what: str | None = None,
) -> list[DeadLetter]:
    """Return dead letters, newest first: of one kind, one partition, one type or destination, where these are named."""
    at, letter_id = after or (None, None)
    filters = kind, at, letter_id, limit, partition_id, what
    rows = await connection.fetch(_SQL.page_of_dead_letters, org_id, *filters)
    return [DeadLetter(**row) for row in rows]


async def is_letter_of(connection: Connection, org_id: str, letter_id: UUID, partition_id: str) -> bool:
    """Return whether a dead letter is one of a partition."""
    return bool(await connection.fetchval(_SQL.is_letter_of_partition, org_id, letter_id, partition_id))
