"""Upkeep of the store: partitions are made before anything can need them."""

from typing import Final

from assent.store.database import Connection, Database
from assent.store.queries import load_queries

_QUERIES: Final = load_queries("assent.store", "upkeep.sql")

MONTHS_AHEAD: Final = 3


async def ensure_partitions(database: Database, months_ahead: int = MONTHS_AHEAD) -> int:
    """Make the partitions of this month and the months ahead; returns how many were missing.

    Safe to call at any time and from several places at once. When nobody calls it for longer than that, rows
    go to a default partition, and the next call takes them to where they belong.
    """

    async def work(connection: Connection) -> int:
        made: int = await connection.fetchval(_QUERIES.ensure_partitions, months_ahead)
        return made

    # Attaching a partition locks tables that others are writing to; whoever loses tries again.
    return await database.run(work, org_id=None)
