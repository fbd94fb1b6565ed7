"""Acting for somebody of an org: what such commands share, from their options to their exit code.

Whoever acts is a member, with the roles and capabilities that the database knows of; the command line gives nobody a
right that they do not have.
"""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from assent.cli.application import load_app
from assent.cli.database import migrated_database, origin
from assent.cli.options import named

if TYPE_CHECKING:
    from datetime import datetime

    from assent.app import App
    from assent.model.actor import Actor
    from assent.model.contract import Contract
    from assent.runtime import Runtime
    from assent.store.database import Connection

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
    """Who wants something of which application, and how they want to be answered."""

    app: str
    org_id: str
    user_id: str
    json: bool


@dataclass(frozen=True, slots=True)
class ActorSession:
    """A member at work."""

    app: "App"
    runtime: "Runtime"
    org_id: str
    actor: "Actor"

    @property
    def contracts(self) -> "Mapping[str, Contract]":
        return self.app.registry.contracts

    def now(self) -> "datetime":
        return self.runtime.database.clock.now()

    @asynccontextmanager
    async def reading(self) -> "AsyncIterator[Connection]":
        """One transaction, in which everything is as it was at one moment."""
        database = self.runtime.database
        async with database.transaction(
            self.org_id, isolation="repeatable_read", read_only=True
        ) as connection:
            yield connection


def act(who: ActorOptions, work: Callable[[ActorSession], Awaitable[T]]) -> T:
    """Return the result of the work; print a refusal on standard error and exit with its code."""
    from assent.cli.refusals import exit_code, print_rejection, rejection_from

    application = load_app(who.app)
    try:
        return asyncio.run(_act(who, application, work))
    except Exception as error:
        rejection = rejection_from(error)
        if rejection is None:
            raise
        print_rejection(rejection, json=who.json)
        raise typer.Exit(exit_code(rejection)) from None


async def _act(who: ActorOptions, application: "App", work: Callable[[ActorSession], Awaitable[T]]) -> T:
    async with migrated_database() as database:
        async with database.transaction(who.org_id, read_only=True) as connection:
            actor = await _actor(connection, who)
        runtime = application.runtime(database).via(origin())
        return await work(ActorSession(application, runtime, who.org_id, actor))


async def _actor(connection: "Connection", who: ActorOptions) -> "Actor":
    from assent.kernel.read import read_actor
    from assent.model.actor import SYSTEM
    from assent.model.mutation import Refused, Rejection

    if who.user_id == SYSTEM.id:
        message = "nobody acts as the system from outside"
        raise Refused(Rejection("NOT_A_MEMBER", message, ("as",), hint="name a member of the org"))
    actor = await read_actor(connection, who.org_id, who.user_id)
    if actor is None:
        message = f"{who.user_id} is no active member of {who.org_id}"
        raise Refused(Rejection("NOT_A_MEMBER", message, ("as",)))
    return actor
