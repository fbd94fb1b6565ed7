"""History is inserted, never overwritten: not by the owner either."""

# ruff: noqa: S608 - the names of tables are in this file

import pytest

from tests.plain_sql import APPEND_ONLY, NOT_BY_THE_DOOR, check_deferred, refused
from tests.rows import insert_one_of_each

HISTORY = {
    "audit_log": "reason",
    "entity_versions": "created_by",
    "workflow_step_receipts": "step_id",
    "workflow_outbox_receipts": "created_at",
    "approval_decisions": "reason",
    "decision_link_uses": "used_at",
    "workflow_rule_evaluations": "trace_id",
    "outside_request_items": "kind",
    "outside_request_history": "source",
    "dead_messages": "names",
    "documents": "source_ref",
    "document_events": "notes",
    "task_submissions": "submitted_by",
    "job_attempts": "ended_at",
    "effects": "trace_id",
    "task_keys": "task_id",
    "task_throttles": "rate_key",
    "workflow_start_keys": "instance_id",
    "step_evidence": "evidence",
}
"""Tables that only grow, each with a column that nothing else protects."""

PRUNED = (
    "workflow_step_receipts",
    "workflow_outbox_receipts",
    "task_submissions",
    "job_attempts",
    "effects",
    "step_evidence",
)

DOORS = ("", "mutate", "advance", "prune")


@pytest.fixture
async def history(owner):
    await insert_one_of_each(owner, "acme")
    await check_deferred(owner)
    return owner


async def _open_door(connection, door):
    await connection.execute("SELECT set_config('assent.door', $1, true)", door)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("table", HISTORY)
async def test_history_is_not_updated_by_any_door(history, table, door):
    await _open_door(history, door)
    async with refused(history, APPEND_ONLY, saying=f"{table} is append-only: UPDATE is refused"):
        await history.execute(f"UPDATE assent.{table} SET {HISTORY[table]} = {HISTORY[table]}")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("table", HISTORY)
async def test_history_is_not_emptied_by_any_door(history, table, door):
    await _open_door(history, door)
    async with refused(history, APPEND_ONLY, saying=f"{table} is append-only: TRUNCATE is refused"):
        # Steps refer to versions, so plain TRUNCATE would be refused for that reason already.
        await history.execute(f"TRUNCATE assent.{table} CASCADE")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("table", HISTORY)
async def test_history_is_deleted_only_by_pruning_and_only_what_is_pruned(history, table, door):
    await _open_door(history, door)
    if door == "prune" and table in PRUNED:
        assert await history.execute(f"DELETE FROM assent.{table}") == "DELETE 1"
    else:
        async with refused(history, APPEND_ONLY, saying=f"{table} is append-only: DELETE is refused"):
            await history.execute(f"DELETE FROM assent.{table}")


async def test_versions_are_made_only_through_the_door(history):
    async with refused(
        history, NOT_BY_THE_DOOR, saying="INSERT of entity_versions did not come through mutate"
    ):
        await history.execute(
            "INSERT INTO assent.entity_versions SELECT org_id, gen_random_uuid(), entity_id, version + 1,"
            " entity_type, state, data, data_hash, created_at, created_by FROM assent.entity_versions"
        )
