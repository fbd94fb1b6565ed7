"""The inbox reads what is open, and nothing of what was decided, whatever the planner believes."""

import re

import pytest

from assent.store.queries import load_queries
from tests.postgres import START

SQL = load_queries("assent.people", "people.sql")

REQUESTS = 4_000
OPEN_EACH = 100
"""One request of so many is open."""

FILLING = (
    """
    INSERT INTO assent.workflow_instances (org_id, id, definition_id, definition_version, definition_hash, workflow_id,
           subject_id)
    SELECT 'acme', md5('i' || n)::uuid, md5('d')::uuid, 1, 'h', 'invoice', 'ann'
      FROM generate_series(1, $1::integer) n WHERE $2::integer > 0
    """,
    """
    INSERT INTO assent.approval_requests (org_id, id, instance_id, step_id, node_id, entity_version,
           approvers, requested_by, status)
    SELECT 'acme', md5('r' || n)::uuid, md5('i' || n)::uuid, md5('s' || n)::uuid, 'review', 0, '[]', 'ann',
           CASE WHEN n % $2::integer = 0 THEN 'pending' ELSE 'rejected' END
      FROM generate_series(1, $1::integer) n
    """,
    """
    INSERT INTO assent.workflow_seats (org_id, id, request_id, instance_id, user_id, group_name, position, via, status,
           created_at)
    SELECT 'acme', md5('t' || n)::uuid, md5('r' || n)::uuid, md5('i' || n)::uuid, 'fay', 'finance', 1, 'role:finance',
           CASE WHEN n % $2::integer = 0 THEN 'open' ELSE 'decided' END, assent.now() + n * interval '1 second'
      FROM generate_series(1, $1::integer) n
    """,
)

NO_FILTERS = "null, null, null, null, null, null, null, null"
OWNERS = '[{"user_id": "fay", "present": true, "roles": ["finance"]}]'
READER = f"'acme', 'fay', '{START.isoformat()}', '{OWNERS}'"
FIRST_ID = "'00000000-0000-0000-0000-000000000000'"

EVERYWHERE = "null"
"""Of whichever partition."""

CALLS = {
    "page_by_age": f"{READER}, {NO_FILTERS}, '-infinity', {FIRST_ID}, 11, {EVERYWHERE}",
    "page_by_rank": f"{READER}, {NO_FILTERS}, '-Infinity', {FIRST_ID}, 11, {EVERYWHERE}, 'due'",
    "count_by_bucket": f"{READER}, {EVERYWHERE}",
}


@pytest.fixture
async def decided(staffed):
    """Much that was decided, a little that is open, and statistics that know it or do not."""
    async with staffed.transaction(None) as connection:
        for statement in FILLING:
            await connection.execute(statement, REQUESTS, OPEN_EACH)
    return staffed


async def _plan(connection, name, kind):
    await connection.execute(f"SET LOCAL plan_cache_mode = force_{kind}_plan")
    await connection.execute(f"PREPARE asked AS {getattr(SQL, name)}")
    try:
        rows = await connection.fetch(
            f"EXPLAIN (ANALYZE, TIMING off, COSTS off) EXECUTE asked({CALLS[name]})"
        )
    finally:
        await connection.execute("DEALLOCATE asked")
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("role", [None, "acme"], ids=["owner", "application"])
@pytest.mark.parametrize("kind", ["generic", "custom"])
@pytest.mark.parametrize("analyzed", [True, False], ids=["analyzed", "unknown"])
@pytest.mark.parametrize("name", CALLS)
async def test_plan_goes_by_the_open_seats_and_keys(decided, name, kind, role, analyzed):
    if analyzed:
        async with decided.transaction(None) as connection:
            await connection.execute("ANALYZE assent.workflow_seats, assent.approval_requests")
    async with decided.transaction(role) as connection:
        plan = await _plan(connection, name, kind)
    assert "Index Scan using seats_open on workflow_seats" in plan
    assert not re.search(r"Seq Scan on (workflow_|approval_(requests|decisions))", plan), plan
    assert not re.search(r"Function Scan on waiting_for", plan), plan


async def test_first_page_by_age_stops_when_it_is_full(decided):
    async with decided.transaction("acme") as connection:
        plan = await _plan(connection, "page_by_age", "generic")
    seats = re.search(r"Index Scan using seats_open on workflow_seats \S+ \(actual rows=(\d+)", plan)
    assert seats, plan
    assert int(seats[1].split(".")[0]) == 11
