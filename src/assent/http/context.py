"""What a handler works with: the services of the server, the context of a request, and a transaction of its caller."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

from fastapi import Request

from assent.app import App
from assent.effects.callbacks import callbacks_of
from assent.effects.decision_links import decision_links_of
from assent.effects.settings import CallbackSettings, DecisionLinkSettings
from assent.http.auth.callers import Caller, SignIn
from assent.http.auth.throttle import Rates, SignInThrottle
from assent.http.changes import ChangeFeed
from assent.http.replies import RepeatKey, Reply, request_hash
from assent.http.settings import HttpSettings
from assent.model.actor import Actor, By, Origin, Reader
from assent.model.contract import Contract
from assent.model.mutation import Refused, Rejection
from assent.operations.metrics_page import MetricsPage
from assent.people.members import lock_grants
from assent.runtime import rights
from assent.runtime.core import Core
from assent.runtime.readers import reader_of
from assent.runtime.runtime import OrgRuntime
from assent.store.caller_transaction import CallerDatabase
from assent.store.database import Connection, Database
from assent.store.failures import retry_lost
from assent.telemetry import current_trace

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DemoPerson:
    """A person that visitors of the demo may sign in as."""

    org_id: str
    user_id: str
    name: str


class Services:
    """What all requests of a server share."""

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        app: App,
        database: Database,
        settings: HttpSettings,
        callbacks: CallbackSettings,
        show_again: "ShowAgain",
        links: DecisionLinkSettings | None = None,
        demo_people: Sequence[DemoPerson] = (),
    ) -> None:
        self.demo_people = demo_people
        self.app = app
        self.show_again = show_again
        self.database = database
        self.settings = settings
        self.runtime = app.runtime(database)
        self.sign_in = SignIn(database, settings)
        self.rates = Rates(settings, database.clock)
        self.callbacks = callbacks_of(callbacks)
        self.links = decision_links_of(links) if links is not None else None
        self.sign_in_throttle = SignInThrottle(self.rates)
        self.changes = ChangeFeed(database)
        self.metrics = MetricsPage(database)


def services_of(request: Request) -> Services:
    """Return the services of the server that received a request."""
    services: Services = request.app.state.services
    return services


@dataclass(slots=True)
class RequestContext:
    """One request of one caller."""

    services: Services
    caller: Caller
    request: Request
    repeat_key: str | None = None
    """The header `Idempotency-Key`."""
    condition: str | None = None
    """The header `If-Match`."""
    reason: str | None = None
    """The header `Assent-Reason`."""

    @property
    def org_id(self) -> str:
        return self.caller.org_id

    @property
    def actor(self) -> Actor:
        return self.caller.actor

    @property
    def partition_id(self) -> str | None:
        """The one partition of the org that the caller sees; None for all."""
        return self.caller.partition_id

    @property
    def database(self) -> Database:
        return self.services.database

    @property
    def contracts(self) -> Mapping[str, Contract]:
        return self.services.app.registry.contracts

    @property
    def origin(self) -> Origin:
        """How the request arrived, for the audit log."""
        return Origin("http", self.caller.place, self.reason)

    @property
    def by(self) -> By:
        """The actor and the origin of the request, for the audit log."""
        return By(self.actor, self.origin, current_trace())

    @property
    def core(self) -> Core:
        """The runtime's parts, for functions that read in a transaction of the caller."""
        return self.services.runtime.core

    def now(self) -> datetime:
        """Return the time of the database's clock."""
        return self.database.clock.now()

    def contract(self, entity_type: str) -> Contract:
        """Return the contract of an entity type; raise `Refused` if there is none."""
        if entity_type not in self.contracts:
            message = f"there is no entity type `{entity_type}`"
            raise Refused(Rejection("UNKNOWN_ENTITY_TYPE", message, ("entity_type",)))
        return self.contracts[entity_type]

    def require(self, capability: str) -> None:
        """Raise `Refused` if the caller lacks a capability."""
        rights.require_capability(self.actor, capability)

    def may_read(self, entity_type: str | None) -> None:
        """Raise `Refused` if the contract of an entity type lists who may `read`, and the caller is not among them."""
        rights.may_read(self.contracts, entity_type, self.actor)

    async def read(
        self,
        query: Callable[Concatenate["Transaction", P], Awaitable[T]],
        *args: P.args,
        **arguments: P.kwargs,
    ) -> T:
        """Call a query in a transaction that only reads one snapshot, for the caller's org."""
        return await self.read_as(self.org_id, query, *args, **arguments)

    async def read_as(
        self,
        org_id: str | None,
        query: Callable[Concatenate["Transaction", P], Awaitable[T]],
        *args: P.args,
        **arguments: P.kwargs,
    ) -> T:
        """Read with the rows of an org, or, with None, as the owner of all rows.

        The query runs again if a migration has just changed the result of a prepared statement.
        """

        async def attempt() -> T:
            reading = self.database.transaction(org_id, isolation="repeatable_read", read_only=True)
            async with reading as connection:
                runtime, _ = self.joined_runtime(connection)
                return await query(self.transaction(runtime, connection), *args, **arguments)

        return await retry_lost(attempt, self.database.settings.transaction_attempts_max)

    def transaction(
        self, runtime: OrgRuntime, connection: Connection | None, stack: AsyncExitStack | None = None
    ) -> "Transaction":
        """Return this request with a transaction that is under way, or with a stack that one is to end with."""
        return Transaction(
            self.services,
            self.caller,
            self.request,
            self.repeat_key,
            self.condition,
            self.reason,
            runtime=runtime,
            begun=connection,
            stack=stack,
        )

    def org_runtime(self) -> OrgRuntime:
        """Return the commands of the runtime, bound to the caller."""
        return self.services.runtime.via(self.origin).org(self.org_id, self.actor, self.partition_id)

    def joined_runtime(self, connection: Connection) -> tuple[OrgRuntime, CallerDatabase]:
        """Return the commands in a transaction that is under way, and that transaction as a database."""
        joined = CallerDatabase(self.database, connection, self.org_id)
        return self.org_runtime().on(joined), joined

    async def repeat_of(self) -> RepeatKey | None:
        """Return the key under which the reply is kept; None without an `Idempotency-Key`."""
        if self.repeat_key is None:
            return None
        url = self.request.url
        path = f"{self.partition_id or ''}{url.path}"
        hashed = request_hash(self.request.method, path, url.query, self.condition, await self.request.body())
        return RepeatKey(self.org_id, self.actor.id, self.repeat_key, hashed)


@dataclass(slots=True, kw_only=True)
class Transaction(RequestContext):
    """A request with a transaction of its caller; what the runtime and the kernel do is part of it.

    A command that shares a transaction with others begins without a connection: the runtime commits it in the group,
    and `begin_reading` then begins a transaction for the reply.
    """

    runtime: OrgRuntime
    """The commands of the caller; in a command they are part of the transaction."""
    begun: Connection | None
    stack: AsyncExitStack | None

    @property
    def connection(self) -> Connection:
        if self.begun is None:
            raise RuntimeError("expected a transaction; a command in a group calls `begin_reading` first")
        return self.begun

    @property
    def reads(self) -> OrgRuntime:
        """The runtime in this transaction, for what the caller reads."""
        return self.runtime.on(CallerDatabase(self.database, self.connection, self.org_id))

    def note_done(self) -> None:
        """Note that the command was committed, if it was in a group: what fails from here on does not undo it."""
        if self.stack is not None:
            self.request.state.is_done = True

    async def begin_reading(self) -> None:
        """Begin a transaction for the reply if the command was committed in a group; else do nothing."""
        self.note_done()
        if self.stack is not None and self.begun is None:
            reading = self.database.transaction(self.org_id, plans="kept", read_only=True)
            self.begun = await self.stack.enter_async_context(reading)

    async def lock_grants(self) -> None:
        """Wait until no other transaction of the org gives or takes rights, then read the caller's own again.

        Rights that were taken between the sign-in and the lock give nothing away any more.
        """
        await lock_grants(self.connection, self.org_id)
        caller = await self.services.sign_in.again(self.connection, self.caller)
        if isinstance(caller, Rejection):
            raise Refused(caller)
        self.caller, self.runtime = caller, self.runtime.by(caller.actor)

    async def reader(self) -> Reader:
        """Return what the caller may see in lists."""
        return await reader_of(self.core, self.connection, self.org_id, self.actor)


ShowAgain = Callable[[Transaction, Reply[Any]], Awaitable[Reply[Any]]]
"""Returns a kept reply, or an empty one if the caller may no longer read what it shows."""
