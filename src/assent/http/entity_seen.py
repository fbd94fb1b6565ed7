"""Entities that a caller may see; all others are not there (D12, D32)."""

from uuid import UUID

from assent.http.desk import Desk
from assent.http.permissions import may_read
from assent.kernel.read import read_entity
from assent.model.mutation import Entity, Refused, Rejection
from assent.store.database import Connection


async def entity_for(desk: Desk, connection: Connection, entity_type: str, entity_id: UUID) -> Entity:
    """An entity that the caller may see."""
    desk.contract(entity_type)
    may_read(desk, entity_type)
    return seen_by(desk, entity_type, entity_id, await read_entity(connection, desk.org_id, entity_id))


def seen_by(desk: Desk, entity_type: str, entity_id: UUID, entity: Entity | None) -> Entity:
    if entity is None or entity.type != entity_type or not desk.caller.sees(entity.partition_id):
        raise Refused(Rejection("NOT_FOUND", f"no {entity_type} {entity_id}", ("entity_id",)))
    return entity
