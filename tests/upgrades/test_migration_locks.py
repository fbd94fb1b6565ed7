"""Migrations among people at work: no session queues behind a migration for longer than its lock timeout."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from assent.store.clock import SYSTEM_CLOCK
from assent.store.connection import Connection
from assent.store.database import Database
from assent.store.embedded.cluster import OWNER
from assent.store.errors import StoreError
from assent.store.lock_waits import BlockingSession, LockWait
from assent.store.migrate import Migration, load_migrations, migrate, status
from assent.store.settings import Settings
from assent.store.upkeep import ensure_partitions
from tests.upgrades.releases import ReleaseFolder

pytestmark = pytest.mark.without_twin("migrations of the test change every row")
SETTINGS = Settings(migration_lock_timeout_ms=300, migration_wait_max_ms=60_000)
OURS = load_migrations()
SQL = "ALTER TABLE assent.audit_log ADD COLUMN note text;"
NEXT = Migration(len(OURS) + 1, "note", SQL)
REPORT = "SELECT count(*) FROM assent.audit_log"
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture
async def live(database_url: str) -> AsyncIterator[Database]:
    database = await Database.open(database_url, settings=SETTINGS, clock=SYSTEM_CLOCK)
    yield database
    await database.close()


@asynccontextmanager
async def report(url: str, statement: str = REPORT) -> AsyncIterator[tuple[Connection, int]]:
    """Inside, a report has read the table and its transaction is still open."""
    connection = await asyncpg.connect(url, server_settings={"application_name": "monthly report"})
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(statement)
    try:
        yield connection, connection.get_server_pid()
    finally:
        await connection.close()


class Waits:
    """What a migration said while it waited."""

    def __init__(self) -> None:
        self.seen: list[LockWait] = []
        self._another = asyncio.Event()

    def __call__(self, wait: LockWait) -> None:
        self.seen.append(wait)
        self._another.set()

    async def another(self) -> LockWait:
        """Wait until it has been rolled back once more."""
        self._another.clear()
        async with asyncio.timeout(60):
            await self._another.wait()
        return self.seen[-1]

    @property
    def blockers(self) -> set[BlockingSession]:
        """Every session that was named, without how long it had been there."""
        return {replace(blocker, open_s=None) for wait in self.seen for blocker in wait.blockers}


async def test_readers_come_through_while_a_migration_waits_for_a_long_report(live: Database) -> None:
    waits = Waits()
    async with report(live.url) as (_, pid):
        migrating = asyncio.create_task(migrate(live, [*OURS, NEXT], on_wait=waits))
        while len(waits.seen) < 3 or not waits.blockers:
            await waits.another()
            # It may meet an attempt of the migration, and then waits for that; never for the report.
            async with asyncio.timeout(30), live.transaction(None) as connection:
                await connection.execute("SET LOCAL lock_timeout = 0")
                await connection.fetchval(REPORT)
        assert not migrating.done()
    assert await asyncio.wait_for(migrating, 60) == [NEXT]
    (blocker,) = {blocker for blocker in waits.blockers if blocker.pid == pid}
    assert (blocker.user, blocker.application) == (OWNER, "monthly report")
    assert (blocker.state, blocker.query) == ("idle in transaction", REPORT)
    assert blocker.lock == "AccessShareLock on assent.audit_log"
    assert str(waits.seen[-1]).startswith(f"Migration {NEXT} waits for a lock, ")


async def test_migration_that_waited_too_long_names_the_sessions_and_changes_nothing(live: Database) -> None:
    before = await status(live)
    impatient = await Database.open(live.url, settings=SETTINGS.replace(migration_wait_max_ms=0))
    async with report(live.url) as (_, pid):
        with pytest.raises(
            StoreError, match=rf"(?s)pid {pid} .*monthly report.*ASSENT_MIGRATION_WAIT_MAX_MS"
        ):
            await migrate(impatient, [*OURS, NEXT])
        await impatient.close()
        assert await status(live) == before
    assert await migrate(live, [*OURS, NEXT]) == [NEXT]


async def test_command_says_on_standard_error_what_it_waits_for(live: Database, tmp_path: Path) -> None:
    release = await asyncio.to_thread(ReleaseFolder.make, tmp_path / "release", SQL)
    variables = {"ASSENT_MIGRATION_LOCK_TIMEOUT_MS": "1000", "ASSENT_MIGRATION_WAIT_MAX_MS": "0"}

    async def run(**more: str) -> Any:
        return await asyncio.to_thread(release.run, "migrate", "--json", url=live.url, **variables | more)

    async with report(live.url) as (_, pid):
        refused = await run()
        assert (refused.returncode, refused.stdout) == (1, "")
        assert f"pid {pid} (assent, monthly report, idle in transaction" in refused.stderr
        assert "Traceback" not in refused.stderr
        waiting = asyncio.create_task(run(ASSENT_MIGRATION_WAIT_MAX_MS="60000"))
        async with asyncio.timeout(60), live.glance() as connection:
            while not await connection.fetchval(WAITING):
                await connection.execute("SELECT pg_stat_clear_snapshot()")
            while await connection.fetchval(WAITING):  # its first attempt is rolled back
                await connection.execute("SELECT pg_stat_clear_snapshot()")
    done = await waiting
    assert done.returncode == 0, done.stderr
    assert "Others go first; trying again." in done.stderr


async def test_lock_of_migrations_is_none_of_the_session(empty_database_url: str) -> None:
    """Behind a pooler in transaction mode a session outlives its client, and keeps the locks that are the session's."""
    look = "CREATE TABLE assent.seen AS SELECT pg_advisory_unlock(7310868735421117) AS of_the_session"
    await migrate(empty_database_url, [Migration(1, "look", look)])
    connection = await asyncpg.connect(empty_database_url)
    assert await connection.fetchval("SELECT of_the_session FROM assent.seen") is False
    await connection.close()


async def test_partitions_wait_as_migrations_do(live: Database) -> None:
    months = "SELECT count(*) FROM assent.workflow_events_outbox"
    waits = Waits()
    async with report(live.url, months) as (_, pid):
        with pytest.raises(StoreError, match=f"Making partitions waits for a lock.*\n  pid {pid} "):
            await ensure_partitions(live, 9, wait_max_ms=0)
        making = asyncio.create_task(ensure_partitions(live, 9, wait_max_ms=60_000, on_wait=waits))
        await waits.another()
    assert await asyncio.wait_for(making, 60) > 0
