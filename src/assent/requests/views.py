"""Views of requests: pages of them, and one with all that came for it. Reads, and never writes."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.model.actor import Reader, reader_columns
from assent.model.ids import Cursor
from assent.model.outside_request import OutsideStatus
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.requests", "views.sql")

CAME_MAX: Final = 1_000
"""How many deliveries, and how many items, of one request are shown: the latest."""


@dataclass(frozen=True, slots=True)
class RequestView:
    id: UUID
    name: str
    instance_id: UUID
    step_id: UUID
    node_id: str
    partition_id: str | None
    entity_type: str | None
    entity_id: UUID | None
    status: OutsideStatus
    expected: int
    received: int
    failed: int
    error: str | None
    created_at: datetime
    expires_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class DeliveryView:
    id: UUID
    key: str
    source: str
    pushed_by: str | None
    status: str
    late: bool
    attempts: int
    error: str | None
    received_at: datetime
    processed_at: datetime | None


@dataclass(frozen=True, slots=True)
class ItemView:
    cargo: str | None
    kind: str | None
    status: str
    error: str | None
    delivery_id: UUID
    received_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideRequestFilter:
    """Which requests are listed; of everything that is not said, all."""

    status: OutsideStatus | None = None
    instance_id: UUID | None = None
    name: str | None = None
    partition_id: str | None = None
    reader: Reader | None = None
    """Who reads the list, and sees what they may; without one, everything."""


async def page_of_requests(
    connection: Connection, org_id: str, wanted: OutsideRequestFilter, after: Cursor | None, limit: int
) -> list[RequestView]:
    """The newest first."""
    which = (wanted.status, wanted.instance_id, wanted.name, wanted.partition_id)
    seen = reader_columns(wanted.reader)
    rows = await connection.fetch(
        _SQL.page_of_requests, org_id, *which, *(after or (None, None)), limit, *seen
    )
    return [RequestView(**row) for row in rows]


async def find_request(connection: Connection, org_id: str, request_id: UUID) -> RequestView | None:
    row = await connection.fetchrow(_SQL.find_request, org_id, request_id)
    return RequestView(**row) if row is not None else None


async def came_for(
    connection: Connection, org_id: str, request_id: UUID
) -> tuple[list[DeliveryView], list[ItemView], Any]:
    """What came for a request, the latest first, and what was asked."""
    deliveries = await connection.fetch(_SQL.list_deliveries, org_id, request_id, CAME_MAX)
    items = await connection.fetch(_SQL.list_items, org_id, request_id, CAME_MAX)
    asked = await connection.fetchval(_SQL.read_asked, org_id, request_id)
    return [DeliveryView(**row) for row in deliveries], [ItemView(**row) for row in items], asked
