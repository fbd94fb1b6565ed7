"""Prune: what nobody asks for any more goes; dead letters and all that still runs stays."""

import asyncio
from datetime import timedelta

import pytest

from assent.model.ids import new_id
from assent.store.database import Database
from assent.worker.duty import RunResult
from assent.worker.upkeep import Prune
from tests.plain_sql import APPEND_ONLY, refused
from tests.postgres import START
from tests.rows import insert, insert_effect, insert_event, insert_instance
from tests.workers import run_until_done, second_worker, with_options
from tests.world import count, fetch, rows

RECEIPTS = ("workflow_step_receipts", "workflow_outbox_receipts")
ENDED = ("completed", "failed", "cancelled")
LONG = timedelta(days=90, microseconds=1)


async def instance_with_receipts(database: Database, number: int = 1, **given):
    async with database.transaction(None) as connection:
        instance = await insert_instance(connection, **given)
        about = {"org_id": instance["org_id"], "instance_id": instance["id"]}
        for _ in range(number):
            for table in RECEIPTS:
                await insert(connection, table, **about)
    return instance


async def instances_with_receipts(database: Database):
    sql = "SELECT DISTINCT instance_id FROM assent.workflow_step_receipts WHERE org_id <> 'aatwin'"
    return {row["instance_id"] for row in await fetch(database, sql)}


@pytest.mark.parametrize("status", ENDED)
async def test_receipts_of_an_ended_instance_go_after_ninety_days(place, database, clock, status):
    await instance_with_receipts(database, 3, status=status)
    clock.advance("90d")
    assert (await Prune(place).run_once()).count == 0
    clock.move_to(START + LONG)
    done = await Prune(place).run_once()
    assert done.parts == {
        "step_receipts": 3,
        "outbox_receipts": 3,
        "events": 0,
        "effects": 0,
        "tasks": 0,
        "kept_events": 0,
        "rate_starts": 0,
    }
    assert [await count(database, table) for table in RECEIPTS] == [0, 0]
    assert (await Prune(place).run_once()).count == 0


@pytest.mark.parametrize("status", ["running", "paused"])
async def test_receipts_of_an_instance_that_has_not_ended_stay_for_ever(place, database, clock, status):
    instance = await instance_with_receipts(database, status=status)
    clock.advance("3650d")
    assert (await Prune(place).run_once()).count == 0
    assert await instances_with_receipts(database) == {instance["id"]}


async def test_receipts_of_events_without_an_instance_stay(place, database, clock):
    async with database.transaction(None) as connection:
        nobody = "00000000-0000-0000-0000-000000000000"
        await insert(connection, "workflow_outbox_receipts", instance_id=nobody)
    clock.advance("3650d")
    assert (await Prune(place).run_once()).count == 0


async def test_instances_are_pruned_in_batches_each_once(place, database, clock, statement_counter):
    for _ in range(5):
        await instance_with_receipts(database, status="completed")
    clock.advance(LONG)
    duty = Prune(with_options(place, prune_instances_max=2))
    first = await duty.run_once()
    assert (first.parts["step_receipts"], first.more) == (2, True)
    assert (await run_until_done(duty)).parts["step_receipts"] == 3
    marks = await fetch(
        database, "SELECT receipts_pruned_at FROM assent.workflow_instances WHERE org_id <> 'aatwin'"
    )
    assert {row["receipts_pruned_at"] for row in marks} == {clock.now()}


async def test_receipts_are_deleted_by_no_other_door(database):
    await instance_with_receipts(database, status="completed")
    async with database.transaction(None) as connection:
        await connection.fetch("SELECT * FROM assent.prune_receipts(assent.now(), 10)")
        for table in RECEIPTS:
            await insert(connection, table)
            async with refused(connection, APPEND_ONLY):
                await connection.execute(f"DELETE FROM assent.{table} WHERE org_id <> 'aatwin'")  # noqa: S608


KINDS = {
    "events": ("workflow_events_outbox", insert_event),
    "effects": ("effects", insert_effect),
}
DONE = {"events": ("completed", "completed_at"), "effects": ("done", "ended_at")}
"""The status of a row that is done, and the column that says since when."""


@pytest.mark.parametrize("kind", KINDS)
async def test_completed_rows_of_an_outbox_go_after_ninety_days_by_their_completion(
    place, database, clock, kind
):
    table, insert_row = KINDS[kind]
    async with database.transaction(None) as connection:
        status, when = DONE[kind]
        await insert_row(connection, **{"status": status, when: START})
        late = await insert_row(connection, **{"status": status, when: START + timedelta(days=5)})
    clock.advance("90d")
    assert (await Prune(place).run_once()).count == 0
    clock.advance("1d")
    assert (await Prune(place).run_once()).parts[kind] == 1
    assert [row["id"] for row in await rows(database, table)] == [late["id"]]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        *(("events", status) for status in ("dead", "pending", "failed", "processing")),
        *(("effects", status) for status in ("dead", "queued", "retrying", "running")),
    ],
)
async def test_dead_letters_and_unfinished_rows_stay_for_ever(place, database, clock, kind, status):
    table, insert_row = KINDS[kind]
    async with database.transaction(None) as connection:
        # Also where a time of completion is left over from an earlier life.
        given = {"completed_at": START} if kind == "events" else {}
        await insert_row(connection, status=status, **given)
    clock.advance("3650d")
    assert (await Prune(place).run_once()).count == 0
    assert await count(database, table) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_outbox_rows_go_in_batches(place, database, clock, kind):
    async with database.transaction(None) as connection:
        for _ in range(5):
            await KINDS[kind][1](connection, **{"status": DONE[kind][0], DONE[kind][1]: START})
    clock.advance(LONG)
    duty = Prune(with_options(place, prune_rows_max=2))
    first = await duty.run_once()
    assert (first.count, first.more) == (2, True)
    assert (await run_until_done(duty)).count == 3


async def test_age_is_an_option(place, database, clock):
    await instance_with_receipts(database, status="completed")
    clock.advance("8d")
    assert (await Prune(with_options(place, prune_after_days=7)).run_once()).count == 2


async def test_two_workers_at_once_delete_every_receipt_once(place, database, clock):
    for _ in range(30):
        await instance_with_receipts(database, 2, status="completed")
    running = await instance_with_receipts(database, status="running")
    clock.advance(LONG)
    place = with_options(place, prune_instances_max=2)
    async with second_worker(place) as other:
        done = await asyncio.gather(run_until_done(Prune(place)), run_until_done(Prune(other)))
    assert sum(each.count for each in done) == 30 * 2 * 2
    assert await instances_with_receipts(database) == {running["id"]}


async def test_instance_that_another_worker_prunes_is_not_waited_for(place, database, clock):
    await instance_with_receipts(database, status="completed")
    clock.advance(LONG)
    async with database.transaction(None) as first:
        await first.fetch("SELECT * FROM assent.prune_receipts(assent.now(), 10)")
        assert await Prune(place).run_once() == RunResult(
            0,
            parts=dict.fromkeys(
                (
                    "step_receipts",
                    "outbox_receipts",
                    "events",
                    "effects",
                    "tasks",
                    "kept_events",
                    "rate_starts",
                ),
                0,
            ),
        )


@pytest.mark.parametrize(("status", "goes"), [("done", True), ("cancelled", True), ("dead", False)])
async def test_tasks_go_after_their_days_and_dead_ones_stay(place, database, clock, status, goes):
    async with database.transaction(None) as connection:
        task = await insert(connection, "jobs", status=status, ended_at=START)
        await insert(connection, "task_submissions", id=task["id"])
    clock.advance("365d")
    assert (await Prune(place).run_once()).parts["tasks"] == goes
    assert (await rows(database, "jobs") == []) is goes


async def keep(database, *keys, org_id="acme", at=START):
    async with database.transaction(None) as connection:
        for key in keys:
            await insert(
                connection, "workflow_kept_events", org_id=org_id, id=new_id(at), event_key=key, created_at=at
            )


async def kept(database):
    found = await fetch(
        database, "SELECT event_key FROM assent.workflow_kept_events WHERE org_id <> 'aatwin' ORDER BY id"
    )
    return [row["event_key"] for row in found]


async def test_events_that_nobody_waited_for_go_after_their_days(place, database, clock):
    await keep(database, "old", "older")
    await keep(database, "new", at=START + timedelta(days=1))
    duty = Prune(with_options(place, prune_kept_events_after_days=30))
    clock.advance("30d")
    assert (await duty.run_once()).parts["kept_events"] == 0
    clock.move_to(START + timedelta(days=30, microseconds=1))
    assert (await duty.run_once()).parts["kept_events"] == 2
    assert await kept(database) == ["new"]


async def test_of_too_many_events_under_one_key_the_oldest_stay(place, database):
    for number in range(5):
        await keep(database, "busy", at=START + timedelta(seconds=number))
    await keep(database, "quiet", "quiet")
    await keep(database, "busy", "busy", org_id="globex")
    duty = Prune(with_options(place, prune_kept_events_per_key_max=2, prune_rows_max=2))
    first = await duty.run_once()
    assert (first.parts["kept_events"], first.more) == (2, True)
    assert (await run_until_done(duty)).parts["kept_events"] == 1
    found = await fetch(
        database,
        "SELECT org_id, event_key, count(*), max(created_at) FROM assent.workflow_kept_events"
        " WHERE org_id <> 'aatwin' GROUP BY 1, 2",
    )
    assert {tuple(row) for row in found} == {
        ("acme", "busy", 2, START + timedelta(seconds=1)),
        ("acme", "quiet", 2, START),
        ("globex", "busy", 2, START),
    }
