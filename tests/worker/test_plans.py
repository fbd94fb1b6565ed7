"""Plans: a batch is found by index, so that its cost does not grow with history."""

import pytest

from assent.store.queries import load_queries
from assent.worker.compact import KEPT_KEYS
from assent.worker.plans import look_up_by_index

STATEMENTS = {
    "timers.sql": ("claim_due_steps", (500,)),
    "released.sql": ("release_effects", (500, None)),
    "prune.sql": ("prune_events", (90, 5_000)),
    "compact.sql": ("compact_steps", (12, 2_000, list(KEPT_KEYS))),
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


@pytest.mark.parametrize("file", STATEMENTS)
async def test_no_table_is_read_as_a_whole(database, file):
    name, arguments = STATEMENTS[file]
    async with database.transaction(None) as connection:
        await look_up_by_index(connection)
        found = await plan(connection, getattr(load_queries("assent.worker", file), name), arguments)
    assert "Seq Scan" not in found
    assert "Hash" not in found


async def test_by_its_own_plan_the_database_would_read_all_of_them(database):
    """What `look_up_by_index` is for; when this fails, it may go."""
    sql = load_queries("assent.worker", "timers.sql").claim_due_steps
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
