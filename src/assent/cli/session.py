"""What a command works with: a database, a member who acts, or a transaction of the operator.

A member acts with the roles and capabilities that the database knows of; the command line grants no rights.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from getpass import getuser
from socket import gethostname
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from assent.cli.options import GivenId, find_one, given_id, load_app, named

if TYPE_CHECKING:
    from logging import Logger

    from assent.app import App
    from assent.model.actor import Actor, By, Origin
    from assent.model.contract import Contract
    from assent.runtime import InstanceView, Runtime
    from assent.runtime.runtime import OrgRuntime
    from assent.store.database import Connection, Database


@asynccontextmanager
async def migrated_database() -> "AsyncIterator[Database]":
    """Open the database; raise `StoreError` if the schema or a role lacks something."""
    from assent.store.database import Database
    from assent.store.migrate import require_ready

    database = await Database.open()
    try:
        await require_ready(database)
        yield database
    finally:
        await database.close()


async def warn_of_contracts(application: "App", database: "Database", log: "Logger") -> None:
    """Write a warning for each contract that differs from the published one."""
    for difference in await application.compare_contracts(database):
        log.warning("contract differs", extra={"difference": difference})


def origin() -> "Origin":
    """Return this host and the user who is logged in, for the audit log."""
    from assent.model.actor import Origin

    return Origin("cli", f"{getuser()}@{gethostname()}")


def operator() -> "By":
    """Return the operator, who acts without being a member because the database is open to them."""
    from assent.model.actor import SYSTEM, By

    return By(SYSTEM, origin())


T = TypeVar("T")

AppOption = Annotated[
    str,
    typer.Option("--app", envvar="ASSENT_APP", help="The application, as module:name of its App object."),
]
OrgOption = Annotated[str, typer.Option("--org", envvar="ASSENT_ORG", help="The org.", callback=named)]
UserOption = Annotated[
    str,
    typer.Option("--as", metavar="USER", envvar="ASSENT_USER", help="Who acts: a member of the org."),
]


@dataclass(frozen=True, slots=True)
class ActorOptions:
    """The options of a command that a member runs."""

    app: str
    org_id: str
    user_id: str
    json: bool


@dataclass(frozen=True, slots=True)
class ActorSession:
    """A member with the runtime of an application."""

    app: "App"
    runtime: "Runtime"
    org_id: str
    actor: "Actor"

    @property
    def commands(self) -> "OrgRuntime":
        """Return the commands of the runtime, bound to the org and the member."""
        return self.runtime.org(self.org_id, self.actor)

    @property
    def contracts(self) -> "Mapping[str, Contract]":
        return self.app.registry.contracts

    def now(self) -> "datetime":
        return self.runtime.database.clock.now()

    @asynccontextmanager
    async def reading(self) -> "AsyncIterator[Connection]":
        """Open a read-only transaction that sees one moment."""
        database = self.runtime.database
        async with database.transaction(
            self.org_id, isolation="repeatable_read", read_only=True
        ) as connection:
            yield connection


@contextmanager
def after_the_command() -> Iterator[None]:
    """Inside, a command was carried out: if the database fails now, say so, and not that nothing was changed."""
    from assent.model.mutation import Refused, Rejection
    from assent.store.errors import StoreError
    from assent.store.failures import CONNECTION_LOST

    try:
        yield
    except (StoreError, *CONNECTION_LOST):
        message = "the command was carried out, but its result could not be read and is unknown"
        hint = "read what it changed; do not repeat it"
        raise Refused(Rejection("OUTCOME_UNKNOWN", message, hint=hint)) from None


async def if_readable(session: ActorSession, view: "InstanceView") -> "InstanceView | None":
    """Return an instance after a command; None if the member may not read it."""
    from assent.model.mutation import Refused
    from assent.runtime.readers import may_read_instance

    with after_the_command():
        async with session.reading() as connection:
            try:
                await may_read_instance(session.runtime.core, connection, view, session.actor)
            except Refused:
                return None
    return view


def act(who: ActorOptions, work: Callable[[ActorSession], Awaitable[T]]) -> T:
    """Return the result of the work; print a refusal on standard error and exit with its code."""
    application = load_app(who.app)
    try:
        return asyncio.run(_act(who, application, work))
    except Exception as error:
        # Here, and not above: it knows every error of the runtime, and importing that takes 0.3 s of CPU.
        from assent.cli.refusals import exit_with

        exit_with(error, json=who.json)


async def _act(who: ActorOptions, application: "App", work: Callable[[ActorSession], Awaitable[T]]) -> T:
    async with migrated_database() as database:
        async with database.transaction(who.org_id, read_only=True) as connection:
            actor = await _actor(connection, who)
        runtime = application.runtime(database).via(origin())
        return await work(ActorSession(application, runtime, who.org_id, actor))


async def _actor(connection: "Connection", who: ActorOptions) -> "Actor":
    from assent.kernel.entities import read_actor
    from assent.model.actor import SYSTEM
    from assent.model.mutation import Refused, Rejection

    if who.user_id == SYSTEM.id:
        message = "the system does not act from outside"
        raise Refused(Rejection("NOT_A_MEMBER", message, ("as",), hint="name a member of the org"))
    actor = await read_actor(connection, who.org_id, who.user_id)
    if actor is None:
        message = f"{who.user_id} is no active member of {who.org_id}"
        raise Refused(Rejection("NOT_A_MEMBER", message, ("as",)))
    return actor


def run_in_org(
    org_id: str | None, work: "Callable[[Connection, datetime], Awaitable[T]]", *, json: bool = False
) -> T:
    """Return the result of the operator's work in one transaction of the org, or of the owner; exit if it fails."""

    async def run() -> T:
        async with migrated_database() as database, database.transaction(org_id, by=operator()) as connection:
            return await work(connection, database.clock.now())

    try:
        return asyncio.run(run())
    except Exception as error:
        from assent.cli.refusals import exit_with

        exit_with(error, json=json)


def run_as_operator(
    app: str | None, org_id: str, work: "Callable[[OrgRuntime], Awaitable[T]]", *, json: bool = False
) -> T:
    """Return the result of commands that the operator gives for an org; exit if they fail.

    Without an application, its declarations are not known.
    """
    from assent.app import App

    application = load_app(app) if app is not None else App()

    async def run() -> T:
        async with migrated_database() as database:
            return await work(application.runtime(database).via(origin()).org(org_id))

    try:
        return asyncio.run(run())
    except Exception as error:
        from assent.cli.refusals import exit_with

        exit_with(error, json=json)


InstanceArgument = Annotated[
    GivenId,
    typer.Argument(
        metavar="ID", parser=given_id, help="An instance or an entity, by its id or the beginning of it."
    ),
]


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """What an id names: an instance, or an entity."""

    instance_id: UUID | None = None
    entity_id: UUID | None = None


async def find_seen_instance(session: ActorSession, connection: "Connection", given: GivenId) -> UUID | None:
    """Return the instance that an id names, if there is one; refuse one that the reader may not see."""
    from assent.runtime.readers import SeenInstance, find_instances, may_read_instance
    from assent.runtime.views import find_instance

    found = await find_one(connection, session.org_id, "instance", given, find_instances)
    row = await find_instance(connection, session.org_id, found) if found else None
    if row is not None:
        await may_read_instance(session.runtime.core, connection, SeenInstance.of(row), session.actor)
    return found


async def find_meant(session: ActorSession, connection: "Connection", given: GivenId) -> CommandTarget:
    """Return what an id names; refuse what does not exist, and what the reader may not see."""
    from assent.kernel.entities import find_entities, read_entity
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


async def find_instance_meant(session: ActorSession, connection: "Connection", given: GivenId) -> UUID:
    """Return the instance that an id names, or the one that runs for the entity that it names."""
    from assent.kernel.entities import read_entity
    from assent.model.mutation import Refused, Rejection

    meant = await find_meant(session, connection, given)
    if meant.instance_id is not None:
        return meant.instance_id
    assert meant.entity_id is not None
    entity = await read_entity(connection, session.org_id, meant.entity_id)
    if entity is None or entity.instance_id is None:
        raise Refused(Rejection("NOT_FOUND", f"no instance runs for entity {given.text}", ("id",)))
    return entity.instance_id
