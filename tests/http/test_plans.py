"""What is asked again and again goes by an index, whatever the planner believes."""

import re

import pytest

from assent.audit.entries import AuditFilter, search_audit
from assent.http.changes import Topic, look_at_inboxes
from assent.store.queries import load_queries
from tests.postgres import START

SEATS = """
INSERT INTO assent.workflow_seats (org_id, id, request_id, instance_id, user_id, group_name, position, via, status)
SELECT 'acme', md5('t' || n)::uuid, md5('r' || n)::uuid, md5('i' || n)::uuid, 'u' || n % 100, 'finance', 1, 'role:x',
       CASE WHEN n % 2 = 0 THEN 'open' ELSE 'decided' END
  FROM generate_series(1, 4000) n
"""
AUDIT = """
INSERT INTO assent.audit_log (org_id, id, at, actor_id, actor_kind, actor_roles, action, entity_type, entity_id,
       to_version, to_state, changes, channel)
SELECT 'acme', gen_random_uuid(), assent.now(), 'u' || n % 200, 'user', '{}', 'invoice.update', 'invoice',
       md5((n % 200)::text)::uuid, 1, 'draft', '{}', 'test'
  FROM generate_series(1, 8000) n
"""


async def _plan(connection, sql, arguments, kind):
    await connection.execute(f"SET LOCAL plan_cache_mode = force_{kind}_plan")
    await connection.execute(f"PREPARE asked AS {sql}")
    try:
        rows = await connection.fetch(f"EXPLAIN (ANALYZE, TIMING off, COSTS off) EXECUTE asked({arguments})")
    finally:
        await connection.execute("DEALLOCATE asked")
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("kind", ["generic", "custom"])
@pytest.mark.parametrize("analyzed", [True, False], ids=["analyzed", "unknown"])
async def test_a_look_at_inboxes_reads_the_seats_of_those_who_listen_and_no_others(furnished, kind, analyzed):
    async with furnished.transaction(None) as connection:
        await connection.execute(SEATS)
        if analyzed:
            await connection.execute("ANALYZE assent.workflow_seats")
        sql = load_queries("assent.http", "changes.sql").look_at_inboxes
        asked = f"'{{acme,acme}}', '{{u2,u4}}', '{START.isoformat()}', '{{NULL,NULL}}'"
        plan = await _plan(connection, sql, asked, kind)
    (seats,) = re.findall(r"using seats_open on workflow_seats \S+ \(actual rows=(\d+)\S* loops=2", plan)
    assert int(seats) == 40, plan


async def test_an_inbox_without_seats_has_a_word_of_its_own(furnished):
    async with furnished.transaction(None) as connection:
        found = await look_at_inboxes(connection, [Topic("acme", "bob"), Topic("globex", "bob")], START)
    assert set(found.values()) == {"0 None"}


@pytest.mark.parametrize(
    "wanted",
    [
        AuditFilter(actor_id="u5"),
        AuditFilter(entity_id="8f14e45f-ceea-167a-5a36-dedd4bea2543"),
        AuditFilter(),
    ],
)
async def test_a_search_stops_when_its_page_is_full_however_often_it_was_asked(furnished, wanted):
    async with furnished.transaction(None) as connection:
        await connection.execute(AUDIT)
        await connection.execute("ANALYZE assent.audit_log")
    async with furnished.transaction("acme") as connection:
        for _ in range(8):
            await search_audit(connection, "acme", wanted, None, 11)
        read = await connection.fetchval(
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'audit_log'"
        )
    assert read <= 8 * 12
