"""Which instance or entity is meant by an id that somebody typed."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from assent.cli.ids import GivenId, find_one, given_id

if TYPE_CHECKING:
    from assent.cli.actor_options import ActorSession
    from assent.store.database import Connection

InstanceArgument = Annotated[
    GivenId,
    typer.Argument(
        metavar="ID", parser=given_id, help="An instance or an entity, by its id or the beginning of it."
    ),
]


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """One of the two: an instance, or an entity whose instance is wanted."""

    instance_id: UUID | None = None
    entity_id: UUID | None = None


async def find_seen_instance(
    session: "ActorSession", connection: "Connection", given: GivenId
) -> UUID | None:
    """The instance that an id names, if there is one; refuses what the reader may not see."""
    from assent.runtime.lookup import find_instances
    from assent.runtime.readers import SeenInstance, may_read_instance
    from assent.runtime.views import find_instance

    found = await find_one(connection, session.org_id, "instance", given, find_instances)
    row = await find_instance(connection, session.org_id, found) if found else None
    if row is not None:
        await may_read_instance(session.runtime.core, connection, SeenInstance.of(row), session.actor)
    return found


async def find_meant(session: "ActorSession", connection: "Connection", given: GivenId) -> CommandTarget:
    """What an id names; refuses what is not there, and what the reader may not see."""
    from assent.kernel.lookup import find_entities
    from assent.kernel.read import read_entity
    from assent.model.mutation import Refused, Rejection
    from assent.runtime.rights import may_read

    org_id = session.org_id
    if instance_id := await find_seen_instance(session, connection, given):
        return CommandTarget(instance_id=instance_id)
    if entity_id := await find_one(connection, org_id, "entity", given, find_entities):
        entity = await read_entity(connection, org_id, entity_id)
        may_read(session.contracts, entity.type if entity else None, session.actor)
        return CommandTarget(entity_id=entity_id)
    raise Refused(Rejection("NOT_FOUND", f"no instance or entity {given.text}", ("id",)))
