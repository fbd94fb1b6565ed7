"""Timeouts: an instance whose time is over is told once, and its row is left to the engine."""

import asyncio
from datetime import timedelta

from assent.model.ids import event_key
from assent.store.database import Database
from assent.worker.duty import RunResult
from assent.worker.timers import Timeouts
from tests.plain_sql import wait_until_a_connection_is_blocked
from tests.postgres import START
from tests.rows import insert, insert_event, insert_instance, update
from tests.workers import events, run_until_done, second_worker, with_options
from tests.world import count, fetch

HOUR = timedelta(hours=1)


async def expiring_instance(database: Database, **given):
    async with database.transaction(None) as connection:
        return await insert_instance(connection, **{"expires_at": START + HOUR} | given)


def payload_of(instance) -> dict[str, str]:
    due = instance["expires_at"].isoformat()
    return {"cause": f"{instance['id']} {due}", "due": due}


async def test_instance_is_told_when_its_time_is_over_and_not_before(place, database, clock):
    instance = await expiring_instance(database)
    clock.move_to(START + HOUR - timedelta(seconds=5))
    assert await Timeouts(place).run_once() == RunResult(0, again_in_s=5)
    clock.move_to(START + HOUR - timedelta(microseconds=1))
    assert (await Timeouts(place).run_once()).count == 0
    clock.move_to(START + HOUR)
    assert await Timeouts(place).run_once() == RunResult(1)
    (event,) = await events(database)
    assert (event["event_type"], event["instance_id"]) == ("on_expired", instance["id"])
    assert event["payload_json"] == payload_of(instance)


async def test_instance_that_was_told_is_not_told_again_while_the_event_waits_or_after(
    place, database, clock
):
    await expiring_instance(database)
    clock.advance("2h")
    assert await Timeouts(place).run_once() == RunResult(1)
    assert await Timeouts(place).run_once() == RunResult(0)
    await fetch(
        database,
        "UPDATE assent.workflow_events_outbox SET status = 'completed' WHERE org_id = 'acme' RETURNING 1",
    )
    clock.advance("1d")
    assert await Timeouts(place).run_once() == RunResult(0)


async def test_instances_row_is_not_written(place, database, clock):
    sql = "SELECT i.*, i.xmin::text FROM assent.workflow_instances i WHERE org_id = 'acme'"
    await expiring_instance(database)
    before = await fetch(database, sql)
    clock.advance("2h")
    await Timeouts(place).run_once()
    assert await fetch(database, sql) == before


async def test_another_time_is_another_expiry(place, database, clock):
    instance = await expiring_instance(database)
    clock.advance("2h")
    await Timeouts(place).run_once()
    async with database.transaction(None) as connection:
        await update(connection, "workflow_instances", instance, expires_at=START + 3 * HOUR)
    assert await Timeouts(place).run_once() == RunResult(0)
    clock.advance("2h")
    assert await Timeouts(place).run_once() == RunResult(1)
    assert len(await events(database)) == 2


async def test_only_running_instances_expire(place, database, clock):
    for status in ("paused", "completed", "failed", "cancelled"):
        await expiring_instance(database, status=status)
    await expiring_instance(database, expires_at=None)
    clock.advance("30d")
    assert await Timeouts(place).run_once() == RunResult(0)


async def test_paused_instance_expires_when_it_runs_again(place, database, clock):
    instance = await expiring_instance(database, status="paused")
    clock.advance("2h")
    async with database.transaction(None) as connection:
        await update(connection, "workflow_instances", instance, status="running")
    assert await Timeouts(place).run_once() == RunResult(1)


async def test_pin_that_moves_between_two_workers_does_not_tell_twice(place, database, clock):
    """The instance's version is not part of the event's key; a receipt of before holds."""
    instance = await expiring_instance(database)
    clock.advance("2h")
    await Timeouts(place).run_once()
    await fetch(database, "DELETE FROM assent.workflow_events_outbox WHERE org_id = 'acme' RETURNING 1")
    assert (await Timeouts(place).run_once()).count == 0
    key = event_key(instance["id"], "on_expired", payload_of(instance), 0)
    (receipt,) = await fetch(
        database, "SELECT event_idempotency_key FROM assent.workflow_outbox_receipts WHERE org_id = 'acme'"
    )
    assert receipt["event_idempotency_key"] == key


async def test_events_of_others_with_any_payload_are_no_obstacle(place, database, clock):
    instance = await expiring_instance(database)
    async with database.transaction(None) as connection:
        for due in ("soon", 7, None, {"at": "noon"}):
            about = {"instance_id": instance["id"], "event_type": "on_event"}
            await insert_event(connection, **about, payload_json={"due": due})
    clock.advance("2h")
    assert await Timeouts(place).run_once() == RunResult(1)


async def test_second_worker_waits_for_the_first_and_finds_that_it_was_second(place, database, clock):
    instance = await expiring_instance(database)
    clock.advance("2h")
    key = event_key(instance["id"], "on_expired", payload_of(instance), 0)
    async with database.transaction(None) as first:
        await insert(first, "workflow_outbox_receipts", instance_id=instance["id"], event_idempotency_key=key)
        second = asyncio.create_task(Timeouts(place).run_once())
        await wait_until_a_connection_is_blocked(first)
    assert await second == RunResult(0)
    assert await events(database) == []


async def test_two_workers_at_once_tell_every_instance_exactly_once(place, database, clock):
    instances = [await expiring_instance(database) for _ in range(60)]
    clock.advance("2h")
    place = with_options(place, timeouts_batch_max=7)
    async with second_worker(place) as other:
        done = await asyncio.gather(run_until_done(Timeouts(place)), run_until_done(Timeouts(other)))
    assert sum(each.count for each in done) == 60
    assert {event["instance_id"] for event in await events(database)} == {each["id"] for each in instances}
    assert await count(database, "workflow_events_outbox") == 60
