"""Entries of the audit log: one for each command that was taken, in the command's own transaction, or refused.

And their search: who did what, to what, when, by which way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.model.actor import Actor, Origin
from assent.model.ids import new_id
from assent.store.connection import put
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.audit", "audit.sql")

SubjectKind = Literal[
    "instance",
    "event",
    "effect",
    "result",
    "task",
    "document",
    "requirement",
    "attachment",
    "comment",
    "question",
    "verb",
]


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
        await put(connection, _SQL.note_commands, rows)
    return [row["id"] for row in rows]


@dataclass(frozen=True, slots=True)
class RefusalEntry:
    """A command of a caller who was signed in, and why it was refused."""

    org_id: str
    actor: Actor
    command: str
    """What the door calls it, such as `decide_approval`."""
    code: str
    path: str
    origin: Origin
    trace: str | None = None


async def write_refusals(connection: Connection, refusals: Sequence[RefusalEntry]) -> None:
    """Write entries of refused commands in a transaction of their own: theirs were rolled back, or never opened."""
    if refusals:
        await put(connection, _SQL.note_refusals, [_refusal_row(refusal) for refusal in refusals])


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


READ_AUDIT: Final = "audit:read"
"""The capability to search the audit log."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries are wanted; what is not said is no matter."""

    entity_type: str | None = None
    entity_id: UUID | None = None
    actor_id: str | None = None
    action: str | None = None
    subject_kind: str | None = None
    """`instance`, `member`, `role`, …; entities have no subject but themselves."""
    subject_id: str | None = None
    channel: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    """Not itself: from `since` to before `until`."""
    partition_id: str | None = None
    hidden_types: Sequence[str] = ()
    """The entity types that the reader may not see."""


async def search_audit(
    connection: Connection, org_id: str, wanted: AuditFilter, after: UUID | None, limit: int
) -> list[Row]:
    """Return a page of the entries of an org, newest first; it reads, and never writes."""
    what = (wanted.entity_type, wanted.entity_id, wanted.actor_id, wanted.action, wanted.since, wanted.until)
    how = (wanted.subject_kind, wanted.subject_id, wanted.channel)
    seen = (wanted.partition_id, list(wanted.hidden_types))
    rows = await connection.fetch(
        _SQL.search_audit, org_id, *what, *how, *seen, after, _first_id(wanted.since), limit
    )
    return [dict(row) for row in rows]


def _first_id(since: datetime | None) -> UUID:
    """Return an id that is less than all made since then.

    Ids begin with their time, or a later one when many are made at once.
    """
    return UUID(int=max(0, int(since.timestamp() * 1000)) << 80 if since else 0)
