"""`assent demo`: a database of its own, migrated, and a short story that ends with an audit trail."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

DEMO_FOLDER = Path(".assent/demo")


def demo(
    data_dir: Annotated[
        Path, typer.Option(help="Where the demo's database lives; delete it to start over.")
    ] = DEMO_FOLDER,
) -> None:
    """See what Assent is for: create, edit, submit, a locked edit refused, the audit trail."""
    asyncio.run(_run(data_dir.absolute(), Console(highlight=False)))


async def _run(data_dir: Path, console: Console) -> None:
    from assent.demo.story import Story
    from assent.store.database import Database
    from assent.store.migrate import migrate
    from assent.store.settings import Settings

    settings = Settings.from_environment()
    if settings.database_url is None:
        console.print("[dim]Starting a PostgreSQL of our own …[/]")
        settings = Settings(data_dir=data_dir)
    database = await Database.open(settings=settings)
    try:
        applied = await migrate(database)
        console.print(f"[dim]Database ready, {len(applied)} migrations applied.[/]")
        await Story(database, console).tell()
    finally:
        await database.close()
    console.print("\n[dim]Next: README.md, then docs/ARCHITECTURE.md. `make test` proves all of it.[/]")
