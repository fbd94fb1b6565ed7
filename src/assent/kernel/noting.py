"""Noting commands in the audit log: one row for each that was taken, in the command's own transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.model.actor import Actor
from assent.model.ids import new_id
from assent.model.origin import Origin
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.kernel", "auditing.sql")

SubjectKind = Literal["instance", "event", "effect", "result", "task"]


@dataclass(frozen=True, slots=True)
class Note:
    """Who asked for what, of what, by which way and why."""

    org_id: str
    actor: Actor
    action: str
    subject_kind: SubjectKind
    subject_id: str
    origin: Origin
    details: Mapping[str, Any] = field(default_factory=dict)
    """What was asked, without what is kept elsewhere: data is in the steps."""
    reason: str | None = None
    instance_id: UUID | None = None
    entity_type: str | None = None
    entity_id: UUID | None = None
    trace: str | None = None


async def note_commands(connection: Connection, notes: Sequence[Note], now: datetime) -> None:
    if notes:
        await connection.execute(_SQL.note_commands, [_row(note, now) for note in notes])


def _row(note: Note, now: datetime) -> dict[str, Any]:
    return {
        "org_id": note.org_id,
        "id": new_id(now),
        "at": now,
        "actor_id": note.actor.id,
        "actor_kind": note.actor.kind,
        "actor_roles": sorted(note.actor.roles),
        "action": note.action,
        "subject_kind": note.subject_kind,
        "subject_id": note.subject_id,
        "details": note.details,
        "entity_type": note.entity_type,
        "entity_id": note.entity_id,
        "place": note.origin.place,
        "reason": note.reason or note.origin.reason,
        "channel": note.origin.channel,
        "instance_id": note.instance_id,
        "trace_id": note.trace,
    }
