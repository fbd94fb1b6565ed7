"""Reading what the kernel wrote: an entity, its versions, its audit trail, and the actor of a member."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from assent.kernel.rows import entity_from
from assent.model.actor import Actor
from assent.model.mutation import Entity
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.kernel", "kernel.sql")


async def read_entity(connection: Connection, org_id: str, entity_id: UUID) -> Entity | None:
    row = await connection.fetchrow(_SQL.read_entity, org_id, entity_id)
    return entity_from(row) if row else None


async def read_versions(connection: Connection, org_id: str, entity_id: UUID) -> list[Mapping[str, Any]]:
    return [dict(row) for row in await connection.fetch(_SQL.read_versions, org_id, entity_id)]


async def read_audit(connection: Connection, org_id: str, entity_id: UUID) -> list[Mapping[str, Any]]:
    return [dict(row) for row in await connection.fetch(_SQL.read_audit, org_id, entity_id)]


async def read_actor(connection: Connection, org_id: str, user_id: str) -> Actor | None:
    """Return a member as an actor; None when unknown or inactive."""
    row = await connection.fetchrow(_SQL.read_actor, org_id, user_id)
    if row is None:
        return None
    return Actor(row["user_id"], row["kind"], frozenset(row["roles"]), frozenset(row["capabilities"]))
