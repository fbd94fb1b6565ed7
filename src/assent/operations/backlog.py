"""What is still to be done, one by one, queue by queue; `queues` counts it. Reads, and never writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from assent.jobs import dead_letters as jobs
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.operations", "operations.sql")


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


async def list_open(connection: Connection, org_id: str, limit: int) -> Sequence[OpenItem]:
    """Events, effects, results, and the events that no step has waited for yet: the oldest of each first."""
    events = await connection.fetch(_SQL.list_open_events, org_id, limit)
    effects = await jobs.list_open(connection, org_id, "effect", limit)
    results = await jobs.list_open(connection, org_id, "result", limit)
    kept = await connection.fetch(_SQL.list_kept_events, org_id, limit)
    return [
        *(OpenItem("events", **row) for row in events),
        *(OpenItem("effects", **row) for row in effects),
        *(OpenItem("results", **row) for row in results),
        *(OpenItem("kept", **row) for row in kept),
    ]
