"""Commands to instances that a caller may read, or operate; all others are not there, or refused (D12, D32)."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from fastapi import Response

from assent.http.desk import RequestContext, Transaction
from assent.http.problems import Names
from assent.http.reply import Reply
from assent.http.showing import answer, instance_for, instance_seen, show_instance
from assent.runtime.rights import Operation
from assent.runtime.view import InstanceView

Command = Callable[[Transaction], Awaitable[InstanceView]]


async def command_to(
    desk: RequestContext,
    instance_id: UUID,
    command: Command,
    names: Names | None = None,
    operation: Operation | None = None,
) -> Response:
    """A command to an instance that the caller may read; who may operate it need not read it."""
    operates = operation is not None and desk.caller.actor.can(f"workflows:{operation}")
    see = instance_seen if operates else instance_for

    async def work(session: Transaction) -> Reply:
        await see(desk, session.connection, instance_id)
        return await answer(show_instance(desk, session.connection, await command(session)))

    return await desk.write(work, names)
