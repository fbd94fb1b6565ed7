"""Requests to outside parties: opened and closed with their step, in sets, pushed results, and views of them.

A request ends once: results decide it (`deliveries.py`), its time is over, or its call never arrived. The step that
waits is notified then. A request that is partial is open: its step is notified of each part, and may go on with it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.model.actor import Reader, reader_columns
from assent.model.ids import Cursor, new_id
from assent.model.mutation import PEOPLE, Event
from assent.model.outside_request import (
    ON_RESULT,
    Bundle,
    ClosedRequest,
    EndedStep,
    OutsideRequest,
    OutsideStatus,
)
from assent.outbox.events import emit_events
from assent.store.connection import put
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.requests", "requests.sql")

Asked = tuple[OutsideRequest, str | None]
"""A request, and the trace that it is part of."""


async def open_requests(connection: Connection, asked: Sequence[Asked], ended: Sequence[EndedStep]) -> None:
    """Open what steps have asked; then close what is still open of those that ended."""
    if asked:
        await put(connection, _SQL.open_requests, [_request_row(request, trace) for request, trace in asked])
    if ended:
        await put(connection, _SQL.end_requests_of_steps, [_end(step) for step in ended])


async def end_requests_of_instances(connection: Connection, ended: Sequence[Row]) -> None:
    """Close what people have asked for instances that were cancelled or have failed."""
    if ended:
        await put(connection, _SQL.end_requests_of_instances, ended)


async def close_requests(connection: Connection, closed: Sequence[ClosedRequest]) -> None:
    """Close requests in whose place others ask; what comes for them now is late."""
    if closed:
        rows = [{field.name: getattr(one, field.name) for field in fields(one)} for one in closed]
        await connection.execute(_SQL.close_requests_if_open, rows)


def _request_row(request: OutsideRequest, trace: str | None) -> dict[str, Any]:
    return {field.name: getattr(request, field.name) for field in fields(request)} | {"trace_id": trace}


def _end(step: EndedStep) -> dict[str, Any]:
    return {field.name: getattr(step, field.name) for field in fields(step)}


Source = Literal["http", "callback", "python", "upload"]

Pushed = Literal["accepted", "repeated", "late"]
"""It is in the queue; or its key was taken before, and nothing happens; or its request has ended, and only documents
that are still missing are taken."""


async def push_delivery(  # noqa: PLR0913, PLR0917
    connection: Connection,
    request_id: UUID,
    bundle: Bundle,
    source: Source,
    pushed_by: str | None = None,
    people: Sequence[str] = (),
) -> Pushed | None:
    """Keep a bundle for a request of the transaction's org, once; none where there is no such request.

    Every door pushes here; a worker folds it later.
    """
    given = (request_id, bundle.to_json(), source, pushed_by, list(people))
    pushed: Pushed | None = await connection.fetchval(_SQL.keep_delivery, *given)
    return pushed


Item = dict[str, str | None]


async def notify_steps(connection: Connection, requests: Sequence[Row], now: datetime) -> None:
    """Put an event into the outbox for the instance of each request that was decided now, or has another part."""
    requests = [
        row for row in requests if row["step_id"] is not None
    ]  # a person who asked waits for no event
    if requests:
        items, people = await _received(connection, requests)
        came = [(row, items.get(row["id"], []), people.get(row["id"], {})) for row in requests]
        await emit_events(connection, [_event(*one, now) for one in came], now)


async def _received(
    connection: Connection, requests: Sequence[Row]
) -> tuple[dict[UUID, list[Item]], dict[UUID, dict[str, None]]]:
    """Return the items of those that are complete or partial, and who brought them; the others have nothing."""
    complete = [(row["org_id"], row["id"]) for row in requests if row["status"] in ("completed", "partial")]
    found: dict[UUID, list[Item]] = {}
    people: dict[UUID, dict[str, None]] = {}
    if complete:
        columns = map(list, zip(*complete, strict=True))
        for row in await connection.fetch(_SQL.read_received, *columns):
            found.setdefault(row["request_id"], []).append({"cargo": row["cargo"], "kind": row["kind"]})
            people.setdefault(row["request_id"], {}).update(dict.fromkeys(row["people"]))
    return found, people


def _event(request: Row, items: list[Item], people: Iterable[str], now: datetime) -> Event:
    """Return the event of a request: its key is the request, decided once, or how much of it has come."""
    counts = {"received": request["received"], "failed": request["failed"]}
    part = f" {request['received']} {request['failed']}" if request["status"] == "partial" else ""
    news = {
        "cause": f"{request['id']}{part}",
        "step": str(request["step_id"]),
        "request": str(request["id"]),
        "status": request["status"],
        "result": {"request": str(request["id"]), "items": items, **counts},
        "error": request["error"],
        **({PEOPLE: list(people)} if people else {}),
    }
    about = {"instance_id": request["instance_id"], "trace_id": request["trace_id"]}
    return Event(request["org_id"], new_id(now), ON_RESULT, news, **about)


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


CAME_MAX: Final = 1_000
"""How many deliveries, and how many items, of one request are shown: the latest."""


@dataclass(frozen=True, slots=True)
class RequestView:
    id: UUID
    name: str
    instance_id: UUID | None
    step_id: UUID | None
    node_id: str | None
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
    only_open: bool = False
    """Whether those are left out that have ended."""
    reader: Reader | None = None
    """Who reads the list, and sees what they may; without one, everything."""
    reads_documents: bool = False
    """Whether the reader sees requests of no instance: those that people made for documents."""


async def page_of_requests(
    connection: Connection, org_id: str, wanted: OutsideRequestFilter, after: Cursor | None, limit: int
) -> list[RequestView]:
    """Return requests, the newest first."""
    which = (wanted.status, wanted.instance_id, wanted.name, wanted.partition_id)
    seen = reader_columns(wanted.reader)
    rows = await connection.fetch(
        _SQL.page_of_requests,
        org_id,
        *which,
        *(after or (None, None)),
        limit,
        *seen,
        wanted.only_open,
        wanted.reads_documents,
    )
    return [RequestView(**row) for row in rows]


async def find_request(connection: Connection, org_id: str, request_id: UUID) -> RequestView | None:
    row = await connection.fetchrow(_SQL.find_request, org_id, request_id)
    return RequestView(**row) if row is not None else None


async def came_for(
    connection: Connection, org_id: str, request_id: UUID
) -> tuple[list[DeliveryView], list[ItemView], Any]:
    """Return what came for a request, the latest first, and what was asked."""
    deliveries = await connection.fetch(_SQL.list_deliveries, org_id, request_id, CAME_MAX)
    items = await connection.fetch(_SQL.list_items, org_id, request_id, CAME_MAX)
    asked = await connection.fetchval(_SQL.read_asked, org_id, request_id)
    return [DeliveryView(**row) for row in deliveries], [ItemView(**row) for row in items], asked
