"""What `assent instances show` reads on a database: the parts that a server shows one by one."""

from typing import Any
from uuid import UUID

from assent.bodies.body import ResponseModel
from assent.bodies.instances import ApprovalBody, Descriptor, EntityBody
from assent.cli.instance_page import REQUESTS_MAX, advice
from assent.cli.options import GivenId
from assent.cli.session import ActorSession, find_meant


class InstancePageBody(ResponseModel):
    """An instance with its entity and its approvals, each as HTTP returns it alone."""

    entity: EntityBody | None
    instance: Descriptor | None
    approvals: list[ApprovalBody]
    advice: str | None


async def read_page(session: ActorSession, given: GivenId) -> InstancePageBody:
    """Return what there is to see of an instance, or of the newest instance of an entity."""
    commands = session.commands
    async with session.reading() as connection:
        meant = await find_meant(session, connection, given)
    instance_id: UUID | None = meant.instance_id
    if instance_id is None:
        found = await commands.instances.list(entity_id=meant.entity_id, limit=1)
        instance_id = found.items[0].id if found.items else None
    details = await commands.instances.get(instance_id) if instance_id is not None else None
    entity_id = details.instance.entity_id if details is not None else meant.entity_id
    entity = await commands.entities.get(entity_id) if entity_id is not None else None
    asked = await commands.instances.approvals(instance_id, limit=REQUESTS_MAX) if instance_id else []
    incident: Any = details.instance.incident if details is not None else None
    return InstancePageBody(
        entity=EntityBody.of(entity) if entity is not None else None,
        instance=Descriptor.of_details(details) if details is not None else None,
        approvals=[ApprovalBody.of_details(one) for one in asked],
        advice=advice(incident["code"], details.instance.status, instance_id)
        if details and incident
        else None,
    )
