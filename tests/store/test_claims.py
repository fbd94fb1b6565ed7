"""Claims of events: dated by the database, so that a claim has a beginning whichever worker makes it."""

from datetime import timedelta

from tests.postgres import START
from tests.rows import insert_event, update


async def _claimed_at(connection, row):
    return await connection.fetchval(
        "SELECT claimed_at FROM assent.workflow_events_outbox WHERE id = $1", row["id"]
    )


async def _move_time(connection, moment):
    await connection.execute("SELECT set_config('assent.now', $1, true)", moment.isoformat())


async def test_claim_is_dated_by_the_database_whoever_claims(owner):
    row = await insert_event(owner)
    assert await _claimed_at(owner, row) is None
    for hours in (1, 2):
        await _move_time(owner, START + timedelta(hours=hours))
        claimed_at = START - timedelta(days=1)
        await update(owner, "workflow_events_outbox", row, status="processing", claimed_at=claimed_at)
        assert await _claimed_at(owner, row) == START + timedelta(hours=hours)
        await update(owner, "workflow_events_outbox", row, status="pending")


async def test_what_a_worker_notes_about_its_claim_does_not_prolong_it(owner):
    row = await insert_event(owner)
    await update(owner, "workflow_events_outbox", row, status="processing")
    await _move_time(owner, START + timedelta(hours=1))
    await update(owner, "workflow_events_outbox", row, error="slow", attempts=2)
    assert await _claimed_at(owner, row) == START
