"""Instances that a caller may see, and commands to them; all others are not there (D12, D32)."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from fastapi import Response

from assent.http.desk import Desk, Session
from assent.http.permissions import may_read
from assent.http.problems import Names
from assent.http.reply import Reply
from assent.http.workflow_shapes import InstanceBody
from assent.model.mutation import Refused, Rejection
from assent.runtime.listing import Row, find_instance
from assent.runtime.view import InstanceView
from assent.store.database import Connection

Command = Callable[[Session], Awaitable[InstanceView]]


async def command_to(desk: Desk, instance_id: UUID, command: Command, names: Names | None = None) -> Response:
    """A command to an instance that the caller may see."""

    async def work(session: Session) -> Reply:
        await instance_for(desk, session.connection, instance_id)
        return Reply.of(InstanceBody.of(await command(session)))

    return await desk.write(work, names)


async def instance_for(desk: Desk, connection: Connection, instance_id: UUID) -> Row:
    row = await find_instance(connection, desk.org_id, instance_id)
    if row is None or not desk.caller.sees(row["partition_id"]):
        raise Refused(Rejection("NOT_FOUND", f"no instance {instance_id}", ("instance_id",)))
    may_read(desk, row["entity_type"])
    return row
