"""Entities, versions and audit as lists show them, a page at a time. Reads, and never writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from assent.kernel.rows import entity_from
from assent.model.mutation import Entity
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.kernel", "listing.sql")


ROWS_BYTES_MAX: Final = 4_194_304
"""Of content that is read for one page: twice what a page shows, for JSON is written shorter than the database says."""


@dataclass(frozen=True, slots=True)
class EntityFilter:
    """Which entities are wanted; what is not said is no matter."""

    entity_type: str
    states: Sequence[str] | None = None
    partition_id: str | None = None


async def list_entities(
    connection: Connection, org_id: str, wanted: EntityFilter, after: UUID | None, limit: int
) -> list[Entity]:
    by = (wanted.entity_type, wanted.states, wanted.partition_id)
    rows = await connection.fetch(_SQL.list_entities, org_id, *by, after, limit, ROWS_BYTES_MAX)
    return [entity_from(row) for row in rows]


async def list_versions(
    connection: Connection, org_id: str, entity_id: UUID, after: int | None, limit: int
) -> list[Row]:
    return _plain(await connection.fetch(_SQL.list_versions, org_id, entity_id, after, limit, ROWS_BYTES_MAX))


async def list_audit(
    connection: Connection, org_id: str, entity_id: UUID, after: UUID | None, limit: int
) -> list[Row]:
    return _plain(await connection.fetch(_SQL.list_audit, org_id, entity_id, after, limit))


async def read_two_versions(
    connection: Connection, org_id: str, entity_id: UUID, first: int, second: int
) -> Mapping[int, Row]:
    """Those of the two that there are, by their numbers."""
    rows = await connection.fetch(_SQL.read_two_versions, org_id, entity_id, first, second)
    return {row["version"]: dict(row) for row in rows}


def _plain(rows: Sequence[Any]) -> list[Row]:
    return [dict(row) for row in rows]
