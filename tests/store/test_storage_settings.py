"""How tables are stored and vacuumed: by what is written to them, and the same for every partition."""

from assent.store.database import Database
from tests.world import fetch

OPTIONS = """
SELECT c.relname AS name, coalesce(c.reloptions, '{}') AS options
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = 'assent' AND c.relkind = 'r' AND c.reloptions IS NOT NULL
"""
COUNT_OF_ROWS_THAT_WAIT = """
SELECT autovacuum_at.dead
  FROM (SELECT 'assent.workflow_events_outbox_default'::regclass AS id) AS t
  JOIN pg_class c ON c.oid = t.id
 CROSS JOIN LATERAL (
   SELECT 5000 + 1000000 * (SELECT option_value::float8 FROM pg_options_to_table(c.reloptions)
                             WHERE option_name = 'autovacuum_vacuum_scale_factor') AS dead) AS autovacuum_at
"""

QUEUES = {
    "incoming_results",
    "workflow_batches",
    "workflow_kept_events",
    "http_replies",
    "worker_leases",
    "number_series",
    "task_progress",
    "rate_starts",
    "task_waiters",
}
WORK = {
    "jobs",
    "workflow_instances",
    "entities",
    "approval_requests",
    "workflow_seats",
    "workflow_forms",
    "outside_requests",
}
HISTORY = {
    "workflow_step_receipts",
    "workflow_outbox_receipts",
    "entity_versions",
    "audit_log",
    "approval_decisions",
    "job_attempts",
    "effects",
    "task_submissions",
    "task_log_lines",
    "outside_request_deliveries",
    "outside_request_items",
}
PARTITIONED = ("workflow_events_outbox", "workflow_step_executions")
FILLFACTORS = {
    "jobs": "70",
    "workflow_instances": "80",
    "entities": "80",
    "worker_leases": "50",
    "number_series": "50",
    "task_progress": "50",
}


async def _options(database: Database) -> dict[str, dict[str, str]]:
    rows = await fetch(database, OPTIONS)
    return {row["name"]: dict(option.split("=", 1) for option in row["options"]) for row in rows}


async def test_tables_are_vacuumed_by_how_they_are_written(database: Database) -> None:
    found = await _options(database)
    partitions = {name for name in found if name.startswith(PARTITIONED)}
    assert found.keys() == QUEUES | WORK | HISTORY | partitions
    for name in WORK | partitions:
        assert float(found[name]["autovacuum_vacuum_scale_factor"]) <= 0.01, name
        assert int(found[name]["autovacuum_vacuum_threshold"]) >= 1_000, name
    for name in QUEUES:
        assert int(found[name]["autovacuum_vacuum_threshold"]) <= 1_000, name
    for name in HISTORY:
        assert float(found[name]["autovacuum_vacuum_insert_scale_factor"]) <= 0.05, name
        assert "autovacuum_vacuum_scale_factor" not in found[name], name
    assert {
        name: options["fillfactor"] for name, options in found.items() if "fillfactor" in options
    } == FILLFACTORS


async def test_every_partition_has_the_settings_of_its_default(database: Database) -> None:
    """Also one of a month to come."""
    await fetch(database, "SELECT assent.ensure_partitions(9)")
    found = await _options(database)
    for parent in PARTITIONED:
        partitions = [name for name in found if name.startswith(parent)]
        assert len(partitions) > 9
        assert all(found[name] == found[f"{parent}_default"] for name in partitions)


async def test_a_million_events_are_vacuumed_before_many_of_them_are_dead(database: Database) -> None:
    (row,) = await fetch(database, COUNT_OF_ROWS_THAT_WAIT)
    assert row["dead"] < 20_000
