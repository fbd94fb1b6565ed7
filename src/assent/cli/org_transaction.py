"""Something that whoever runs it does for an org, in one transaction."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from assent.cli.database import migrated_database, operator
from assent.cli.options import named
from assent.cli.report import console

if TYPE_CHECKING:
    from assent.store.database import Connection

T = TypeVar("T")


OrgOption = Annotated[str, typer.Option("--org", envvar="ASSENT_ORG", help="The org.", callback=named)]


def run_in_org(org_id: str, work: "Callable[[Connection, datetime], Awaitable[T]]") -> T:
    """Ends with 1 when it is refused."""
    from assent.model.mutation import Refused
    from assent.model.problems import Invalid
    from assent.store.errors import StoreError

    async def run() -> T:
        async with migrated_database() as database, database.transaction(org_id, by=operator()) as connection:
            return await work(connection, database.clock.now())

    try:
        return asyncio.run(run())
    except (StoreError, Invalid, Refused) as error:
        console(stderr=True).print(str(error), style="red")
        raise typer.Exit(1) from None
