"""Steps are the source of truth: what one was about never changes, what came of it may be added."""

from uuid import UUID

import pytest

from tests.plain_sql import IDENTITY, refused
from tests.postgres import START
from tests.rows import insert_entity, insert_step, update

TABLE = "workflow_step_executions"

SOME_ID = UUID("00000000-0000-7000-8000-000000000001")

IDENTITY_COLUMNS = {
    "org_id": "globex",
    "created_at": START.replace(day=3),
    "id": SOME_ID,
    "instance_id": SOME_ID,
    "node_id": "another",
    "node_type": "form",
    "token_id": "t2",
    "entity_version": 7,
    "run_as": "system",
    "idempotency_key": "0" * 64,
    "input_json": {"amount": 1},
    "actor_user_id": "mallory",
    "snapshot_version_id": SOME_ID,
}

EVIDENCE_COLUMNS = {
    "status": "running",
    "started_at": START,
    "completed_at": START,
    "duration_ms": 5,
    "output_json": {"chosen_edge_ids": ["e1"]},
    "error": "it rained",
    "approval_request_id": SOME_ID,
    "applied": True,
    "resume_at": START,
    "waiting_for_event_key": "paid:7",
}


async def test_every_column_of_a_step_is_either_identity_or_evidence(owner):
    columns = set((await insert_step(owner)).keys())
    assert columns == set(IDENTITY_COLUMNS) | set(EVIDENCE_COLUMNS)


@pytest.mark.parametrize("column", IDENTITY_COLUMNS)
async def test_identity_of_a_step_never_changes(owner, column):
    step = await insert_step(owner)
    async with refused(owner, IDENTITY, saying=f"step {step['id']} keeps its identity"):
        await update(owner, TABLE, step, **{column: IDENTITY_COLUMNS[column]})


@pytest.mark.parametrize("column", ["input_json", "actor_user_id", "snapshot_version_id"])
async def test_identity_that_was_given_cannot_be_taken_away(owner, column):
    entity = await insert_entity(owner)
    given = {"input_json": {"a": 1}, "actor_user_id": "ann", "snapshot_version_id": entity["version_id"]}
    step = await insert_step(owner, **given)
    async with refused(owner, IDENTITY):
        await update(owner, TABLE, step, **{column: None})


@pytest.mark.parametrize("column", EVIDENCE_COLUMNS)
async def test_evidence_of_a_step_can_be_added(owner, column):
    step = await insert_step(owner)
    assert await update(owner, TABLE, step, **{column: EVIDENCE_COLUMNS[column]}) == 1


async def test_step_does_not_move_to_another_month(owner):
    step = await insert_step(owner)
    async with refused(owner, IDENTITY):
        await update(owner, TABLE, step, created_at=START.replace(month=4))
