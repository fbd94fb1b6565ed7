"""Actors and entities as expressions see them."""

from functools import lru_cache
from typing import Any

from assent.model.actor import Actor
from assent.model.mutation import Entity


@lru_cache(maxsize=256)
def actor_view(actor: Actor) -> dict[str, Any]:
    return {
        "id": actor.id,
        "kind": actor.kind,
        "roles": sorted(actor.roles),
        "capabilities": sorted(actor.capabilities),
    }


def entity_view(entity: Entity) -> dict[str, Any]:
    """Its content, and what is the entity's own."""
    own = {"id": str(entity.id), "type": entity.type, "state": entity.state, "version": entity.version}
    return {**entity.data, **own}
