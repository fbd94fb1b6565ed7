"""Something that whoever runs it does for an org, in one transaction."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from assent.cli.database import migrated_database, operator
from assent.cli.options import named

if TYPE_CHECKING:
    from assent.store.database import Connection

T = TypeVar("T")


OrgOption = Annotated[str, typer.Option("--org", envvar="ASSENT_ORG", help="The org.", callback=named)]


def run_in_org(org_id: str, work: "Callable[[Connection, datetime], Awaitable[T]]") -> T:
    """Return the result of the work in one transaction of the org; exit if it fails."""
    from assent.cli.refusals import exit_with

    async def run() -> T:
        async with migrated_database() as database, database.transaction(org_id, by=operator()) as connection:
            return await work(connection, database.clock.now())

    try:
        return asyncio.run(run())
    except Exception as error:
        exit_with(error)
