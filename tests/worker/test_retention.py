"""Retention: by an org's policy ended instances go with all that is theirs alone; the evidence stays."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from assent.store.database import Database
from assent.worker.duty import RunResult
from assent.worker.upkeep import Retention
from tests.postgres import START
from tests.rows import (
    insert,
    insert_decision,
    insert_effect,
    insert_entity,
    insert_event,
    insert_instance_of,
    insert_request,
    insert_step,
)
from tests.workers import run_until_done, second_worker, with_options
from tests.world import count, fetch, rows

OF_THE_INSTANCE = (
    "workflow_instances",
    "workflow_step_executions",
    "workflow_events_outbox",
    "effects",
    "jobs",
    "workflow_step_receipts",
    "workflow_outbox_receipts",
    "workflow_forms",
    "step_evidence",
)
EVIDENCE = ("entities", "entity_versions", "audit_log", "approval_requests", "approval_decisions")
DELETED_ONE = {
    "instances": 1,
    "steps": 2,
    "events": 1,
    "effects": 1,
    "receipts": 2,
    "tasks": 0,
    "versions": 0,
}


async def set_policy(database: Database, days: Any, org_id: str = "acme") -> None:
    async with database.transaction(None) as connection:
        settings = {} if days is None else {"retention_days": days}
        await insert(connection, "orgs", org_id=org_id, settings=settings)


async def whole_instance(
    database: Database, *, org_id: str = "acme", event: str = "completed", effect: str = "done", **given
):
    """An instance of an entity with rows in every table that instances have rows in."""
    given = {"status": "completed", "updated_at": START} | given
    async with database.transaction(None) as connection:
        entity = await insert_entity(connection, org_id=org_id)
        instance = await insert_instance_of(connection, entity, **given)
        about = {"org_id": org_id, "instance_id": instance["id"]}
        for _ in range(2):
            await insert_step(connection, **about, status="completed")
        await insert_event(connection, **about, status=event)
        await insert_effect(connection, **about, status=effect)
        for table in ("workflow_step_receipts", "workflow_outbox_receipts", "step_evidence"):
            await insert(connection, table, **about)
        form = await insert(connection, "workflow_forms", **about)
        await insert(connection, "workflow_seats", **about, kind="form", request_id=form["id"])
        request = await insert_request(connection, **about)
        await insert_decision(connection, org_id=org_id, request_id=request["id"])
    return instance


async def counts(database: Database, tables: tuple[str, ...]) -> list[int]:
    return [await count(database, table) for table in tables]


async def left(database: Database):
    return {
        row["id"]
        for row in await fetch(database, "SELECT id FROM assent.workflow_instances WHERE org_id <> 'aatwin'")
    }


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
async def test_ended_instance_goes_with_all_that_is_its_own_when_the_policy_says_so(
    place, database, clock, status
):
    await set_policy(database, 30)
    await whole_instance(database, status=status)
    clock.advance("30d")
    assert (await Retention(place).run_once()).count == 0
    clock.advance("1s")
    assert await Retention(place).run_once() == RunResult(1, parts=DELETED_ONE)
    assert await counts(database, OF_THE_INSTANCE) == [0] * len(OF_THE_INSTANCE)


async def test_seats_of_forms_go_with_them_and_those_of_approvals_stay(place, database, clock):
    await set_policy(database, 30)
    await whole_instance(database)
    clock.advance("31d")
    await Retention(place).run_once()
    seats = await fetch(database, "SELECT * FROM assent.workflow_seats WHERE org_id <> 'aatwin'")
    assert [seat["kind"] for seat in seats] == ["approval"]


async def test_evidence_about_the_entity_stays(place, database, clock):
    await set_policy(database, 30)
    await whole_instance(database)
    before = await counts(database, EVIDENCE)
    clock.advance("31d")
    await Retention(place).run_once()
    assert 0 not in before
    assert await counts(database, EVIDENCE) == before


@pytest.mark.parametrize("days", [None, 0, -5, "30", True, [30], 1e30, 0.5])
async def test_without_a_policy_that_makes_sense_everything_stays(place, database, clock, days):
    await set_policy(database, days)
    await whole_instance(database)
    clock.advance("3650d")
    assert (await Retention(place).run_once()).count == 0


async def test_org_without_a_row_of_its_own_has_no_policy(place, database, clock):
    await whole_instance(database)
    clock.advance("3650d")
    assert (await Retention(place).run_once()).count == 0


async def test_each_org_has_its_own_policy(place, database, clock):
    await set_policy(database, 10, "acme")
    await set_policy(database, 100, "globex")
    await set_policy(database, None, "initech")
    kept = [await whole_instance(database, org_id=org_id) for org_id in ("globex", "initech")]
    await whole_instance(database, org_id="acme")
    clock.advance("11d")
    assert (await Retention(place).run_once()).count == 1
    assert await left(database) == {instance["id"] for instance in kept}
    clock.advance("90d")
    assert (await Retention(place).run_once()).count == 1
    assert await left(database) == {kept[1]["id"]}


@pytest.mark.parametrize("status", ["running", "paused"])
async def test_instance_that_has_not_ended_stays_however_old(place, database, clock, status):
    await set_policy(database, 1)
    await whole_instance(database, status=status)
    clock.advance("3650d")
    assert (await Retention(place).run_once()).count == 0


@pytest.mark.parametrize(
    ("queue", "status"),
    [
        *(("event", status) for status in ("dead", "pending", "failed", "processing")),
        *(("effect", status) for status in ("dead", "queued", "retrying", "running")),
    ],
)
async def test_instance_with_a_dead_letter_or_unfinished_work_stays(place, database, clock, status, queue):
    await set_policy(database, 1)
    await whole_instance(database, **{queue: status})
    clock.advance("3650d")
    assert (await Retention(place).run_once()).count == 0


async def test_steps_of_other_instances_stay(place, database, clock):
    await set_policy(database, 1)
    await whole_instance(database)
    running = await whole_instance(database, status="running")
    clock.advance("10d")
    await Retention(place).run_once()
    steps = await fetch(
        database, "SELECT instance_id FROM assent.workflow_step_executions WHERE org_id <> 'aatwin'"
    )
    assert {step["instance_id"] for step in steps} == {running["id"]}
    assert len(steps) == 2


async def test_two_workers_at_once_delete_every_instance_once(place, database, clock):
    await set_policy(database, 1)
    for _ in range(12):
        await whole_instance(database)
    clock.advance(timedelta(days=2))
    place = with_options(place, retention_instances_max=2)
    async with second_worker(place) as other:
        done = await asyncio.gather(run_until_done(Retention(place)), run_until_done(Retention(other)))
    assert sum(each.count for each in done) == 12
    assert await counts(database, OF_THE_INSTANCE) == [0] * len(OF_THE_INSTANCE)


async def task_of(database: Database, status: str, org_id: str, **given: Any) -> Any:
    async with database.transaction(None) as connection:
        job = await insert(
            connection,
            "jobs",
            org_id=org_id,
            kind="task",
            lane="a",
            attempts_max=1,
            status=status,
            ended_at=None if status == "queued" else START,
            **given,
        )
        row = {
            "org_id": org_id,
            "id": job["id"],
            "type": "a",
            "input": {},
            "attempts_max": 1,
            "submitted_by": "ann",
        }
        await insert(connection, "task_submissions", **row)
        await insert(
            connection,
            "task_progress",
            org_id=org_id,
            task_id=job["id"],
            attempt=1,
            fraction=1.0,
            message="",
            at=START,
        )
        return job["id"]


async def test_results_of_tasks_are_kept_for_as_long_as_the_org_says(place, database, clock):
    async with database.transaction(None) as connection:
        await insert(connection, "orgs", org_id="acme", settings={"task_retention_days": 3})
        await insert(connection, "orgs", org_id="globex", settings={"task_retention_days": "soon"})
    stay = {await task_of(database, status, "acme") for status in ("queued", "dead")}
    stay.add(await task_of(database, "done", "globex"))
    for status in ("done", "cancelled"):
        await task_of(database, status, "acme")
    clock.advance("3d")
    assert (await Retention(place).run_once()).count == 0
    clock.advance("1s")
    done = await Retention(place).run_once()
    assert (done.count, done.parts["tasks"]) == (2, 2)
    for table in ("jobs", "task_submissions"):
        assert {row["id"] for row in await rows(database, table)} == stay
    assert {row["task_id"] for row in await rows(database, "task_progress")} == stay
