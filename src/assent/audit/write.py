"""Noting commands in the audit log: one row for each that was taken, in the command's own transaction, or refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.model.actor import Actor, Origin
from assent.model.ids import new_id
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.audit", "audit.sql")

SubjectKind = Literal["instance", "event", "effect", "result", "task"]


@dataclass(frozen=True, slots=True)
class AuditEntry:
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
    on_behalf_of: Sequence[str] = ()
    """The people in whose place the actor acted."""


async def write_entries(connection: Connection, notes: Sequence[AuditEntry], now: datetime) -> list[UUID]:
    """Write an audit entry for each command; return their ids, in the same order."""
    rows = [_row(note, now) for note in notes]
    if rows:
        await connection.execute(_SQL.note_commands, rows)
    return [row["id"] for row in rows]


@dataclass(frozen=True, slots=True)
class RefusalEntry:
    """A command of a caller who was signed in, and why nothing came of it."""

    org_id: str
    actor: Actor
    command: str
    """What the door calls it, such as `decide_approval`."""
    code: str
    path: str
    origin: Origin
    trace: str | None = None


async def write_refusals(connection: Connection, refusals: Sequence[RefusalEntry]) -> None:
    """In a transaction of their own: those of the commands are rolled back, or were never opened."""
    if refusals:
        await connection.execute(_SQL.note_refusals, [_refusal_row(refusal) for refusal in refusals])


def _refusal_row(refusal: RefusalEntry) -> dict[str, Any]:
    return {
        "org_id": refusal.org_id,
        "actor_id": refusal.actor.id,
        "actor_kind": refusal.actor.kind,
        "actor_roles": sorted(refusal.actor.roles),
        "command": refusal.command,
        "code": refusal.code,
        "path": refusal.path,
        "place": refusal.origin.place,
        "reason": refusal.origin.reason,
        "channel": refusal.origin.channel,
        "trace_id": refusal.trace,
    }


def _row(note: AuditEntry, now: datetime) -> dict[str, Any]:
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
        "on_behalf_of": list(note.on_behalf_of) or None,
    }
