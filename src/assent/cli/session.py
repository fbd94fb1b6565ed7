"""What a command works with: a server, or a database with a member who acts or a transaction of the operator.

A command names the route of its capability and the same work in this process: `act`, `run_as_operator` and `run_in_org`
ask the server where one is chosen, and do the work where none is. Both return the body that HTTP returns, as JSON. On a
database a member acts with the roles and capabilities that it knows of; the command line grants no rights.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from getpass import getuser
from inspect import Parameter, Signature, signature
from socket import gethostname
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar
from uuid import UUID

import typer
from typer.models import ArgumentInfo

from assent.cli.options import GivenId, JsonOption, find_one, given_id, load_app, named
from assent.cli.remote import Server, ServerCall, current_server, seen

if TYPE_CHECKING:
    from logging import Logger

    from pydantic import BaseModel

    from assent.app import App
    from assent.bodies.instances import InstanceBody
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


def by_member(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take the options of every command of a member together, as its first parameter `who`."""

    @wraps(command)
    def run(*, app: str, org: str, user: str, json: bool, **given: Any) -> None:
        if current_server() is not None and user == os.environ.get(_OF_KEY["--as"]):
            user = BY_KEY  # the variable is for the database, and names another member perhaps
        command(who=ActorOptions(app, org, user, json), **given)

    _, *own = signature(command).parameters.values()
    arguments = [parameter for parameter in own if _is_argument(parameter)]
    who = (
        Parameter("app", Parameter.KEYWORD_ONLY, annotation=AppOption),
        Parameter("org", Parameter.KEYWORD_ONLY, annotation=OrgOption),
        Parameter("user", Parameter.KEYWORD_ONLY, annotation=UserOption),
    )
    json = Parameter("json", Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption)
    options = [parameter for parameter in own if parameter not in arguments]
    shown = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*arguments, *who, *options, json)]
    run.__signature__ = Signature(shown, return_annotation=None)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in shown}
    return run


def _is_argument(parameter: Parameter) -> bool:
    return any(isinstance(each, ArgumentInfo) for each in getattr(parameter.annotation, "__metadata__", ()))


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

    async def write(self, work: "Callable[[OrgRuntime, Connection], Awaitable[T]]") -> T:
        """Return the result of work in one transaction of the member; it runs again if it lost against others."""
        from assent.model.actor import By
        from assent.store.caller_transaction import CallerDatabase
        from assent.store.commit import CommitProof

        database, proof = self.runtime.database, CommitProof()

        async def attempt(connection: "Connection") -> T:
            joined = CallerDatabase(database, connection, self.org_id)
            result = await work(self.commands.on(joined), connection)
            proof.audit_id = next(iter(joined.audit_ids), None)
            return result

        by = By(self.actor, origin())
        return await database.run(attempt, org_id=self.org_id, by=by, proof=proof)


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


Asking = ServerCall | Callable[[Server], Any]
"""The route of a capability, or what asks a server where one request is not enough."""

BY_KEY: Final = "-"
"""Stands for the application, the org and the member of a command to a server: its key names them."""
_OF_KEY: Final = {"--app": "ASSENT_APP", "--org": "ASSENT_ORG", "--as": "ASSENT_USER"}


def answer(value: "BaseModel | str | None") -> Any:
    """Return a body as a server would have sent it."""
    if value is None:
        return None
    return seen(value if isinstance(value, str) else value.model_dump_json())


def ask(server: Server, route: Asking, *, json: bool, **options: str | None) -> Any:
    """Return what a server replies; exit with a refusal. Options that its key decides are refused."""
    for option, value in options.items():
        name = f"--{option.rstrip('_')}"
        if value not in (None, BY_KEY, os.environ.get(_OF_KEY[name])):
            raise typer.BadParameter(f"the key of {server.url} decides it", param_hint=name)
    try:
        return route(server) if callable(route) else server.ask(route)
    except Exception as error:
        from assent.cli.refusals import exit_with

        exit_with(error, json=json)


def require_database() -> None:
    """Raise `BadParameter` for a command of the operator of the database where a server is chosen."""
    if (server := current_server()) is not None:
        message = (
            "this command is for the operator of the database: it needs ASSENT_DATABASE_URL, "
            f"and no key of {server.url} takes its place"
        )
        raise typer.BadParameter(message, param_hint="--server")


async def body_if_readable(session: ActorSession, view: "InstanceView") -> "InstanceBody | None":
    """Return the body of an instance after a command; None if the member may not read it."""
    from assent.bodies.instances import InstanceBody

    readable = await if_readable(session, view)
    return InstanceBody.of(readable) if readable is not None else None


def act(
    who: ActorOptions,
    route: Asking,
    work: "Callable[[ActorSession], Awaitable[BaseModel | str | None]]",
    names: Mapping[str, str] | None = None,
) -> Any:
    """Return the body of a capability that a member uses; print a refusal on standard error and exit with its code.

    `names` has the options' names for what the kernel calls otherwise.
    """
    if (server := current_server()) is not None:
        return ask(server, route, json=who.json, app=who.app, org=who.org_id, as_=who.user_id)
    return answer(act_here(who, work, names))


def act_then_read(
    who: ActorOptions,
    route: Asking,
    work: Callable[[ActorSession], Awaitable[object]],
    read: "Callable[[ActorSession], Awaitable[BaseModel]]",
) -> Any:
    """Return the body of what a command changed, as it is then; None if the member may not read it."""

    async def work_and_read(session: ActorSession) -> "BaseModel | None":
        from assent.model.mutation import Refused

        await work(session)
        with after_the_command():
            try:
                return await read(session)
            except Refused:
                return None

    return act(who, route, work_and_read)


def act_here(
    who: ActorOptions, work: Callable[[ActorSession], Awaitable[T]], names: Mapping[str, str] | None = None
) -> T:
    """Return the result of a member's work on the database; print a refusal and exit with its code."""
    application = load_app(who.app)
    try:
        return asyncio.run(_act(who, application, work))
    except Exception as error:
        # Here, and not above: it knows every error of the runtime, and importing that takes 0.3 s of CPU.
        from assent.cli.refusals import exit_with

        exit_with(error, json=who.json, names=names)


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
    org_id: str,
    route: Asking | None,
    work: "Callable[[Connection, datetime], Awaitable[BaseModel | str | None]]",
    *,
    json: bool = False,
    as_owner: bool = False,
) -> Any:
    """Return the body of a capability that the operator uses in one transaction, of the org or of the tables' owner.

    Exit if it fails. Without a route, it is for the operator of the database alone.
    """
    if route is None:
        require_database()
    elif (server := current_server()) is not None:
        return ask(server, route, json=json, org=org_id)

    async def run() -> "BaseModel | str | None":
        by, of = operator(), None if as_owner else org_id
        async with migrated_database() as database, database.transaction(of, by=by) as connection:
            return await work(connection, database.clock.now())

    try:
        return answer(asyncio.run(run()))
    except Exception as error:
        from assent.cli.refusals import exit_with

        exit_with(error, json=json)


def run_as_operator(
    app: str | None,
    org_id: str,
    route: Asking,
    work: "Callable[[OrgRuntime], Awaitable[BaseModel | str | None]]",
    *,
    json: bool = False,
) -> Any:
    """Return the body of a capability that the operator uses for an org; exit if it fails.

    Without an application, its declarations are not known.
    """
    if (server := current_server()) is not None:
        return ask(server, route, json=json, app=app, org=org_id)
    from assent.app import App

    application = load_app(app) if app is not None else App()

    async def run() -> "BaseModel | str | None":
        async with migrated_database() as database:
            return await work(application.runtime(database).via(origin()).org(org_id))

    try:
        return answer(asyncio.run(run()))
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
