"""Looking at the tables that duties work on, and holding what they want."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg

from assent.jobs.lease import Lease
from assent.store.connection import Connection
from assent.store.database import Database
from assent.worker.duty import Duty, DutyRun, RunResult, WorkerContext
from assent.worker.loop import exhaust
from tests.plain_sql import WAIT_MAX_S
from tests.postgres import SETTINGS
from tests.runtime.flows import rows

BLOCKED_PIDS = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
"""


async def fetch(database: Database, sql: str, *arguments: Any) -> list[asyncpg.Record]:
    async with database.transaction(None) as connection:
        return await connection.fetch(sql, *arguments)


async def count(database: Database, table: str) -> int:
    return len(await rows(database, table))


async def events(database: Database) -> list[asyncpg.Record]:
    return await fetch(
        database,
        "SELECT * FROM assent.workflow_events_outbox WHERE org_id <> 'aatwin' ORDER BY created_at, id",
    )


async def run_until_done(duty: Duty) -> RunResult:
    """Run a duty until it has nothing more to do; what all of its runs did. Its errors are the test's."""
    runs: list[DutyRun] = []
    await exhaust(duty, runs.append)
    for run in runs:
        if run.error is not None:
            raise run.error
    parts: dict[str, int] = {}
    for run in runs:
        parts |= {name: parts.get(name, 0) + number for name, number in run.done.parts.items()}
    return RunResult(sum(run.done.count for run in runs), parts=parts)


def with_options(place: WorkerContext, **options: Any) -> WorkerContext:
    return replace(place, options=place.options.replace(**options))


@asynccontextmanager
async def second_worker(place: WorkerContext) -> AsyncIterator[WorkerContext]:
    """The same workplace over connections of its own, as another process would have it."""
    other = await Database.open(place.database.url, settings=SETTINGS, clock=place.database.clock)
    try:
        yield replace(place, database=other, lease=Lease())
    finally:
        await other.close()


async def wait_until_somebody_is_blocked(observer: Connection) -> None:
    """Return as soon as any connection to this database waits for a lock."""
    async with asyncio.timeout(WAIT_MAX_S):
        while not await observer.fetchval(BLOCKED_PIDS):
            # A transaction sees the activity as it was when it first looked.
            await observer.execute("SELECT pg_stat_clear_snapshot()")


def ids(rows: Iterable[Any]) -> set[Any]:
    return {row["id"] for row in rows}
