"""Databases whose time can be moved: those of tests, and the demo's while its past is made.

Elsewhere `assent.now()` is the server's time, whatever a transaction sets: no role that production has can date things.
Only the owner of the database can change the function, and does so here.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from assent.store.connection import Connection
from assent.store.database import Database
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.store", "store.sql")


async def let_time_move(connection: Connection) -> None:
    """Have `assent.now()` go by what a transaction sets; does nothing where there is no such function yet."""
    if await connection.fetchval(_SQL.find_time) is not None:
        await connection.execute(_SQL.let_time_move)


@asynccontextmanager
async def moved_time(database: Database) -> AsyncIterator[None]:
    """Inside, transactions are at the time of the clock of their `Database`; afterwards at the server's again."""
    async with database.transaction(None) as connection:
        await let_time_move(connection)
    try:
        yield
    finally:
        async with database.transaction(None) as connection:
            await connection.execute(_SQL.let_time_run)
