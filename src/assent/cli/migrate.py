"""`assent migrate`: bring the database's schema up to date, or say how it stands."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from assent.cli.options import OptionalAppOption, load_app
from assent.cli.output import console, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assent.store.lock_waits import LockWait
    from assent.store.migrate import MigrationStatus
    from assent.store.table_grants import TableGrants


def migrate(
    status: Annotated[bool, typer.Option("--status", help="Only say what is applied and missing.")] = False,
    print_roles: Annotated[
        bool,
        typer.Option(
            "--print-roles", help="Only print the SQL that makes missing roles, for an administrator."
        ),
    ] = False,
    app: OptionalAppOption = None,
    json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Apply the migrations that are missing, and make the partitions of the months ahead.

    With --app, the engine's role then gets the rights on the application's own tables that it declares (`app.grant`).
    """
    from assent.cli.refusals import exit_with

    try:
        if print_roles:
            _print_roles()
            return
        grants = load_app(app).grants if app is not None and not status else {}
        before, after, partitions, granted = asyncio.run(_run(grants, only_status=status))
    except Exception as error:
        exit_with(error)
    applied = [str(migration) for migration in after.applied[len(before.applied) :]]
    pending = [str(migration) for migration in after.pending]
    if json:
        known = [str(migration) for migration in before.applied]
        found = {"known": known, "applied": applied, "pending": pending, "newer": list(after.newer)}
        print_json({**found, "partitions_made": partitions, "granted": granted})
        return
    for name in applied:
        console().print(f"applied  {name}")
    for name in pending:
        console().print(f"pending  {name}")
    for name in after.newer:
        console().print(f"newer    {name}, of a later version, which this one can use")
    for statement in granted:
        console().print(f"granted  {statement}", markup=False)
    if not applied and not pending:
        console().print(f"up to date: {len(after.applied)} migrations")


def _say_wait(wait: "LockWait") -> None:
    """Say it on standard error, where neither a person nor a program takes it for the result."""
    console(stderr=True).print(f"{wait}\nOthers go first; trying again.", style="yellow", markup=False)


def _print_roles() -> None:
    from assent.store.roles import as_script

    print(as_script(asyncio.run(_missing_roles())) or "-- all roles are there")


async def _missing_roles() -> "Sequence[str]":
    from assent.store.database import Database
    from assent.store.migrate import examine

    database = await Database.open()
    try:
        return (await examine(database)).roles
    finally:
        await database.close()


async def _run(
    grants: "TableGrants", *, only_status: bool
) -> "tuple[MigrationStatus, MigrationStatus, int, list[str]]":
    from assent.store.database import Database
    from assent.store.migrate import migrate as apply
    from assent.store.migrate import status
    from assent.store.table_grants import grant_tables
    from assent.store.upkeep import ensure_partitions

    database = await Database.open()
    try:
        before = await status(database)
        if only_status:
            return before, before, 0, []
        await apply(database, on_wait=_say_wait)
        wait_max_ms = database.settings.migration_wait_max_ms
        made = await ensure_partitions(database, wait_max_ms=wait_max_ms, on_wait=_say_wait)
        async with database.transaction(None) as connection:
            granted = await grant_tables(connection, grants)
        return before, await status(database), made, granted
    finally:
        await database.close()
