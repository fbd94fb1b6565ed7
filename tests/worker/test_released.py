"""Released: claims whose worker is gone go back, exactly those, and those that kill workers end as dead letters."""

import asyncio
from datetime import timedelta

import pytest

from assent.store.database import Database
from assent.worker.duty import Done
from assent.worker.released import Released
from tests.rows import insert_effect, insert_event, insert_step, update
from tests.runtime.flows import rows
from tests.worker.queues import fetch, run_until_done, second_worker, with_options

KINDS = {
    "events": ("workflow_events_outbox", insert_event, "assent_events"),
    "effects": ("workflow_side_effects_outbox", insert_effect, "assent_effects"),
}
LEASE = timedelta(minutes=10)


def done_with(**parts: int) -> Done:
    return Done(sum(parts.values()), parts={"events": 0, "effects": 0, "tasks": 0, "dead_letters": 0} | parts)


async def claimed(database: Database, kind: str, **given):
    """A row as a worker leaves it that claimed it and died."""
    table, insert_row, _ = KINDS[kind]
    async with database.transaction(None) as connection:
        row = await insert_row(connection, **given)
        await update(connection, table, row, status="processing", attempts=row["attempts"] + 1)
    return row


async def rows_of(database: Database, kind: str):
    return sorted(await rows(database, KINDS[kind][0]), key=lambda row: row["id"])


@pytest.mark.parametrize("kind", KINDS)
async def test_claim_goes_back_when_its_lease_is_over_and_not_before(place, database, clock, kind):
    await claimed(database, kind)
    clock.advance(LEASE - timedelta(microseconds=1))
    assert await Released(place).run_once() == done_with()
    clock.advance(timedelta(microseconds=1))
    assert await Released(place).run_once() == done_with(**{kind: 1})
    assert await Released(place).run_once() == done_with()
    (row,) = await rows_of(database, kind)
    assert (row["status"], row["attempts"], row["next_retry_at"]) == ("pending", 1, None)
    assert "did not finish" in row["error"]


@pytest.mark.parametrize("kind", KINDS)
async def test_second_claim_has_a_lease_of_its_own(place, database, clock, kind):
    row = await claimed(database, kind)
    clock.advance("1h")
    await Released(place).run_once()
    async with database.transaction(None) as connection:
        await update(connection, KINDS[kind][0], row, status="processing")
    assert await Released(place).run_once() == done_with()
    clock.advance(LEASE)
    assert await Released(place).run_once() == done_with(**{kind: 1})


@pytest.mark.parametrize("kind", KINDS)
async def test_what_kills_every_worker_ends_as_a_dead_letter(place, database, clock, kind):
    row = await claimed(database, kind, max_attempts=2)
    clock.advance("1h")
    assert await Released(place).run_once() == done_with(**{kind: 1})
    async with database.transaction(None) as connection:
        await update(connection, KINDS[kind][0], row, status="processing", attempts=2)
    clock.advance("1h")
    assert await Released(place).run_once() == done_with(dead_letters=1)
    (row,) = await rows_of(database, kind)
    assert row["status"] == "dead_letter"


async def test_step_shows_that_its_effect_was_given_up(place, database, clock):
    async with database.transaction(None) as connection:
        step = await insert_step(connection, output_json={"evidence": {"other": {}}, "n": 1})
    about = {"step_execution_id": step["id"], "step_created_at": step["created_at"]}
    effect = await claimed(database, "effects", max_attempts=1, **about)
    clock.advance("1h")
    assert await Released(place).run_once() == done_with(dead_letters=1)
    (found,) = await fetch(
        database, "SELECT output_json FROM assent.workflow_step_executions WHERE org_id <> 'aatwin'"
    )
    evidence = found["output_json"]["evidence"]
    assert set(evidence) == {"other", str(effect["id"])}
    told = evidence[str(effect["id"])]
    assert (told["outcome"], told["attempt"], told["ambiguous"]) == ("dead_letter", 1, True)
    assert "did not finish" in told["error"]


@pytest.mark.parametrize("kind", KINDS)
async def test_release_wakes_the_workers(place, database, clock, kind):
    await claimed(database, kind)
    clock.advance("1h")
    async with database.listen("assent_events", "assent_effects") as listener:
        await Released(place).run_once()
        assert await listener.wait(10) == {KINDS[kind][2]}


async def test_nothing_but_claims_is_touched(place, database, clock):
    statuses = ("pending", "completed", "failed", "dead_letter")
    async with database.transaction(None) as connection:
        for status in statuses:
            await insert_event(connection, status=status)
            await insert_effect(connection, status=status)
    clock.advance("30d")
    assert await Released(place).run_once() == done_with()


async def test_claim_that_is_being_finished_is_skipped(place, database, clock):
    row = await claimed(database, "effects")
    clock.advance("1h")
    async with database.transaction(None) as finishing:
        await update(finishing, "workflow_side_effects_outbox", row, status="completed")
        assert await Released(place).run_once() == done_with()
    assert await Released(place).run_once() == done_with()


async def test_two_workers_at_once_release_every_claim_once(place, database, clock):
    for _ in range(40):
        await claimed(database, "effects")
    clock.advance("1h")
    place = with_options(place, released_batch_max=3)
    async with second_worker(place) as other:
        done = await asyncio.gather(run_until_done(Released(place)), run_until_done(Released(other)))
    assert sum(each.count for each in done) == 40
    assert {row["status"] for row in await rows_of(database, "effects")} == {"pending"}
