"""The database for one command: opened, found up to date, and closed again."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assent.store.database import Database


@asynccontextmanager
async def migrated_database() -> "AsyncIterator[Database]":
    """Raises `StoreError` where the schema lacks something."""
    from assent.store.database import Database
    from assent.store.errors import StoreError
    from assent.store.migrate import status

    database = await Database.open()
    try:
        if pending := (await status(database)).pending:
            names = ", ".join(str(migration) for migration in pending)
            raise StoreError(f"The database lacks {names}. Run `assent migrate` first")
        yield database
    finally:
        await database.close()
