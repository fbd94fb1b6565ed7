"""Locking an entity for the rest of a transaction."""

from typing import Final
from uuid import UUID

from assent.kernel.rows import entity_from
from assent.model.mutation import Entity
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.kernel", "kernel.sql")


async def lock_entity(connection: Connection, org_id: str, entity_id: UUID) -> Entity | None:
    """Return the entity, locked with its instance until the transaction ends (D11)."""
    row = await connection.fetchrow(_SQL.lock_entities, [org_id], [entity_id])
    return entity_from(row) if row else None
