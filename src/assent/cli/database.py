"""The database for one command: opened, found up to date, and closed again; and by which way the command comes."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from getpass import getuser
from socket import gethostname
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assent.model.origin import By, Origin
    from assent.store.database import Database


@asynccontextmanager
async def migrated_database() -> "AsyncIterator[Database]":
    """Raises `StoreError` where the schema, or a role, lacks something."""
    from assent.store.database import Database
    from assent.store.migrate import require_ready

    database = await Database.open()
    try:
        await require_ready(database)
        yield database
    finally:
        await database.close()


def origin() -> "Origin":
    """From this host, by whoever is signed in here: for the audit log."""
    from assent.model.origin import Origin

    return Origin("cli", f"{getuser()}@{gethostname()}")


def operator() -> "By":
    """Whoever may open the database may do what takes no member of an org."""
    from assent.model.actor import SYSTEM
    from assent.model.origin import By

    return By(SYSTEM, origin())
