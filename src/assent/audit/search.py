"""Searching the audit log of an org: who did what, to what, when, by which way. Reads, and never writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.audit", "audit.sql")

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
    what = (wanted.entity_type, wanted.entity_id, wanted.actor_id, wanted.action, wanted.since, wanted.until)
    how = (wanted.subject_kind, wanted.subject_id, wanted.channel)
    seen = (wanted.partition_id, list(wanted.hidden_types))
    rows = await connection.fetch(
        _SQL.search_audit, org_id, *what, *how, *seen, after, _first_id(wanted.since), limit
    )
    return [dict(row) for row in rows]


def _first_id(since: datetime | None) -> UUID:
    """No id that was made since then is less: ids begin with their time, or a later one when many are made at once."""
    return UUID(int=max(0, int(since.timestamp() * 1000)) << 80 if since else 0)
