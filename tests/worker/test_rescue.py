"""Rescue: jobs of workers that are gone go back, exactly those, and those that kill workers end as dead letters."""

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import pytest

from assent.store.database import Database
from assent.worker.duty import RunResult
from assent.worker.rescue import Rescue
from tests.rows import insert, insert_delivery, insert_effect, insert_job, insert_step, update
from tests.workers import run_until_done, second_worker, with_options
from tests.world import count, fetch, rows

LEASE = "60s"
KINDS = ("tasks", "effects", "results")
CHANNELS = {"tasks": "assent_tasks", "effects": "assent_effects", "results": "assent_results"}


def done_with(**parts: int) -> RunResult:
    return RunResult(sum(parts.values()), parts={"tasks": 0, "effects": 0, "results": 0, "dead": 0} | parts)


async def claim(database: Database, row: Mapping[str, Any], worker: UUID) -> None:
    """Claim a job for a worker whose lease begins now."""
    async with database.transaction(None) as connection:
        sql = "SELECT attempts + 1 FROM assent.jobs WHERE org_id = $1 AND id = $2"
        attempts = await connection.fetchval(sql, row["org_id"], row["id"])
        about = {"worker_id": worker, "attempts": attempts, "claimed_at": database.clock.now()}
        await update(connection, "jobs", row, status="running", **about)
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
            row = await insert_job(connection, attempts_max=attempts_left)
            about = {"org_id": row["org_id"], "id": row["id"], "attempts_max": attempts_left}
            await insert(connection, "task_submissions", **about)
        elif kind == "effects":
            row = await insert_effect(connection, attempts_max=attempts_left)
        else:
            row = await insert_delivery(connection, attempts_max=attempts_left)
    await claim(database, row, worker or uuid4())
    return row


async def rows_of(database: Database, kind: str):
    found = [row for row in await rows(database, "jobs") if f"{row['kind']}s" == kind]
    return sorted(found, key=lambda row: row["id"])


@pytest.mark.parametrize("kind", KINDS)
async def test_job_goes_back_when_its_workers_lease_is_over_and_not_before(place, database, clock, kind):
    await claimed(database, kind)
    clock.advance("59s")
    assert await Rescue(place).run_once() == done_with()
    clock.advance("1s")
    assert await Rescue(place).run_once() == done_with(**{kind: 1})
    assert await Rescue(place).run_once() == done_with()
    (row,) = await rows_of(database, kind)
    assert (row["status"], row["attempts"], row["worker_id"]) == ("queued", 1, None)
    assert await count(database, "worker_leases") == 0


async def test_one_lease_covers_jobs_of_every_kind(place, database, clock):
    worker = uuid4()
    for kind in KINDS:
        await claimed(database, kind, worker)
    assert await count(database, "worker_leases") == 1
    clock.advance(LEASE)
    assert await Rescue(place).run_once() == done_with(tasks=1, effects=1, results=1)
    assert await count(database, "worker_leases") == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_jobs_of_a_worker_that_renews_its_lease_stay(place, database, clock, kind):
    worker = uuid4()
    row = await claimed(database, kind, worker)
    clock.advance("50s")
    await claimed(database, kind, worker)  # a claim renews the lease of what was claimed before
    clock.advance("50s")
    assert await Rescue(place).run_once() == done_with()
    (found,) = [one for one in await rows_of(database, kind) if one["id"] == row["id"]]
    assert found["worker_id"] == worker


@pytest.mark.parametrize("kind", KINDS)
async def test_what_kills_every_worker_that_has_it_alone_ends_as_a_dead_letter(place, database, clock, kind):
    row = await claimed(database, kind, attempts_left=2)
    clock.advance("1h")
    assert await Rescue(place).run_once() == done_with(**{kind: 1})
    await claim(database, row, uuid4())
    clock.advance("1h")
    assert await Rescue(place).run_once() == done_with(dead=1)
    (row,) = await rows_of(database, kind)
    assert (row["status"], row["losses"]) == ("dead", 2)


@pytest.mark.parametrize("kind", KINDS)
async def test_jobs_that_were_lost_together_are_suspects_and_lose_no_attempt(place, database, clock, kind):
    worker = uuid4()
    for _ in range(3):
        await claimed(database, kind, worker, attempts_left=1)
    clock.advance("1h")
    # In several batches: the last one of them was not alone either.
    assert (await run_until_done(Rescue(with_options(place, rescue_batch_max=2)))).parts[kind] == 3
    for row in await rows_of(database, kind):
        assert (row["status"], row["suspect"], row["losses"]) == ("queued", True, 1)
        assert row["attempts_max"] - row["attempts"] == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_suspect_that_is_lost_again_has_used_an_attempt(place, database, clock, kind):
    worker = uuid4()
    poison = await claimed(database, kind, worker, attempts_left=1)
    await claimed(database, kind, worker, attempts_left=1)
    clock.advance("1h")
    await Rescue(place).run_once()
    worker = uuid4()
    await claim(database, poison, worker)
    await claimed(database, kind, worker)
    clock.advance("1h")
    assert await Rescue(place).run_once() == done_with(**{kind: 1}, dead=1)
    (found,) = [row for row in await rows_of(database, kind) if row["id"] == poison["id"]]
    assert found["status"] == "dead"


async def test_step_shows_that_its_effect_was_given_up(place, database, clock):
    async with database.transaction(None) as connection:
        step = await insert_step(connection, output_json={"evidence": {"other": {}}, "n": 1})
        about = {"step_id": step["id"], "step_created_at": step["created_at"]}
        effect = await insert_effect(connection, attempts_max=1, **about)
    await claim(database, effect, uuid4())
    clock.advance("1h")
    assert await Rescue(place).run_once() == done_with(dead=1)
    (found,) = await fetch(
        database, "SELECT output_json FROM assent.workflow_step_executions WHERE org_id <> 'aatwin'"
    )
    evidence = found["output_json"]["evidence"]
    assert set(evidence) == {"other", str(effect["id"])}
    told = evidence[str(effect["id"])]
    assert (told["outcome"], told["attempt"], told["ambiguous"]) == ("dead", 1, True)
    assert "did not finish" in told["error"]


@pytest.mark.parametrize("kind", KINDS)
async def test_rescue_wakes_the_workers(place, database, clock, kind):
    await claimed(database, kind)
    clock.advance("1h")
    async with database.listen(*CHANNELS.values()) as listener:
        await Rescue(place).run_once()
        assert await listener.wait(10) == {CHANNELS[kind]}


async def test_nothing_but_claimed_jobs_is_touched(place, database, clock):
    async with database.transaction(None) as connection:
        for status in ("queued", "done", "retrying", "dead"):
            await insert_effect(connection, status=status)
        await insert_delivery(connection)
        await insert_job(connection)
    clock.advance("30d")
    assert await Rescue(place).run_once() == done_with()


@pytest.mark.parametrize("kind", KINDS)
async def test_job_that_is_being_finished_is_skipped(place, database, clock, kind):
    row = await claimed(database, kind)
    clock.advance("1h")
    async with database.transaction(None) as finishing:
        await update(finishing, "jobs", row, status="done", worker_id=None, ended_at=clock.now())
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
    assert {row["status"] for row in await rows_of(database, "effects")} == {"queued"}
