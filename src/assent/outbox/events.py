"""The way into the engine's outbox, and the event for a step that awaits an effect or a task."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from assent.model.graph import Outcome
from assent.model.ids import new_id
from assent.model.mutation import NIL_ID, ON_EVENT, PEOPLE, Event
from assent.store.connection import put
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row, RowValues
from assent.telemetry import current_trace

_SQL: Final = load_queries("assent.outbox", "outbox.sql")


async def emit_events(connection: Connection, events: Sequence[Event], now: datetime) -> None:
    """Put events into the outbox, each once (WF-11), and wake the workers when one of them is new."""
    if rows := _rows(events, now):
        await put(connection, _SQL.emit_events, rows)


async def count_emitted(connection: Connection, events: Sequence[Event], now: datetime) -> int:
    """Emit events, and return how many were new."""
    rows = _rows(events, now)
    written: int | None = await connection.fetchval(_SQL.emit_events, rows) if rows else None
    return written or 0


def _rows(events: Sequence[Event], now: datetime) -> list[RowValues]:
    return [_row(event, now) for event in _traced(_distinct(events))]


def _traced(events: Sequence[Event]) -> Sequence[Event]:
    """Return events with a trace: those that bring none belong to the one that is open here."""
    trace = current_trace() if events else None
    if trace is None:
        return events
    return [event if event.trace_id is not None else replace(event, trace_id=trace) for event in events]


def _distinct(events: Sequence[Event]) -> list[Event]:
    # Receipts keep out events that were emitted before; within one statement, twins are removed here.
    return list({(event.org_id, event.instance_id, event.key): event for event in events}.values())


def _row(event: Event, now: datetime) -> RowValues:
    return {
        "org_id": event.org_id,
        "id": event.id,
        "created_at": now,
        "instance_id": event.instance_id,
        "receipt_instance_id": event.instance_id or NIL_ID,
        "entity_version": event.entity_version,
        "event_type": event.event_type,
        "payload": event.payload,
        "key": event.key,
        "trace_id": event.trace_id,
    }


def completion_event(
    awaited: Row, outcome: Outcome, data: Any, now: datetime, people: Sequence[str] = ()
) -> Event:
    """Return the event that an effect or a task has ended, for the step that awaits it; once, for it ends once."""
    news = {
        "cause": str(awaited["id"]),
        "step": str(awaited["step_id"]),
        "data": data,
        "outcome": outcome.value,
        **({PEOPLE: people} if people else {}),
    }
    about = {"instance_id": awaited["instance_id"], "trace_id": awaited["trace_id"]}
    return Event(awaited["org_id"], new_id(now), ON_EVENT, news, **about)
