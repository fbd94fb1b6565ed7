"""`assent migrate`: bring the database's schema up to date, or say how it stands."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from assent.cli.report import console, print_json

if TYPE_CHECKING:
    from assent.store.migrate import Status


def migrate(
    status: Annotated[bool, typer.Option("--status", help="Only say what is applied and missing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Apply the migrations that are missing, and make the partitions of the months ahead."""
    from assent.model.problems import Invalid
    from assent.store.errors import StoreError

    try:
        before, after, partitions = asyncio.run(_run(only_status=status))
    except (StoreError, Invalid) as error:
        console(stderr=True).print(str(error), style="red")
        raise typer.Exit(1) from None
    applied = [str(migration) for migration in after.applied[len(before.applied) :]]
    pending = [str(migration) for migration in after.pending]
    if json:
        known = [str(migration) for migration in before.applied]
        print_json({"known": known, "applied": applied, "pending": pending, "partitions_made": partitions})
        return
    for name in applied:
        console().print(f"applied  {name}")
    for name in pending:
        console().print(f"pending  {name}")
    if not applied and not pending:
        console().print(f"up to date: {len(after.applied)} migrations")


async def _run(*, only_status: bool) -> "tuple[Status, Status, int]":
    from assent.store.database import Database
    from assent.store.migrate import migrate as apply
    from assent.store.migrate import status
    from assent.store.upkeep import ensure_partitions

    database = await Database.open()
    try:
        before = await status(database)
        if only_status:
            return before, before, 0
        await apply(database)
        return before, await status(database), await ensure_partitions(database)
    finally:
        await database.close()
