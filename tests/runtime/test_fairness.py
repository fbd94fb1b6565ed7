"""Fairness: one org's backlog is not another org's wait."""

from datetime import timedelta
from typing import Any

import pytest

from assent.runtime import Runtime
from assent.runtime.event_processor import EventProcessor
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.authored import END, arrows, script
from tests.runtime.test_events import wait
from tests.world import ANN, publish_steps, rows

BACKLOG = """
INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, instance_id, event_type, payload_json,
       event_idempotency_key)
SELECT 'big', $1::timestamptz + n * interval '1 microsecond', gen_random_uuid(),
       CASE WHEN $2 THEN gen_random_uuid() END,
       CASE WHEN $2 THEN 'on_start' ELSE 'on_event' END,
       CASE WHEN $2 THEN '{"flow": "quick", "actor": "ann"}' ELSE jsonb_build_object('key', 'k' || n) END, n::text
  FROM generate_series(1, 50000) AS n
"""


@pytest.mark.parametrize("small", ["aaa", "zzz"])
@pytest.mark.parametrize("started", [True, False], ids=["starts", "arrivals"])
async def test_backlog_of_one_org_does_not_make_another_wait(
    runtime: Runtime, database: Database, clock: MovedClock, small: str, started: bool
) -> None:
    """Fifty thousand events of one org were there first; the single one of another is handled within two batches."""
    processor = EventProcessor(runtime.core)
    steps = [wait("a"), END]
    for org in ("big", small):
        await publish_steps(database, "paid", steps, arrows("a", "end"), org=org)
        await publish_steps(database, "quick", [script("one"), END], arrows("one", "end"), org=org)
    view = await runtime.org(small, ANN).instances.start("paid", {"order": "7"})
    async with database.transaction(None) as connection:
        await connection.execute(BACKLOG, clock.now(), started)
    clock.advance("1h")
    if started:
        await runtime.org(small, ANN).instances.start_many("quick", [{}])
    else:
        await runtime.org(small).events.emit("a:7")
    handled = [await processor.process_events(200) for _ in range(2)]
    assert sum(handled) <= 2 * 200 + 2
    mine = [row for row in await rows(database, "workflow_instances") if row["org_id"] == small]
    done = [row["workflow_id"] for row in mine if row["status"] == "completed"]
    assert done == ["quick" if started else "paid"], view.id


QUIET = """
INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, instance_id, event_type, payload_json,
       event_idempotency_key, retry_at, status)
SELECT 'quiet' || n, $1, gen_random_uuid(), gen_random_uuid(), 'on_poke', '{}', n::text, $2::text::timestamptz,
       CASE WHEN $2 = 'infinity' THEN 'pending' ELSE 'failed' END
  FROM generate_series(1, 9) AS n
"""
ONE_EACH = """
INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, instance_id, event_type, payload_json,
       event_idempotency_key, retry_at)
SELECT 'org' || n, $1::timestamptz + n * interval '1 microsecond', gen_random_uuid(),
       CASE WHEN $2 THEN gen_random_uuid() END,
       CASE WHEN $2 THEN 'on_poke' ELSE 'on_event' END,
       CASE WHEN $2 THEN '{"cause": "x", "actor": "ann"}' ELSE jsonb_build_object('key', 'k') END, n::text,
       -- Some were tried before and are due again; arrivals are never put off.
       CASE WHEN $2 AND n % 3 = 0 THEN $1::timestamptz END
  FROM generate_series(1, 2000) AS n
"""


@pytest.mark.parametrize("again_at", ["infinity", "tomorrow"])
async def test_org_whose_events_wait_takes_no_share_of_a_batch(
    runtime: Runtime, database: Database, clock: MovedClock, again_at: str
) -> None:
    """Nine orgs have events that are not due, by a pause or by a retry: another org's batch is full all the same."""
    processor = EventProcessor(runtime.core)
    await publish_steps(database, "quick", [script("one"), END], arrows("one", "end"), org="busy")
    moment = again_at if again_at == "infinity" else (clock.now() + timedelta(days=1)).isoformat()
    async with database.transaction(None) as connection:
        await connection.execute(QUIET, clock.now(), moment)
    await runtime.org("busy", ANN).instances.start_many("quick", [{} for _ in range(30)])
    assert await processor.process_events(20) == 20
    assert await processor.process_events(20) == 10


@pytest.mark.without_twin
@pytest.mark.parametrize("of_instances", [True, False], ids=["instances", "arrivals"])
async def test_one_event_in_each_of_many_orgs_is_many_batches(
    runtime: Runtime, database: Database, clock: MovedClock, of_instances: bool
) -> None:
    """Two thousand orgs with one event each and batches of 200: ten batches, and every org is served in its turn."""
    async with database.transaction(None) as connection:
        await connection.execute(ONE_EACH, clock.now(), of_instances)
    processor = EventProcessor(runtime.core)
    work = processor.process_events if of_instances else processor.route_arrivals
    handled = []
    for number in range(1, 11):
        handled.append(await work(200))
        done = [
            row["org_id"] for row in await rows(database, "workflow_events_outbox") if row["completed_at"]
        ]
        assert len(set(done)) == 200 * number
    assert [*handled, await work(200)] == [200] * 10 + [0]
    left = [row for row in await rows(database, "workflow_events_outbox") if row["status"] != "completed"]
    assert left == []


@pytest.mark.without_twin
@pytest.mark.parametrize("orgs", [100, 2_000])
async def test_claim_locks_no_more_instances_than_its_batch_holds(
    runtime: Runtime, database: Database, clock: MovedClock, orgs: int
) -> None:
    """Advisory locks and notes of a batch follow its limit, not the orgs that have work."""
    processor = EventProcessor(runtime.core)
    async with database.transaction(None) as connection:
        await connection.execute(ONE_EACH.replace("2000", str(orgs)), clock.now(), True)
    locks: list[int] = []
    works: list[int] = []
    advance = runtime.core.advancing.advance

    async def counted(connection: Any, items: Any, *given: Any, **more: Any) -> Any:
        sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        locks.append(await connection.fetchval(sql))
        works.append(len(items))
        return await advance(connection, items, *given, **more)

    runtime.core.advancing.advance = counted  # type: ignore[method-assign]
    assert await processor.process_events(50) == 50
    assert locks == [50 + 1]  # the instances, and the batch's own
    assert works == [50]


@pytest.mark.without_twin
async def test_orgs_whose_instances_are_all_busy_do_not_hide_the_others(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    """Another worker holds the first 20 orgs' instances: a claim of 10 orgs goes on until it finds a free one."""
    processor = EventProcessor(runtime.core)
    async with database.transaction(None) as connection:
        await connection.execute(ONE_EACH, clock.now(), True)
    async with database.transaction(None) as other:
        await other.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(instance_id::text, 0)) FROM (SELECT instance_id"
            " FROM assent.workflow_events_outbox ORDER BY org_id LIMIT 20) AS held"
        )
        assert await processor.process_events(10) == 10
    done = [row["org_id"] for row in await rows(database, "workflow_events_outbox") if row["completed_at"]]
    assert len(done) == 10


@pytest.mark.without_twin
async def test_every_org_gets_its_turn_under_steady_work_of_all(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    """Each org always has more: batches of 10 orgs out of 40 serve all of them within four."""
    processor = EventProcessor(runtime.core)
    async with database.transaction(None) as connection:
        for _ in range(5):
            await connection.execute(ONE_EACH.replace("2000", "40"), clock.now(), True)
            clock.advance("1s")
    for _ in range(4):
        assert await processor.process_events(10) == 10
    done = {row["org_id"] for row in await rows(database, "workflow_events_outbox") if row["completed_at"]}
    assert len(done) == 40
