"""`assent doctor`: what the database's roles lack, and the statements that repair it."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from assent.cli.options import JsonOption
from assent.cli.report import console, print_json

if TYPE_CHECKING:
    from assent.store.roles import Report


def doctor(json: JsonOption = False) -> None:
    """Compare roles, memberships and grants with what migrations made. Ends with 1 when something must be repaired.

    What it prints is SQL: the statements, with comments that say who runs them.
    """
    from assent.model.problems import Invalid
    from assent.store.errors import StoreError

    try:
        report = asyncio.run(_examine())
    except (StoreError, Invalid) as error:
        console(stderr=True).print(str(error), style="red")
        raise typer.Exit(1) from None
    if json:
        groups = {"roles": report.roles, "missing": report.missing, "beyond": report.beyond}
        print_json({name: list(found) for name, found in groups.items()} | {"notes": list(report.notes)})
    else:
        _print(report)
    raise typer.Exit(1 if report.statements else 0)


def _print(report: "Report") -> None:
    _print_part("Roles: run this as an administrator of the server.", report.roles)
    _print_part("Rights that migrations granted and that are gone: run this as the owner.", report.missing)
    _print_part("Rights that no migration granted: run this as the owner, or know why not.", report.beyond)
    for note in report.notes:
        print(f"-- note: {note}")
    if not report.statements:
        print("-- roles, memberships and grants are as the migrations made them")


def _print_part(heading: str, statements: Sequence[str]) -> None:
    from assent.store.roles import as_script

    if statements:
        print(f"-- {heading}\n{as_script(statements)}")


async def _examine() -> "Report":
    from assent.store.database import Database
    from assent.store.migrate import examine

    database = await Database.open()
    try:
        return await examine(database)
    finally:
        await database.close()
