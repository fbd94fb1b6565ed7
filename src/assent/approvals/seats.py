"""Seats between the engine's values and their rows; approvals and forms have the same."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.model.approval import Seat, Seated
from assent.store.connect import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.approvals", "seats.sql")

Kind = Literal["approval", "form"]


async def write_seats(
    connection: Connection, kind: Kind, asked: Sequence[tuple[str, Seated]], now: datetime
) -> None:
    """Write the seats that are new or stand otherwise now; `asked` are orgs with what they ask."""
    rows = [
        _row(kind, org_id, one, seat, now) for org_id, one in asked for seat in one.touched_seats.values()
    ]
    if rows:
        await connection.execute(_SQL.put_seats, rows)
    for _, one in asked:
        one.touched_seats = {}


def seat_from(row: Mapping[str, Any]) -> Seat:
    """Of a row that came as JSON."""
    return Seat(
        UUID(row["id"]),
        row["user_id"],
        row["group_name"],
        row["position"],
        row["via"],
        row["status"],
        row["email"],
        UUID(row["replaces_id"]) if row["replaces_id"] else None,
        row["note"],
    )


def _row(kind: Kind, org_id: str, asked: Seated, seat: Seat, now: datetime) -> dict[str, Any]:
    return {
        "org_id": org_id,
        "id": seat.id,
        "kind": kind,
        "request_id": asked.id,
        "instance_id": asked.instance_id,
        "user_id": seat.user_id,
        "group_name": seat.group,
        "position": seat.position,
        "via": seat.via,
        "status": seat.status,
        "email": seat.email,
        "replaces_id": seat.replaces,
        "note": seat.note,
        "created_at": now,
        "closed_at": now if seat.status in ("decided", "closed") else None,
    }
