"""Commands that bring something in from outside: events, their signed sources, and results of outside requests."""

import builtins
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from assent.documents.documents import find_unknown_version, versions_in
from assent.documents.upload_links import UploadLink, insert_upload_link, revoke_upload_links
from assent.effects.file_links import upload_url
from assent.model.actor import Reader, people_of
from assent.model.cursor import (
    ITEMS_DEFAULT,
    ItemPage,
    position_of,
    require_limit,
    text_in,
    time_and_id_in,
)
from assent.model.mutation import Refused, Rejection
from assent.model.names import require_name
from assent.model.outside_request import Bundle, OutsideStatus, ResultStatus, parse_bundle
from assent.operations.queues import OpenItem, list_open
from assent.outbox.events import count_emitted
from assent.requests.outside_requests import (
    DeliveryView,
    ItemView,
    OutsideRequestFilter,
    Pushed,
    RequestView,
    Source,
    came_for,
    find_request,
    page_of_requests,
    push_delivery,
)
from assent.runtime.administration_commands import write_as_actor
from assent.runtime.commands import check_data
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.event_sources import (
    MANAGE_SOURCES,
    EventSource,
    create_event_source,
    delete_event_source,
    list_event_sources,
    retire_former_secret,
    rotate_event_secret,
)
from assent.runtime.keyed_events import arrival
from assent.runtime.readers import read_instance_row, reader_of
from assent.runtime.rights import READ_DOCUMENTS, may_operate, may_read, require_capability
from assent.store.database import Connection

T = TypeVar("T")

LINK_DAYS: Final = 30
LINK_DAYS_MAX: Final = 365
WRITE_DOCUMENTS: Final = "documents:write"
"""The capability to hand in documents, and to let an outside party do so."""

CREATE_FIRST: Final = "create the version first: POST /api/documents/{document_id}/versions"
"""The hint for a result that points to a version which is not there."""


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
            people = people_of(scope.actor_or_system)
            event = arrival(scope.org_id, key, now, cause, scope.partition_id, people, data=data)
            is_new = await count_emitted(transaction.connection, [event], now) == 1
            if is_new and scope.actor is not None:
                details = {"cause": cause} if cause is not None else {}
                await transaction.note("event", "event.emit", key, details=details)
            return is_new

        return await scope.write(work)

    async def list_open(self, *, limit: int = ITEMS_DEFAULT) -> builtins.list[OpenItem]:
        """Return what is open, queue by queue and at most `limit` of each, the oldest first; takes `workflows:retry`.

        Events to process, effects to send, results to fold, and events that are kept for steps that will wait.
        """
        scope = self.scope
        may_operate(scope.actor_or_system, "retry")

        async def query(connection: Connection) -> builtins.list[OpenItem]:
            return await list_open(connection, scope.org_id, limit, scope.partition_id)

        return await scope.read(query)


@dataclass(frozen=True, slots=True)
class EventSourceCommands:
    """Sources of signed events, by the prefix of their keys; all take `events:sources`.

    None works inside a caller's transaction: the engine's role has no right to secrets.
    """

    scope: OrgScope

    async def list(self, *, cursor: str | None = None, limit: int = ITEMS_DEFAULT) -> ItemPage[EventSource]:
        """Return a page of the sources by name, without their secrets."""
        after = position_of(cursor, text_in)
        require_limit(limit)

        async def query(connection: Connection) -> ItemPage[EventSource]:
            found = await list_event_sources(connection, self.scope.org_id, after, limit + 1)
            return ItemPage.of(found, limit, lambda source: source.name)

        return await self._run(query)

    async def create(self, name: str, key_prefix: str, secret: str | None = None) -> tuple[str, EventSource]:
        """Require a signature for events whose keys begin with a prefix; return the secret and the source.

        The secret is not shown again. Raise `Refused` if there is a source of this name or for this prefix.
        """
        scope = self.scope

        async def work(connection: Connection) -> tuple[str, EventSource]:
            by, now = scope.actor_or_system.id, scope.database.clock.now()
            return await create_event_source(connection, scope.org_id, name, key_prefix, secret, by, now)

        return await self._run(work)

    async def rotate(self, name: str, secret: str | None = None) -> tuple[str, EventSource]:
        """Set a new secret, beside which the previous one holds until it is retired; return it, this once."""
        scope = self.scope

        async def work(connection: Connection) -> tuple[str, EventSource]:
            return await rotate_event_secret(
                connection, scope.org_id, name, secret, scope.database.clock.now()
            )

        return await self._run(work)

    async def retire(self, name: str) -> EventSource:
        """Retire the previous secret of a source; raise `Refused` if there is no such source."""
        return await self._run(lambda connection: retire_former_secret(connection, self.scope.org_id, name))

    async def delete(self, name: str) -> EventSource:
        """Delete a source: events under its keys are accepted without a signature again. Raise `Refused`."""
        return await self._run(lambda connection: delete_event_source(connection, self.scope.org_id, name))

    async def _run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        require_capability(self.scope.actor_or_system, MANAGE_SOURCES)
        return await write_as_actor(self.scope, work, as_owner=True)


@dataclass(frozen=True, slots=True)
class RequestDetails:
    """A request to an outside party with its content, and the latest that came for it."""

    request: RequestView
    asked: Any
    """What was sent."""
    deliveries: Sequence[DeliveryView]
    items: Sequence[ItemView]


@dataclass(frozen=True, slots=True)
class RequestCommands:
    """Commands to the outside requests of an org."""

    scope: OrgScope

    async def list(  # noqa: PLR0913
        self,
        *,
        status: OutsideStatus | None = None,
        instance_id: UUID | None = None,
        name: str | None = None,
        only_open: bool = False,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[RequestView]:
        """Return a page of the requests whose entities and flows the actor may read, newest first."""
        scope, actor = self.scope, self.scope.actor_or_system
        after = position_of(cursor, time_and_id_in)
        require_limit(limit)
        wanted = OutsideRequestFilter(
            status=status,
            instance_id=instance_id,
            name=name,
            partition_id=scope.partition_id,
            only_open=only_open,
        )

        async def query(connection: Connection) -> ItemPage[RequestView]:
            reader: Reader = await reader_of(scope.core, connection, scope.org_id, actor)
            seen = replace(wanted, reader=reader, reads_documents=actor.can(READ_DOCUMENTS))
            found = await page_of_requests(connection, scope.org_id, seen, after, limit + 1)
            return ItemPage.of(found, limit, lambda one: (one.created_at.isoformat(), str(one.id)))

        return await scope.read(query)

    async def get(self, request_id: UUID) -> RequestDetails:
        """Return a request with its content and its latest results; raise `Refused` unless the actor may read it."""
        scope = self.scope

        async def query(connection: Connection) -> RequestDetails:
            request = await find_request_row(scope, connection, request_id)
            if request.instance_id is None:
                require_capability(scope.actor_or_system, READ_DOCUMENTS)
            elif request.entity_type is None:
                await read_instance_row(scope, connection, request.instance_id)
            contracts = scope.core.kernel.registry.contracts
            may_read(contracts, request.entity_type, scope.actor_or_system)
            deliveries, items, asked = await came_for(connection, scope.org_id, request_id)
            return RequestDetails(request, asked, deliveries, items)

        return await scope.read(query)

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
        bundle, problems = parse_bundle({"key": key, "status": status, "items": list(items), "error": error})
        if bundle is None:
            raise Refused(Rejection.of(problems))
        return await self.push_bundle(request_id, bundle, "python")

    async def push_bundle(self, request_id: UUID, bundle: Bundle, source: Source) -> Pushed:
        """Hand in a bundle that was read already; raise `Refused` if there is no such request."""
        scope = self.scope

        async def work(transaction: CommandTransaction) -> Pushed:
            if scope.partition_id is not None:
                await find_request_row(scope, transaction.connection, request_id)
            unknown = await find_unknown_version(
                transaction.connection, scope.org_id, request_id, versions_in(bundle)
            )
            if unknown is not None and await find_request(transaction.connection, scope.org_id, request_id):
                message = f"there is no version {unknown}"
                raise Refused(Rejection("UNKNOWN_VERSION", message, ("items",), hint=CREATE_FIRST))
            by = scope.actor_or_system if scope.actor is not None else None
            people = people_of(scope.actor_or_system)
            given = bundle, source, by.id if by is not None else None, people
            pushed = await push_delivery(transaction.connection, request_id, *given)
            if pushed is None:
                raise Refused(Rejection("NOT_FOUND", f"no request {request_id}", ("request_id",)))
            if scope.actor is not None and pushed != "repeated":
                await transaction.note("result", "result.push", str(request_id), details={"key": bundle.key})
            return pushed

        return await scope.write(work)

    async def upload_link(
        self, request_id: UUID, *, days: int = LINK_DAYS, base_url: str | None = None
    ) -> "UploadLinkUrl":
        """Make a link by which the outside party hands in the documents of an open request; takes `documents:write`.

        What comes by it is also the work of the member who made it, who reviews none of it. It leads to our server at
        `ASSENT_PUBLIC_URL`, or at `base_url`.
        """
        scope, actor = self.scope, self.scope.actor_or_system
        require_capability(actor, WRITE_DOCUMENTS)
        base = scope.core.blobs.settings.public_url or base_url
        if not base:
            message = "a link to this server takes its address"
            raise Refused(Rejection("NO_PUBLIC_URL", message, hint="set ASSENT_PUBLIC_URL"))
        if not 1 <= days <= LINK_DAYS_MAX:
            message = f"1 to {LINK_DAYS_MAX} expected, found {days}"
            raise Refused(Rejection("OUT_OF_RANGE", message, ("days",)))
        await self.get(request_id)  # who may not read it makes no link to it

        async def work(transaction: CommandTransaction) -> UploadLink:
            connection = transaction.connection
            made = await insert_upload_link(connection, scope.org_id, request_id, actor.id, days)
            if made is None:
                message = "the request asks for no documents"
                raise Refused(Rejection("BAD_VALUE", message, ("request_id",)))
            made.require_open()
            details = {"link": str(made.id), "days": days}
            await transaction.note("result", "upload_link.create", str(request_id), details=details)
            return made

        made = await scope.write(work)
        url = upload_url(base, scope.org_id, made.id, made.key, made.expires_at)
        return UploadLinkUrl(made.id, url, made.expires_at)

    async def revoke_upload_links(self, request_id: UUID) -> int:
        """Revoke all links of a request, also the one that went out with it; takes `documents:write`."""
        scope, actor = self.scope, self.scope.actor_or_system
        require_capability(actor, WRITE_DOCUMENTS)
        await self.get(request_id)

        async def work(transaction: CommandTransaction) -> int:
            connection = transaction.connection
            revoked = await revoke_upload_links(connection, scope.org_id, request_id, actor.id)
            details = {"revoked": revoked}
            await transaction.note("result", "upload_link.revoke", str(request_id), details=details)
            return revoked

        return await scope.write(work)


@dataclass(frozen=True, slots=True)
class UploadLinkUrl:
    """A link that was made; who has the URL hands in."""

    id: UUID
    url: str
    expires_at: datetime


async def find_request_row(scope: OrgScope, connection: Connection, request_id: UUID) -> RequestView:
    """Return a request of the caller's org and partition, whether or not they may read it."""
    request = await find_request(connection, scope.org_id, request_id)
    if request is None or not scope.sees(request.partition_id):
        raise Refused(Rejection("NOT_FOUND", f"no request {request_id}", ("request_id",)))
    return request
