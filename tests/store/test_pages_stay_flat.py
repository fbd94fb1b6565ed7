"""Pages and duties read a bounded number of rows, however long the history of an org is."""

import json
import re
from datetime import timedelta

import pytest

from assent.store.queries import load_queries
from bench.population import LARGE_ORG, Population, populate
from tests.postgres import START

RUNTIME = load_queries("assent.runtime", "runtime.sql")
OPERATIONS = load_queries("assent.operations", "operations.sql")
AUDIT = load_queries("assent.audit", "audit.sql")

SIZE = Population(large=6_000, small=100, small_orgs=20)
ROWS_MAX = 500
"""A page of fifty, and what lies around it; the large org has 6,000 instances and 12,000 audit entries."""

PAGE = 51
FIRST_ID = "00000000-0000-0000-0000-000000000000"
ALL_READABLE = (False, [], True, [], "u1", START)

OPEN = """
SELECT (SELECT count(*) FROM assent.workflow_instances WHERE status = 'running' AND coalesce(org_id = $1, true))
     + (SELECT count(*) FROM assent.workflow_step_executions WHERE status = 'pending' AND coalesce(org_id = $1, true))
     + (SELECT count(*) FROM assent.workflow_events_outbox
         WHERE status IN ('pending', 'failed', 'processing') AND coalesce(org_id = $1, true))
"""
FORGET_ONE_STEP = """
UPDATE assent.workflow_step_executions SET status = 'cancelled' WHERE (org_id, id) = (
  SELECT org_id, id FROM assent.workflow_step_executions WHERE org_id = $1 AND status = 'pending' LIMIT 1)
RETURNING instance_id
"""

PAGES = {
    "running": (RUNTIME.list_instances, (["running"], *[None] * 5, PAGE, None, *ALL_READABLE)),
    "running and paused": (
        RUNTIME.list_instances,
        (["running", "paused"], *[None] * 5, PAGE, None, *ALL_READABLE),
    ),
    "newest": (RUNTIME.list_instances, (None, *[None] * 5, PAGE, None, *ALL_READABLE)),
    "audit by action": (
        AUDIT.search_audit,
        (None, None, None, "cancel", *[None] * 6, [], None, FIRST_ID, PAGE),
    ),
    "incidents": (OPERATIONS.page_of_incidents, (*[None] * 7, PAGE)),
}


@pytest.fixture
async def populated(database):
    async with database.transaction(None) as connection:
        await populate(connection, SIZE)
    return database


async def _rows_read(connection, sql, *given) -> tuple[int, str]:
    (row,) = await connection.fetch(f"EXPLAIN (ANALYZE, TIMING off, FORMAT json) {sql}", *given)
    found = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return round(_read(found[0]["Plan"])), json.dumps(found, indent=1)


def _read(plan) -> float:
    """Rows that scans of tables and indexes looked at, those that a filter removed among them."""
    own = 0.0
    if re.search(r"^(Seq|Index|Index Only|Bitmap Heap) Scan$", plan["Node Type"]):
        own = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    return own + sum(_read(part) for part in plan.get("Plans", []))


async def test_pages_of_the_large_org_read_no_history(populated):
    async with populated.transaction(LARGE_ORG) as connection:
        read = {
            name: (await _rows_read(connection, sql, LARGE_ORG, *filters))[0]
            for name, (sql, filters) in PAGES.items()
        }
    assert {name: rows for name, rows in read.items() if rows > ROWS_MAX} == {}


async def test_latency_of_an_org_is_read_from_its_own_latest_events(populated):
    async with populated.transaction("o00001") as connection:
        since = await connection.fetchval("SELECT assent.now() - interval '1 hour'")
        await connection.execute(OPERATIONS.find_by_index)
        rows, plan = await _rows_read(connection, OPERATIONS.look_at_latency, since, 10_000, None, "o00001")
    assert 0 < rows <= SIZE.small, plan
    assert "org_id_completed_at_idx" in plan


@pytest.mark.parametrize("org_id", [LARGE_ORG, None])
async def test_search_for_stuck_instances_reads_what_is_open_once(populated, org_id):
    async with populated.transaction(None) as connection:
        given = org_id, timedelta(0), 100, None
        rows, plan = await _rows_read(connection, OPERATIONS.find_stuck_instances, *given)
        open_number = await connection.fetchval(OPEN, org_id)
    # Beside what is open, an org's first instance where the search goes from org to org.
    assert SIZE.large // 100 <= open_number
    assert rows <= open_number + 4 * (SIZE.small_orgs + 2), plan


async def test_only_instances_that_nothing_moves_are_stuck(populated):
    async with populated.transaction(None) as connection:
        given = LARGE_ORG, timedelta(0), 100, None
        assert await connection.fetch(OPERATIONS.find_stuck_instances, *given) == []
        lost = await connection.fetchval(FORGET_ONE_STEP, LARGE_ORG)
        found = await connection.fetch(OPERATIONS.find_stuck_instances, *given)
    assert [row["instance_id"] for row in found] == [lost]
