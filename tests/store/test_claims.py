"""Claims of both outboxes: dated by the database, so that a lease has a beginning whoever claims."""

from datetime import timedelta
from uuid import UUID

import pytest

from tests.postgres import START
from tests.rows import insert_effect, insert_event, update

OUTBOXES = {"workflow_events_outbox": insert_event, "workflow_side_effects_outbox": insert_effect}
WORKER = {"workflow_events_outbox": {}, "workflow_side_effects_outbox": {"worker_id": UUID(int=7)}}
NOBODY = {"workflow_events_outbox": {}, "workflow_side_effects_outbox": {"worker_id": None}}


async def _claimed_at(connection, table, row):
    sql = f"SELECT claimed_at FROM assent.{table} WHERE id = $1"  # noqa: S608 - the names are in this file
    return await connection.fetchval(sql, row["id"])


async def _move_time(connection, moment):
    await connection.execute("SELECT set_config('assent.now', $1, true)", moment.isoformat())


@pytest.mark.parametrize("table", OUTBOXES)
async def test_claim_is_dated_by_the_database_whoever_claims(owner, table):
    row = await OUTBOXES[table](owner)
    assert await _claimed_at(owner, table, row) is None
    for hours in (1, 2):
        await _move_time(owner, START + timedelta(hours=hours))
        about = {"status": "processing", "claimed_at": START - timedelta(days=1), **WORKER[table]}
        await update(owner, table, row, **about)
        assert await _claimed_at(owner, table, row) == START + timedelta(hours=hours)
        await update(owner, table, row, status="pending", **NOBODY[table])


@pytest.mark.parametrize("table", OUTBOXES)
async def test_what_a_worker_notes_about_its_claim_does_not_prolong_it(owner, table):
    row = await OUTBOXES[table](owner)
    await update(owner, table, row, status="processing", **WORKER[table])
    await _move_time(owner, START + timedelta(hours=1))
    await update(owner, table, row, error="slow", attempts=2)
    assert await _claimed_at(owner, table, row) == START
