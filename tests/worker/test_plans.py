"""Plans: a batch is found by index, so that its cost does not grow with history."""

import json
from dataclasses import MISSING, fields
from datetime import timedelta
from uuid import UUID

import pytest

from assent.effects.claimed_effect import ClaimedEffect
from assent.jobs.job import JOB_COLUMNS
from assent.requests.deliveries import ClaimedDelivery
from assent.store.claim_floor import BEGINNING
from assent.store.queries import load_queries
from assent.tasks.claimed_task import ClaimedTask
from assent.worker.duty import look_up_by_index
from assent.worker.upkeep import KEPT_KEYS

STATEMENTS = {
    "claim_due_steps": ("worker", (500,)),
    "lock_expired_leases": ("leases", (500,)),
    "prune_events": ("worker", (90, 5_000)),
    "compact_steps": ("worker", (12, 2_000, list(KEPT_KEYS))),
}
FILES = {
    "worker": load_queries("assent.worker", "worker.sql"),
    "leases": load_queries("assent.jobs", "leases.sql"),
}


async def plan(connection, sql, arguments) -> str:
    return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {sql}", *arguments))


async def fill(connection, number: int) -> None:
    """So many steps and events that reading all of them would be cheap beside many lookups."""
    await connection.execute(
        "INSERT INTO assent.workflow_step_executions (org_id, created_at, id, instance_id, node_id, node_type,"
        " token_id, entity_version, idempotency_key, resume_at) SELECT 'acme', assent.now(), gen_random_uuid(),"
        " gen_random_uuid(), 'n', 'form', 't', 0, g::text, assent.now() FROM generate_series(1, $1) g",
        number,
    )
    await connection.execute("ANALYZE assent.workflow_step_executions")


RUNTIME = load_queries("assent.runtime", "runtime.sql")
JOBS = load_queries("assent.jobs", "jobs.sql")
CLAIMS = {
    "find_lanes": ("effect", "", "", -1, 500, BEGINNING),
    "claim_jobs": (
        "effect",
        ["acme"],
        ["one.example"],
        [128],
        100,
        100,
        8,
        UUID(int=1),
        False,
        timedelta(seconds=20),
        BEGINNING,
    ),
    "settle_jobs_if_claimed": ([], UUID(int=1)),
}


@pytest.mark.parametrize("name", CLAIMS)
async def test_no_backlog_of_effects_is_read_as_a_whole(database, name):
    """Ten thousand wait for one destination; a claim looks at as many as it may take."""
    async with database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.jobs (org_id, id, kind, lane, attempts_max)"
            " SELECT 'acme', gen_random_uuid(), 'effect', 'one.example', 8 FROM generate_series(1, 10000) g"
        )
        await connection.execute("ANALYZE assent.jobs")
        await look_up_by_index(connection)
        found = await plan(connection, getattr(JOBS, name), CLAIMS[name])
    assert "Seq Scan on jobs" not in found
    if name != "settle_jobs_if_claimed":
        assert "jobs_to_run" in found


LOADS: dict[str, tuple[type, str, slice]] = {
    "assent.tasks tasks.sql read_submissions": (ClaimedTask, "input", slice(None)),
    "assent.effects effects.sql read_effects": (ClaimedEffect, "instance_id", slice(None)),
    "assent.requests requests.sql read_deliveries": (ClaimedDelivery, "request_id", slice(1, 3)),
}


@pytest.mark.parametrize("statement", LOADS)
async def test_columns_of_claimed_jobs_stand_in_the_order_of_their_fields(database, statement):
    """They are handed on by position; what has a default is set by name."""
    kind, first, by_position = LOADS[statement]
    package, file, name = statement.split()
    async with database.transaction(None) as connection:
        claim = await connection.prepare(JOBS.claim_jobs)
        load = await connection.prepare(getattr(load_queries(package, file), name))
        columns = [column.name for column in claim.get_attributes()][:JOB_COLUMNS]
        columns += [column.name for column in load.get_attributes()][by_position]
    given, rest = fields(kind)[: len(columns)], fields(kind)[len(columns) :]
    assert columns == [field.name for field in given]
    assert all(field.default is not MISSING for field in rest)
    assert columns[JOB_COLUMNS] == first


@pytest.mark.parametrize("name", STATEMENTS)
async def test_no_table_is_read_as_a_whole(database, name):
    file, arguments = STATEMENTS[name]
    async with database.transaction(None) as connection:
        await look_up_by_index(connection)
        found = await plan(connection, getattr(FILES[file], name), arguments)
    assert "Seq Scan" not in found
    assert "Hash" not in found


async def test_by_its_own_plan_the_database_would_read_all_of_them(database):
    """What `look_up_by_index` is for; when this fails, it may go."""
    sql = load_queries("assent.worker", "worker.sql").claim_due_steps
    async with database.transaction(None) as connection:
        await fill(connection, 3_000)
        assert "Seq Scan" in await plan(connection, sql, (500,))
        await look_up_by_index(connection)
        assert "Seq Scan" not in await plan(connection, sql, (500,))


async def test_settings_end_with_their_transaction(database):
    async with database.transaction(None) as connection:
        before = await connection.fetchval("SHOW enable_hashjoin")
        await look_up_by_index(connection)
        assert await connection.fetchval("SHOW enable_hashjoin") == "off"
    async with database.transaction(None) as connection:
        assert await connection.fetchval("SHOW enable_hashjoin") == before == "on"


QUIET = """
INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, instance_id, event_type, event_idempotency_key,
       status, completed_at)
SELECT 'org' || n % 50, assent.now(), gen_random_uuid(), gen_random_uuid(), 'on_poke', n::text, 'completed',
       assent.now()
  FROM generate_series(1, 5000) AS n
"""
BURST = """
INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, instance_id, event_type, payload_json,
       event_idempotency_key)
SELECT 'org' || n % $1, assent.now(), gen_random_uuid(), CASE WHEN $2 THEN gen_random_uuid() END,
       CASE WHEN $2 THEN 'on_poke' ELSE 'on_event' END, '{"key": "k"}', 'new' || n FROM generate_series(1, 4000) AS n
RETURNING org_id, instance_id
"""
BATCH = 50
PAGES_OF_A_ROW = 60
"""A row is looked for in each partition, by one step in an index of each: not in whatever is open."""


async def pages_read(connection, sql, *arguments) -> int:
    """Return how many pages a statement reads whose functions are planned."""
    await connection.fetch(sql, *arguments)
    (row,) = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT json) {sql}", *arguments)
    found = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return found[0]["Plan"]["Shared Hit Blocks"] + found[0]["Plan"]["Shared Read Blocks"]


@pytest.mark.parametrize("orgs", [1, 4000])
async def test_burst_of_events_on_a_quiet_server_is_not_read_again_for_each_row(database, orgs):
    """The statistics say that nothing is open, as they do after each quiet hour."""
    async with database.transaction(None) as connection:
        await connection.execute(QUIET)
        await connection.execute("ANALYZE assent.workflow_events_outbox")
        places = (await connection.fetch(BURST, orgs, True))[:BATCH]
        await connection.fetch(BURST, orgs, False)
        read = {
            name: await pages_read(connection, getattr(RUNTIME, name), BATCH, "", BEGINNING)
            for name in ("claim_instances", "claim_arrivals")
        }
        names = [row["org_id"] for row in places], [row["instance_id"] for row in places]
        read["load_open_events"] = await pages_read(connection, RUNTIME.load_open_events, *names)
        if orgs == 1:
            command = "org0", ["instance"] * BATCH, names[1], ["ann"] * BATCH, False
            read["open_targets"] = await pages_read(connection, RUNTIME.open_targets, *command)
    assert {name: pages for name, pages in read.items() if pages > BATCH * PAGES_OF_A_ROW} == {}
