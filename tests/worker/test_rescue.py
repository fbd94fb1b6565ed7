"""Rescue: jobs of workers that are gone go back, exactly those, and those that kill workers end as dead letters."""

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import pytest

from assent.store.database import Database
from assent.worker.duty import RunResult
from assent.worker.rescue import Rescue
from tests.rows import insert, insert_delivery, insert_effect, insert_step, update
from tests.runtime.flows import rows
from tests.worker.queues import count, fetch, run_until_done, second_worker, with_options

LEASE = "60s"
TABLES = {
    "tasks": "tasks",
    "effects": "workflow_side_effects_outbox",
    "results": "outside_request_deliveries",
}
CHANNELS = {"tasks": "assent_tasks", "effects": "assent_effects", "results": "assent_results"}
CLAIMED = {"tasks": {"status": "in_progress"}, "effects": {"status": "processing"}, "results": {}}
WAITING = {"tasks": "open", "effects": "pending", "results": "pending"}
DEAD = {"tasks": "dead", "effects": "dead_letter", "results": "dead_letter"}


def done_with(**parts: int) -> RunResult:
    return RunResult(
        sum(parts.values()), parts={"tasks": 0, "effects": 0, "results": 0, "dead_letters": 0} | parts
    )


async def claim(database: Database, kind: str, row: Mapping[str, Any], worker: UUID) -> None:
    """Claim a row for a worker whose lease begins now."""
    async with database.transaction(None) as connection:
        sql = f"SELECT attempts + 1 FROM assent.{TABLES[kind]} WHERE org_id = $1 AND id = $2"  # noqa: S608
        attempts = await connection.fetchval(sql, row["org_id"], row["id"])
        about = {"worker_id": worker, "attempts": attempts, **CLAIMED[kind]}
        if kind != "effects":  # its trigger does
            about["claimed_at"] = database.clock.now()
        await update(connection, TABLES[kind], row, **about)
        await connection.execute(
            "INSERT INTO assent.worker_leases VALUES ($1, assent.now() + $2::text::interval)"
            " ON CONFLICT (worker_id) DO UPDATE SET leased_until = excluded.leased_until",
            worker,
            LEASE,
        )


async def claimed(database: Database, kind: str, worker: UUID | None = None, attempts_left: int = 8):
    """A row as a worker leaves it that claimed it and died."""
    async with database.transaction(None) as connection:
        if kind == "tasks":
            row = await insert(connection, "tasks", attempts_max=attempts_left)
            about = {"org_id": row["org_id"], "id": row["id"], "attempts_max": attempts_left}
            await insert(connection, "task_submissions", **about)
        elif kind == "effects":
            row = await insert_effect(connection, max_attempts=attempts_left)
        else:
            row = await insert_delivery(connection, attempts=max(0, 5 - attempts_left))
    await claim(database, kind, row, worker or uuid4())
    return row


async def rows_of(database: Database, kind: str):
    return sorted(await rows(database, TABLES[kind]), key=lambda row: row["id"])


@pytest.mark.parametrize("kind", TABLES)
async def test_job_goes_back_when_its_workers_lease_is_over_and_not_before(place, database, clock, kind):
    await claimed(database, kind)
    clock.advance("59s")
    assert await Rescue(place).run_once() == done_with()
    clock.advance("1s")
    assert await Rescue(place).run_once() == done_with(**{kind: 1})
    assert await Rescue(place).run_once() == done_with()
    (row,) = await rows_of(database, kind)
    assert (row["status"], row["attempts"], row["worker_id"]) == (WAITING[kind], 1, None)
    assert await count(database, "worker_leases") == 0


async def test_one_lease_covers_jobs_of_every_kind(place, database, clock):
    worker = uuid4()
    for kind in TABLES:
        await claimed(database, kind, worker)
    assert await count(database, "worker_leases") == 1
    clock.advance(LEASE)
    assert await Rescue(place).run_once() == done_with(tasks=1, effects=1, results=1)
    assert await count(database, "worker_leases") == 0


@pytest.mark.parametrize("kind", TABLES)
async def test_jobs_of_a_worker_that_renews_its_lease_stay(place, database, clock, kind):
    worker = uuid4()
    row = await claimed(database, kind, worker)
    clock.advance("50s")
    await claimed(database, kind, worker)  # a claim renews the lease of what was claimed before
    clock.advance("50s")
    assert await Rescue(place).run_once() == done_with()
    (found,) = [one for one in await rows_of(database, kind) if one["id"] == row["id"]]
    assert found["worker_id"] == worker


@pytest.mark.parametrize("kind", TABLES)
async def test_what_kills_every_worker_that_has_it_alone_ends_as_a_dead_letter(place, database, clock, kind):
    row = await claimed(database, kind, attempts_left=2)
    clock.advance("1h")
    assert await Rescue(place).run_once() == done_with(**{kind: 1})
    await claim(database, kind, row, uuid4())
    clock.advance("1h")
    assert await Rescue(place).run_once() == done_with(dead_letters=1)
    (row,) = await rows_of(database, kind)
    assert (row["status"], row["losses"]) == (DEAD[kind], 2)


@pytest.mark.parametrize("kind", TABLES)
async def test_jobs_that_were_lost_together_are_suspects_and_lose_no_attempt(place, database, clock, kind):
    worker = uuid4()
    for _ in range(3):
        await claimed(database, kind, worker, attempts_left=1)
    clock.advance("1h")
    # In several batches: the last one of them was not alone either.
    assert (await run_until_done(Rescue(with_options(place, rescue_batch_max=2)))).parts[kind] == 3
    for row in await rows_of(database, kind):
        assert (row["status"], row["suspect"], row["losses"]) == (WAITING[kind], True, 1)
        if kind != "results":
            assert row["attempts_max" if kind == "tasks" else "max_attempts"] - row["attempts"] == 1
        else:
            assert row["attempts"] == 4, "of five"


@pytest.mark.parametrize("kind", TABLES)
async def test_suspect_that_is_lost_again_has_used_an_attempt(place, database, clock, kind):
    worker = uuid4()
    poison = await claimed(database, kind, worker, attempts_left=1)
    await claimed(database, kind, worker, attempts_left=1)
    clock.advance("1h")
    await Rescue(place).run_once()
    worker = uuid4()
    await claim(database, kind, poison, worker)
    await claimed(database, kind, worker)
    clock.advance("1h")
    assert await Rescue(place).run_once() == done_with(**{kind: 1}, dead_letters=1)
    (found,) = [row for row in await rows_of(database, kind) if row["id"] == poison["id"]]
    assert found["status"] == DEAD[kind]


async def test_step_shows_that_its_effect_was_given_up(place, database, clock):
    async with database.transaction(None) as connection:
        step = await insert_step(connection, output_json={"evidence": {"other": {}}, "n": 1})
        about = {"step_id": step["id"], "step_created_at": step["created_at"]}
        effect = await insert_effect(connection, max_attempts=1, **about)
    await claim(database, "effects", effect, uuid4())
    clock.advance("1h")
    assert await Rescue(place).run_once() == done_with(dead_letters=1)
    (found,) = await fetch(
        database, "SELECT output_json FROM assent.workflow_step_executions WHERE org_id <> 'aatwin'"
    )
    evidence = found["output_json"]["evidence"]
    assert set(evidence) == {"other", str(effect["id"])}
    told = evidence[str(effect["id"])]
    assert (told["outcome"], told["attempt"], told["ambiguous"]) == ("dead_letter", 1, True)
    assert "did not finish" in told["error"]


@pytest.mark.parametrize("kind", TABLES)
async def test_rescue_wakes_the_workers(place, database, clock, kind):
    await claimed(database, kind)
    clock.advance("1h")
    async with database.listen(*CHANNELS.values()) as listener:
        await Rescue(place).run_once()
        assert await listener.wait(10) == {CHANNELS[kind]}


async def test_nothing_but_claimed_jobs_is_touched(place, database, clock):
    async with database.transaction(None) as connection:
        for status in ("pending", "completed", "failed", "dead_letter"):
            await insert_effect(connection, status=status)
        await insert_delivery(connection)
        await insert(connection, "tasks")
    clock.advance("30d")
    assert await Rescue(place).run_once() == done_with()


@pytest.mark.parametrize("kind", TABLES)
async def test_job_that_is_being_finished_is_skipped(place, database, clock, kind):
    row = await claimed(database, kind)
    clock.advance("1h")
    ended = {"tasks": "complete", "effects": "completed", "results": "processed"}[kind]
    when = {"tasks": "ended_at", "effects": "completed_at", "results": "processed_at"}[kind]
    async with database.transaction(None) as finishing:
        about = {"status": ended, "worker_id": None, when: clock.now()}
        await update(finishing, TABLES[kind], row, **about)
        assert await Rescue(place).run_once() == done_with()
        assert await count(database, "worker_leases") == 1, "its row is still in the worker's name"
    assert await Rescue(place).run_once() == done_with()
    assert await count(database, "worker_leases") == 0


async def test_two_workers_at_once_rescue_every_job_once(place, database, clock):
    for _ in range(40):
        await claimed(database, "effects")
    clock.advance("1h")
    place = with_options(place, rescue_batch_max=3)
    async with second_worker(place) as other:
        done = await asyncio.gather(run_until_done(Rescue(place)), run_until_done(Rescue(other)))
    assert sum(each.count for each in done) == 40
    assert {row["status"] for row in await rows_of(database, "effects")} == {"pending"}
