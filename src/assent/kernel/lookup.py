"""Entities as people look for them: by the beginning of an id. Reads, and never writes."""

from typing import Final
from uuid import UUID

from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.kernel", "lookup.sql")


async def find_entities(
    connection: Connection, org_id: str, first: UUID, last: UUID, limit: int
) -> list[UUID]:
    """The entities whose ids lie between two, both included."""
    rows = await connection.fetch(_SQL.find_entities_between, org_id, first, last, limit)
    return [row["id"] for row in rows]
