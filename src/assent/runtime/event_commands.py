"""Commands that bring something in from outside: events under a key, and results of outside requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from assent.model.mutation import Refused, Rejection
from assent.model.names import require_name
from assent.model.outside_request import Bundle, ResultStatus, read_bundle
from assent.outbox.events import emit_events
from assent.requests.outside_requests import Pushed, Source, push_delivery
from assent.runtime.commands import check_data
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.keyed_events import arrival


@dataclass(frozen=True, slots=True)
class EventCommands:
    """Commands about events of an org."""

    scope: OrgScope

    async def emit(self, key: str, data: Any = None, *, cause: str | None = None) -> bool:
        """Emit an event to every step that waits for a key, or will; return false if its cause emitted it before.

        With an actor, the audit log names the actor. With a partition, only instances of that partition get it.
        """
        scope = self.scope
        require_name(key, "key")
        if cause is not None:
            require_name(cause, "cause")
        check_data({"data": data})

        async def work(transaction: CommandTransaction) -> bool:
            now = scope.database.clock.now()
            event = arrival(scope.org_id, key, now, cause, scope.partition_id, data=data)
            is_new = await emit_events(transaction.connection, [event], now) == 1
            if is_new and scope.actor is not None:
                details = {"cause": cause} if cause is not None else {}
                await transaction.note("event", "event.emit", key, details=details)
            return is_new

        return await scope.write(work)


@dataclass(frozen=True, slots=True)
class RequestCommands:
    """Commands to the outside requests of an org."""

    scope: OrgScope

    async def push_result(
        self,
        request_id: UUID,
        key: str,
        items: Sequence[Mapping[str, Any]] = (),
        *,
        status: ResultStatus = "completed",
        error: str | None = None,
    ) -> Pushed:
        """Hand in what an outside party sent for a request; the same key again changes nothing. Raise `Refused`.

        With an actor, the audit log names the actor.
        """
        bundle = read_bundle({"key": key, "status": status, "items": list(items), "error": error})
        if not isinstance(bundle, Bundle):
            raise Refused(Rejection.of(bundle))
        return await self.push_bundle(request_id, bundle, "python")

    async def push_bundle(self, request_id: UUID, bundle: Bundle, source: Source) -> Pushed:
        """Hand in a bundle that was read already; raise `Refused` if there is no such request."""
        scope = self.scope

        async def work(transaction: CommandTransaction) -> Pushed:
            by = scope.actor.id if scope.actor is not None else None
            pushed = await push_delivery(transaction.connection, request_id, bundle, source, by)
            if pushed is None:
                raise Refused(Rejection("NOT_FOUND", f"no request {request_id}", ("request_id",)))
            if scope.actor is not None and pushed != "repeated":
                await transaction.note("result", "result.push", str(request_id), details={"key": bundle.key})
            return pushed

        return await scope.write(work)
