"""Upkeep of the store: partitions are made before anything can need them."""

from typing import Final

from assent.store.clock import time_for_sql
from assent.store.connection import connect
from assent.store.database import Database
from assent.store.lock_waits import OnWait, log_wait, run_with_short_lock_waits
from assent.store.queries import load_queries

_QUERIES: Final = load_queries("assent.store", "store.sql")

MONTHS_AHEAD: Final = 3
WAIT_MAX_MS: Final = 10_000


async def ensure_partitions(
    database: Database,
    months_ahead: int = MONTHS_AHEAD,
    *,
    wait_max_ms: int = WAIT_MAX_MS,
    on_wait: OnWait = log_wait,
) -> int:
    """Make the partitions of this month and the months ahead; returns how many were missing.

    Safe to call at any time and from several places at once. If it is not called for longer than that, rows
    go to a default partition, and the next call takes them to where they belong. Attaching a partition locks tables
    that others use: it waits for the locks as a migration does, and raises `StoreError` when it took too long.
    """
    settings = database.settings.replace(migration_wait_max_ms=wait_max_ms)
    url = settings.direct_url(database.url)
    connection = await connect(url, settings)

    async def work() -> int:
        await connection.execute(_QUERIES.enter_as_owner, time_for_sql(database.clock), "")
        made: int = await connection.fetchval(_QUERIES.ensure_partitions, months_ahead)
        return made

    try:
        return await run_with_short_lock_waits(
            "Making partitions", connection, work, url=url, settings=settings, on_wait=on_wait
        )
    finally:
        await connection.close()
