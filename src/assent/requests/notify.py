"""Notify the step that waits of its request: once, when results have decided it or its time is over.

A request that is partial is open: its items can be seen, and its step is not notified yet. Steps that can go on with
some of what they asked for would be notified here.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from assent.model.ids import new_id
from assent.model.mutation import Event
from assent.model.outside_request import ON_RESULT
from assent.outbox.emit import emit_events
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.requests", "requests.sql")

Item = dict[str, str | None]


async def notify_steps(connection: Connection, requests: Sequence[Row], now: datetime) -> None:
    """Put an event into the outbox for the instance of each request that was decided now."""
    if requests:
        items = await _received(connection, requests)
        await emit_events(connection, [_event(row, items.get(row["id"], []), now) for row in requests], now)


async def _received(connection: Connection, requests: Sequence[Row]) -> dict[UUID, list[Item]]:
    """The items of those that are complete; the others have nothing to go on with."""
    complete = [(row["org_id"], row["id"]) for row in requests if row["status"] == "completed"]
    found: dict[UUID, list[Item]] = {}
    if complete:
        columns = map(list, zip(*complete, strict=True))
        for row in await connection.fetch(_SQL.read_received, *columns):
            found.setdefault(row["request_id"], []).append({"cargo": row["cargo"], "kind": row["kind"]})
    return found


def _event(request: Row, items: list[Item], now: datetime) -> Event:
    """A request is decided once, so it is its own cause."""
    counts = {"received": request["received"], "failed": request["failed"]}
    news = {
        "cause": str(request["id"]),
        "step": str(request["step_id"]),
        "request": str(request["id"]),
        "status": request["status"],
        "result": {"request": str(request["id"]), "items": items, **counts},
        "error": request["error"],
    }
    about = {"instance_id": request["instance_id"], "trace_id": request["trace_id"]}
    return Event(request["org_id"], new_id(now), ON_RESULT, news, **about)
