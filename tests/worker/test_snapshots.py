"""Claims while another session holds a snapshot open: VACUUM may remove no entry of what was claimed since.

What a claim reads is counted in pages, by EXPLAIN (ANALYZE, BUFFERS).
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from assent.jobs.queue import JobQueue, prepare_claim
from assent.runtime import Runtime
from assent.runtime.event_processor import EventProcessor
from assent.store import claim_floor
from assent.store.claim_floor import BEGINNING, ClaimFloor
from assent.store.clock import MovedClock
from assent.store.connection import connect
from assent.store.database import Connection, Database
from assent.store.queries import load_queries
from tests.postgres import SETTINGS
from tests.world import rows

pytestmark = pytest.mark.without_twin

JOBS = load_queries("assent.jobs", "jobs.sql")
RUNTIME = load_queries("assent.runtime", "runtime.sql")
DEAD = 20_000
TABLE_PAGES = 400
"""More entries than so many pages of the table hold were claimed."""

FILL_JOBS = """
INSERT INTO assent.jobs (org_id, id, kind, lane, attempts_max, run_at)
SELECT 'acme', gen_random_uuid(), 'task', 'tests.note', 5, $1::timestamptz + n * interval '1 microsecond'
  FROM generate_series(1, $2) AS n
"""
TAKE_JOBS = """
UPDATE assent.jobs SET status = 'running', worker_id = gen_random_uuid(), attempts = 1 WHERE run_at <= $1
"""
FILL_EVENTS = """
INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, instance_id, event_type, payload_json,
       event_idempotency_key)
SELECT 'acme', $1::timestamptz + n * interval '1 microsecond', gen_random_uuid(),
       CASE WHEN $3 THEN gen_random_uuid() END, CASE WHEN $3 THEN 'on_poke' ELSE 'on_event' END,
       jsonb_build_object('cause', n, 'key', 'k'), $1::timestamptz || ' ' || n
  FROM generate_series(1, $2) AS n
"""
TAKE_EVENTS = """
UPDATE assent.workflow_events_outbox SET status = 'completed', completed_at = $1 WHERE created_at <= $1
"""


@asynccontextmanager
async def snapshot(database: Database) -> AsyncIterator[None]:
    """A session that reads, as a dump does, and lets VACUUM remove nothing."""
    report = await connect(database.url, SETTINGS)
    await report.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await report.fetchval("SELECT count(*) FROM assent.jobs")
    try:
        yield
    finally:
        await report.close()


async def pages(connection: Connection, sql: str, *arguments: object) -> int:
    """How many pages a statement read."""
    text = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {sql}", *arguments)
    plan: dict[str, Any] = (text if isinstance(text, list) else json.loads(text))[0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


async def vacuum(database: Database, table: str) -> None:
    connection = await connect(database.url, SETTINGS)
    await connection.execute(f"VACUUM ANALYZE assent.{table}")
    await connection.close()


async def test_claim_of_jobs_reads_no_entries_of_what_was_claimed(
    database: Database, clock: MovedClock
) -> None:
    start = clock.now()
    floor = start + timedelta(seconds=1)
    async with database.transaction(None) as connection:
        await connection.execute(FILL_JOBS, start, DEAD)
    async with snapshot(database):
        async with database.transaction(None) as connection:
            await connection.execute(TAKE_JOBS, floor)
            await connection.execute(FILL_JOBS, floor, 100)
        await vacuum(database, "jobs")
        clock.advance("1h")
        found: dict[datetime, list[int]] = {}
        for time in (BEGINNING, floor):
            look = ("task", "", "", -1, 500, time)
            claim = ("task", ["acme"], ["tests.note"], [128], 50, 50, None, uuid4(), False, timedelta(), time)
            connection = await connect(database.url, SETTINGS)
            await connection.execute("BEGIN")
            await connection.execute("SELECT set_config('assent.now', $1, true)", clock.now().isoformat())
            await prepare_claim(connection)
            found[time] = [
                await pages(connection, JOBS.find_lanes, *look),
                await pages(connection, JOBS.claim_jobs, *claim),
            ]
            await connection.execute("ROLLBACK")
            await connection.close()
    (whole_look, whole_claim), (look, claim) = found[BEGINNING], found[floor]
    # A look passes the entries of the lane inside of the index, and reads no row of the table for them.
    assert whole_look > TABLE_PAGES
    assert look < whole_look / 3
    # A claim begins behind them. It reads pages for each row that it updates, with and without a floor.
    assert whole_claim - claim > TABLE_PAGES


@pytest.mark.parametrize("of_instances", [True, False], ids=["instances", "arrivals"])
async def test_claim_of_events_reads_no_entries_of_what_was_processed(
    database: Database, clock: MovedClock, of_instances: bool
) -> None:
    statement = RUNTIME.claim_instances if of_instances else RUNTIME.claim_arrivals
    start = clock.now()
    floor = start + timedelta(seconds=1)
    async with database.transaction(None) as connection:
        await connection.execute(FILL_EVENTS, start, DEAD, of_instances)
    async with snapshot(database):
        async with database.transaction(None) as connection:
            await connection.execute(TAKE_EVENTS, floor)
            await connection.execute(FILL_EVENTS, floor, 100, of_instances)
        await vacuum(database, "workflow_events_outbox")
        clock.advance("1h")
        async with database.transaction(None) as connection:
            whole = await pages(connection, statement, 20, "", BEGINNING)
            short = await pages(connection, statement, 20, "", floor)
    assert whole > TABLE_PAGES
    assert short < 60


async def test_what_is_older_than_the_floor_is_claimed_all_the_same(
    database: Database, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission whose transaction took long has a time before the floor: it is claimed when nothing else is due."""
    monkeypatch.setattr(claim_floor, "WHOLE_LOOKS", 1e-9)
    queue = JobQueue("task", uuid4())
    start = clock.now()
    clock.advance("1h")

    async def claim(connection: Connection) -> list[datetime]:
        return sorted(row["created_at"] for row in await queue.claim(connection, 10))

    async with database.transaction(None) as connection:
        await connection.execute(FILL_JOBS, start + timedelta(minutes=1), 15)
    assert len(await database.run(claim, org_id=None)) == 10
    async with database.transaction(None) as connection:
        await connection.execute(FILL_JOBS, start, 3)
    assert [len(await database.run(claim, org_id=None)) for _ in range(3)] == [5, 3, 0]


async def test_event_that_is_older_than_the_floor_is_processed_all_the_same(
    runtime: Runtime, database: Database, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_floor, "WHOLE_LOOKS", 1e-9)
    processor = EventProcessor(runtime.core)
    start = clock.now()
    clock.advance("1h")
    async with database.transaction(None) as connection:
        await connection.execute(FILL_EVENTS, start + timedelta(minutes=1), 15, True)
    assert await processor.process_events(10) == 10
    async with database.transaction(None) as connection:
        await connection.execute(FILL_EVENTS, start, 3, True)
    assert [await processor.process_events(10) for _ in range(3)] == [5, 3, 0]
    assert {row["status"] for row in await rows(database, "workflow_events_outbox")} == {"completed"}


async def test_looks_from_the_beginning_take_a_twentieth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of the test's: a look from the beginning takes a second, one from the floor nothing."""
    now_s = 0.0
    monkeypatch.setattr("assent.store.claim_floor.time.monotonic", lambda: now_s)
    floor, begun = ClaimFloor(), []
    first = datetime.fromisoformat("2026-01-01T00:00:00+00:00")

    async def find(since: datetime) -> tuple[list[str], datetime]:
        nonlocal now_s
        begun.append(since)
        now_s += 1 if since == BEGINNING else 0
        return ["due"], first

    for _ in range(210):
        await floor.look(find)
        now_s += 0.1
    assert begun.count(BEGINNING) == 2
    assert begun.count(first) == 208
