"""Instances and steps as lists show them. Reads, and never writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from assent.model.actor import Reader, reader_columns
from assent.model.ids import Cursor
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.runtime", "views.sql")


@dataclass(frozen=True, slots=True)
class InstanceFilter:
    """Which instances are wanted; what is not said is no matter."""

    statuses: Sequence[str] | None = None
    workflow: str | None = None
    subject: str | None = None
    entity_id: UUID | None = None
    partition_id: str | None = None
    reader: Reader | None = None
    """Who reads the list, and sees what they may; without one, everything."""
    entity_type: str | None = None


async def list_instances(
    connection: Connection, org_id: str, wanted: InstanceFilter, after: UUID | None, limit: int
) -> list[Row]:
    by = (wanted.statuses, wanted.workflow, wanted.subject, wanted.entity_id, wanted.partition_id)
    seen = reader_columns(wanted.reader)
    return _plain(
        await connection.fetch(_SQL.list_instances, org_id, *by, after, limit, wanted.entity_type, *seen)
    )


async def find_instance(connection: Connection, org_id: str, instance_id: UUID) -> Row | None:
    row = await connection.fetchrow(_SQL.find_instance, org_id, instance_id)
    return dict(row) if row else None


async def list_steps(
    connection: Connection, org_id: str, instance_id: UUID, after: Cursor | None, limit: int
) -> list[Row]:
    at, step_id = after or (None, None)
    return _plain(await connection.fetch(_SQL.list_steps, org_id, instance_id, at, step_id, limit))


def _plain(rows: Sequence[Any]) -> list[Row]:
    return [dict(row) for row in rows]
