"""The open events of instances whose lock is held: in order, and only where the first of them is due."""

from collections.abc import Sequence
from typing import Any, Final

from assent.model.keys import InstanceKey
from assent.runtime.batch import BatchItem
from assent.runtime.event_inputs import input_of_event
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "runtime.sql")


async def load_events(
    connection: Connection,
    places: Sequence[InstanceKey],
    events_max: int | None = None,
    *,
    due_only: bool = True,
) -> tuple[list[BatchItem], int]:
    """The works of these instances, and how many events were put off.

    One event that must wait makes those behind it wait too.
    """
    by_place = await _open_events(connection, places)
    ready = {place: rows for place, rows in by_place.items() if rows[0]["is_due"] or not due_only}
    works = [add_events(BatchItem(*place), rows[:events_max]) for place, rows in ready.items()]
    waiting = [rows for place, rows in by_place.items() if place not in ready]
    return works, await _put_off(connection, waiting)


def add_events(work: BatchItem, rows: Sequence[Any]) -> BatchItem:
    for row in rows:
        given, birth = input_of_event(row)
        work.inputs.append(given)
        work.events[given.id] = row
        work.birth = work.birth or birth
        work.trace = work.trace or row["trace_id"]
    return work


async def _open_events(connection: Connection, places: Sequence[InstanceKey]) -> dict[InstanceKey, list[Any]]:
    orgs, ids = [org for org, _ in places], [instance_id for _, instance_id in places]
    found: dict[InstanceKey, list[Any]] = {}
    for row in await connection.fetch(_SQL.load_open_events, orgs, ids):
        found.setdefault((row["org_id"], row["instance_id"]), []).append(row)
    return found


async def _put_off(connection: Connection, waiting: Sequence[list[Any]]) -> int:
    """Without it they would be claimed again and again, in the place of others."""
    behind = [
        (row["org_id"], row["created_at"], row["id"], rows[0]["created_at"], rows[0]["id"])
        for rows in waiting
        for row in rows[1:]
        if row["is_due"]
    ]
    if behind:
        await connection.execute(_SQL.put_off_events, *zip(*behind, strict=True))
    return len(behind)
