"""Stuck: found are instances that nothing can move any more, and no others; repairs are the operator's choice."""

import logging
from dataclasses import replace
from datetime import timedelta

import pytest

from assent.model.problems import Invalid
from assent.operations.health import find_stuck
from assent.store.database import Database
from assent.worker.duty import RunResult
from assent.worker.rescue import Stuck
from tests.postgres import START
from tests.rows import insert_event, insert_instance, insert_step, update
from tests.workers import with_options
from tests.world import fetch

QUARTER = timedelta(minutes=15)


async def still_instance(database: Database, **given):
    async with database.transaction(None) as connection:
        return await insert_instance(connection, **{"current_nodes": ["review"]} | given)


async def found(
    database: Database, org_id: str | None = None, older_than: timedelta = QUARTER, limit: int = 100
):
    async with database.transaction(None) as connection:
        return await find_stuck(connection, org_id, older_than, limit)


async def test_instance_that_nothing_can_move_is_found_when_it_was_still_for_long_enough(database, clock):
    instance = await still_instance(database)
    clock.advance(QUARTER - timedelta(microseconds=1))
    assert await found(database) == []
    clock.advance(timedelta(microseconds=1))
    (finding,) = await found(database)
    assert (finding.org_id, finding.instance_id, finding.workflow_id) == (
        "acme",
        instance["id"],
        "orders.approval",
    )
    assert (finding.current_nodes, finding.still_since) == (("review",), START)


async def test_instance_that_ended_its_steps_and_went_nowhere_is_found(database, clock):
    instance = await still_instance(database)
    async with database.transaction(None) as connection:
        for status in ("completed", "failed", "cancelled", "skipped"):
            await insert_step(connection, instance_id=instance["id"], status=status)
        for status in ("completed", "dead"):
            await insert_event(connection, instance_id=instance["id"], status=status)
    clock.advance("1h")
    assert [finding.instance_id for finding in await found(database)] == [instance["id"]]


async def test_instance_whose_step_waits_for_somebody_or_something_is_not_stuck(database, clock):
    instance = await still_instance(database)
    async with database.transaction(None) as connection:
        await insert_step(connection, instance_id=instance["id"], status="completed")
        step = await insert_step(
            connection, instance_id=instance["id"], created_at=START - timedelta(days=60)
        )
    clock.advance("90d")
    assert await found(database) == []
    async with database.transaction(None) as connection:
        await update(connection, "workflow_step_executions", step, status="skipped")
    assert len(await found(database)) == 1


@pytest.mark.parametrize("status", ["pending", "failed", "processing"])
async def test_instance_with_an_event_to_come_is_not_stuck(database, clock, status):
    instance = await still_instance(database)
    async with database.transaction(None) as connection:
        await insert_event(connection, instance_id=instance["id"], status=status)
    clock.advance("90d")
    assert await found(database) == []


@pytest.mark.parametrize("status", ["paused", "completed", "failed", "cancelled"])
async def test_only_running_instances_are_looked_at(database, clock, status):
    await still_instance(database, status=status)
    clock.advance("90d")
    assert await found(database) == []


async def test_events_and_steps_of_another_org_under_the_same_id_do_not_count(database, clock):
    instance = await still_instance(database)
    async with database.transaction(None) as connection:
        await insert_step(connection, org_id="globex", instance_id=instance["id"])
        await insert_event(connection, org_id="globex", instance_id=instance["id"])
    clock.advance("1h")
    assert len(await found(database)) == 1


async def test_one_org_or_all_of_them_longest_still_first_and_at_most_so_many(database, clock):
    for number, org_id in enumerate(["initech", "acme", "globex", "acme"]):
        await still_instance(database, org_id=org_id, updated_at=START - number * QUARTER)
    clock.advance("1h")
    assert [finding.org_id for finding in await found(database)] == ["acme", "globex", "acme", "initech"]
    assert [finding.org_id for finding in await found(database, "acme")] == ["acme", "acme"]
    assert [finding.org_id for finding in await found(database, limit=2)] == ["acme", "globex"]
    assert await found(database, "nobody") == []


async def test_nothing_is_found_where_there_is_nothing(database):
    assert await found(database) == []


async def test_finding_is_reported_once_while_it_stands_and_again_when_it_comes_back(
    place, database, clock, caplog: pytest.LogCaptureFixture
):
    instance = await still_instance(database)
    duty = Stuck(place)
    reports = []
    for status in ("running", "running", "paused", "running"):
        async with database.transaction(None) as connection:
            await update(connection, "workflow_instances", instance, status=status)
        clock.advance("1h")
        caplog.clear()
        with caplog.at_level(logging.WARNING, "assent.worker"):
            done = await duty.run_once()
        reports.append((done.count, [record.getMessage() for record in caplog.records]))
    told = ["instance is stuck"]
    assert reports == [(1, told), (1, []), (0, []), (1, told)]
    assert caplog.records[0].instance_id == str(instance["id"])  # type: ignore[attr-defined]


class Recorded:
    """Repairs that really change the database, and remember for which org they were called."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.asked: list[tuple[str, str]] = []

    def org(self, org_id, actor):
        return RecordedOrg(self, org_id)


class RecordedOrg:
    def __init__(self, recorded: Recorded, org_id: str) -> None:
        self.recorded, self.org_id = recorded, org_id
        self.operations = self.instances = self

    async def rebuild(self, instance_id):
        self.recorded.asked.append(("rebuild", self.org_id))
        raise RuntimeError("no steps to rebuild from")

    async def reenqueue(self, instance_id):
        self.recorded.asked.append(("reenqueue", self.org_id))
        async with self.recorded.database.transaction(None) as connection:
            await insert_event(connection, org_id=self.org_id, instance_id=instance_id)

    async def force_fail(self, instance_id, reason):
        self.recorded.asked.append(("force_fail", self.org_id))
        sql = (
            "UPDATE assent.workflow_instances SET status = 'failed', completed_at = assent.now()"
            " WHERE org_id = $1 AND id = $2 RETURNING 1"
        )
        await fetch(self.recorded.database, sql, self.org_id, instance_id)


async def test_nothing_is_repaired_unless_an_operator_chose_how(place, database, clock):
    recorded = Recorded(database)
    await still_instance(database)
    clock.advance("1h")
    done = await Stuck(replace(place, runtime=recorded)).run_once()
    assert (done, recorded.asked) == (RunResult(1, parts={"stuck": 1, "repaired": 0}), [])


@pytest.mark.parametrize("repair", ["reenqueue", "force_fail"])
async def test_chosen_repair_is_done_to_every_finding(place, database, clock, repair):
    recorded = Recorded(database)
    for org_id in ("acme", "globex"):
        await still_instance(database, org_id=org_id)
    clock.advance("1h")
    duty = Stuck(replace(with_options(place, stuck_repair=repair), runtime=recorded))
    assert await duty.run_once() == RunResult(2, parts={"stuck": 2, "repaired": 2})
    assert recorded.asked == [(repair, "acme"), (repair, "globex")]
    assert await duty.run_once() == RunResult(0, parts={"stuck": 0, "repaired": 0})


async def test_repair_that_fails_does_not_keep_others_from_theirs(place, database, clock, caplog):
    recorded = Recorded(database)
    for org_id in ("acme", "globex"):
        await still_instance(database, org_id=org_id)
    clock.advance("1h")
    duty = Stuck(replace(with_options(place, stuck_repair="rebuild"), runtime=recorded))
    assert await duty.run_once() == RunResult(2, parts={"stuck": 2, "repaired": 0})
    assert len(recorded.asked) == 2
    assert "no steps to rebuild from" in caplog.text


def test_repair_without_a_runtime_is_refused_at_once(place):
    with pytest.raises(Invalid, match="reenqueue needs an application"):
        Stuck(with_options(place, stuck_repair="reenqueue"))
