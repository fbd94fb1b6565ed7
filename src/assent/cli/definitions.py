"""`assent definitions`: every version of what was published, and of what is being written."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from assent.cli.database import migrated_database
from assent.cli.options import JsonOption

if TYPE_CHECKING:
    from assent.definitions import DefinitionVersion


def definitions(
    org: Annotated[str | None, typer.Option("--org", help="Only of this org; '*' means everybody.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also what was archived.")] = False,
    json: JsonOption = False,
) -> None:
    """List the definitions that are published or in draft, with version, hash and compiler."""
    from assent.cli.report import console, print_json
    from assent.store.errors import StoreError

    try:
        found = asyncio.run(_list(org))
    except StoreError as error:
        console(stderr=True).print(str(error), style="red")
        raise typer.Exit(1) from None
    shown = [version for version in found if every or version.status != "archived"]
    if json:
        print_json([version.to_json() for version in shown])
    else:
        lines = [f"{version.status:<9}  {one_line(version)}" for version in shown]
        typer.echo("\n".join(lines) or "Nothing is published yet; see `assent publish --help`.")


async def _list(org_id: str | None) -> "list[DefinitionVersion]":
    from assent.definitions import list_versions

    async with migrated_database() as database, database.transaction(None) as connection:
        return await list_versions(connection, org_id)


def one_line(version: "DefinitionVersion") -> str:
    """A definition as the commands print it: whose, what, which version, and what it compiled to."""
    compiled = f"  {version.compiled_hash}" if version.compiled_hash else ""
    return f"{version.org_id}  {version.definition_kind}  {version.key} {version.version}{compiled}"
