"""Claims: fair between orgs, the same few statements whatever their size, and nothing for who comes late."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

import assent
from assent.app import App
from assent.jobs.job import AttemptResult, Succeeded
from assent.jobs.queue import prepare_claim
from assent.store.clock import MovedClock
from assent.store.connection import connect
from assent.store.database import Connection
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.settle import settle_if_claimed
from assent.worker.rescue import Rescue
from assent.worker.tasks import Tasks
from tests.plain_sql import wait_until_a_connection_is_blocked
from tests.postgres import SETTINGS
from tests.statements import StatementCounter
from tests.workers import OpenTasksWorker, TasksWorker, run_until_done, second_worker
from tests.world import ORG, count, fetch


@pytest.fixture
def tasks_worker(app: App, open_tasks_worker: OpenTasksWorker) -> TasksWorker:
    @app.task("tests.note")
    async def note(what: str = "") -> str:
        return what

    @app.task("tests.other")
    async def other() -> None: ...

    return open_tasks_worker()


async def submit_many(
    tasks_worker: TasksWorker, number: int, org: str = ORG, type: str = "tests.note", **rest: Any
) -> None:
    await tasks_worker.runtime.org(org).tasks.submit_many(
        [assent.NewTask(type, **rest) for _ in range(number)]
    )


async def settle(tasks_worker: TasksWorker, task: ClaimedTask, output: Any = None) -> bool:
    async def work(connection: Connection) -> bool:
        mark = AttemptResult(task, Succeeded(result=output), "done", output=output)
        settled, _ = await settle_if_claimed(connection, tasks_worker.duty._jobs.worker_id, [mark])
        return bool(settled)

    return await tasks_worker.database.run(work, org_id=None)


async def test_org_with_a_backlog_leaves_the_others_their_turns(
    tasks_worker: TasksWorker, clock: MovedClock
) -> None:
    await submit_many(tasks_worker, 50, "big")
    await submit_many(tasks_worker, 50, "big", "tests.other", priority=255)
    clock.advance("1m")
    await submit_many(tasks_worker, 3, "small", priority=0)
    found = Counter(task.org_id for task in await tasks_worker.claim(8))
    assert found == {"big": 5, "small": 3}


@pytest.mark.parametrize("lanes", [1, 2])
async def test_org_whose_tasks_take_long_leaves_places_for_orgs_that_have_none(
    app: App, open_tasks_worker: OpenTasksWorker, lanes: int
) -> None:
    may_end, begun = asyncio.Event(), Counter[str]()

    @app.task("tests.slow")
    async def slow(org: str) -> None:
        begun[org] += 1
        await asyncio.wait_for(may_end.wait(), 60)

    worker = open_tasks_worker(tasks_under_way_max=20, tasks_lanes=lanes)

    async def submit_slow(org: str, number: int) -> None:
        await submit_many(worker, number, org, "tests.slow", input={"org": org})

    async def run(times: int = 6) -> None:
        for _ in range(times):
            await worker.duty.run_once()
            await asyncio.sleep(0)

    await submit_slow("big", 50)
    await run()
    assert begun == {"big": 18}
    await submit_slow("small", 5)
    await submit_slow("other", 5)
    await submit_slow("late", 5)
    await run()
    assert sum(begun.values()) == 20
    assert begun["big"] == 18
    assert sorted(begun.values()) == [1, 1, 18]
    may_end.set()
    await run_until_done(worker.duty)
    assert begun == {"big": 50, "small": 5, "other": 5, "late": 5}


async def test_two_who_claim_at_once_get_different_tasks(
    tasks_worker: TasksWorker, open_tasks_worker: OpenTasksWorker
) -> None:
    await submit_many(tasks_worker, 40)
    other = open_tasks_worker()
    found = await asyncio.gather(*(one.claim(10) for one in (tasks_worker, other) for _ in range(2)))
    assert [len(some) for some in found] == [10] * 4
    assert len({task.id for some in found for task in some}) == 40


async def test_task_that_is_being_cancelled_is_passed_over_and_holds_nobody_up(
    tasks_worker: TasksWorker,
) -> None:
    await submit_many(tasks_worker, 2)
    first, _ = await tasks_worker.rows()
    async with tasks_worker.database.transaction(ORG) as connection:
        await connection.execute(
            "UPDATE assent.jobs SET status = 'cancelled', ended_at = assent.now() WHERE org_id = 'acme' AND id = $1",
            first["id"],
        )
        (claimed,) = await tasks_worker.claim(10)
    assert claimed.id != first["id"]


async def test_tasks_of_tomorrow_are_not_read_to_find_those_of_today(
    tasks_worker: TasksWorker, clock: MovedClock
) -> None:
    """What is not due stands behind what is, in the order of the index."""
    later = clock.now().replace(year=2099)
    await submit_many(tasks_worker, 2_000, run_at=later)
    await submit_many(tasks_worker, 1)
    async with tasks_worker.database.transaction(None) as connection:
        await connection.execute("ANALYZE assent.jobs")
        await connection.execute("SET LOCAL enable_seqscan = off")
        plan = "\n".join(
            row[0]
            for row in await connection.fetch(
                "EXPLAIN (ANALYZE, BUFFERS OFF, TIMING OFF) SELECT id FROM assent.jobs WHERE org_id = 'acme'"
                " AND kind = 'task' AND lane = 'tests.note' AND priority = 128 AND status IN ('queued', 'retrying')"
                " AND throttle IS NULL AND run_at <= $1 ORDER BY run_at, id LIMIT 100",
                clock.now(),
            )
        )
    assert "jobs_to_run" in plan
    assert "Sort" not in plan
    assert "Rows Removed" not in plan
    assert len(await tasks_worker.claim(100)) == 1


async def test_places_come_round_also_where_there_are_more_than_one_claim_looks_at(
    tasks_worker: TasksWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assent.jobs.queue.LANES_MAX", 3)
    for number in range(10):
        await submit_many(tasks_worker, 1, f"org-{number}")
    assert (await run_until_done(tasks_worker.duty)).parts == {"done": 10}


async def test_statements_of_a_batch_do_not_depend_on_its_size(
    open_tasks_worker: OpenTasksWorker, tasks_worker: TasksWorker, statement_counter: StatementCounter
) -> None:
    numbers = []
    for size in (1, 1, 400):  # the first is also when the connection learns its types
        await submit_many(tasks_worker, size)
        worker = open_tasks_worker(tasks_under_way_max=1_000, tasks_lanes=1)
        statement_counter.clear()
        assert await worker.work() == {"done": size}
        names = statement_counter.names
        # A look from a later time that finds nothing is made again from the beginning: by the clock, one more.
        assert names.count("find_lanes") <= 2 * names.count("prepare_claim")
        numbers.append(Counter(name for name in names if name != "find_lanes"))
    assert numbers[1] == numbers[2]


async def test_a_late_finisher_whose_lease_was_over_changes_nothing(
    tasks_worker: TasksWorker, open_tasks_worker: OpenTasksWorker
) -> None:
    await tasks_worker.submit("tests.note")
    (task,) = await tasks_worker.claim(1)
    assert (await tasks_worker.sweep())["tasks"] == 1
    assert await tasks_worker.status() == "queued"
    assert not await settle(tasks_worker, task, "late")
    assert await tasks_worker.status() == "queued"
    heir = open_tasks_worker()
    (again,) = await heir.claim(1)
    assert again.attempt == 2
    assert not await settle(tasks_worker, task, "later still")
    assert await settle(heir, again, "in time")
    assert [(one["outcome"], one["output"]) for one in await tasks_worker.attempts()] == [
        ("lost", None),
        ("done", "in time"),
    ]


async def test_a_worker_that_renews_its_lease_keeps_its_tasks(
    app: App, open_tasks_worker: OpenTasksWorker, clock: MovedClock
) -> None:
    release = asyncio.Event()

    @app.task("tests.long")
    async def long() -> None:
        await asyncio.wait_for(release.wait(), 20)

    tasks_worker = open_tasks_worker(tasks_interval_ms=10)
    await tasks_worker.submit("tests.long")
    for _ in range(5):
        await tasks_worker.duty.run_once()
        clock.advance("50s")
        await tasks_worker.renew()
        assert (await run_until_done(Rescue(tasks_worker.place))).count == 0
    release.set()
    assert await tasks_worker.work() == {"done": 1}


async def test_renewing_writes_one_row_however_many_tasks_there_are(tasks_worker: TasksWorker) -> None:
    await submit_many(tasks_worker, 30)
    assert len(await tasks_worker.claim(30)) == 30
    before = await fetch(
        tasks_worker.database,
        "SELECT xmin::text, ctid::text FROM assent.jobs WHERE org_id = 'acme' ORDER BY id",
    )
    await tasks_worker.duty._jobs.lease.renew(tasks_worker.database, timedelta(minutes=1))
    assert (
        await fetch(
            tasks_worker.database,
            "SELECT xmin::text, ctid::text FROM assent.jobs WHERE org_id = 'acme' ORDER BY id",
        )
        == before
    )
    assert await count(tasks_worker.database, "worker_leases") == 1


async def test_cancelled_before_it_completes_stays_cancelled(tasks_worker: TasksWorker) -> None:
    task_id = await tasks_worker.submit("tests.note")
    (task,) = await tasks_worker.claim(1)
    await tasks_worker.runtime.org(ORG).tasks.cancel(task_id)
    assert not await settle(tasks_worker, task, "too late")
    assert (await tasks_worker.status(), await tasks_worker.attempts()) == ("cancelled", [])


async def test_completed_before_it_is_cancelled_stays_complete(tasks_worker: TasksWorker) -> None:
    task_id = await tasks_worker.submit("tests.note")
    (task,) = await tasks_worker.claim(1)
    assert await settle(tasks_worker, task)
    with pytest.raises(assent.Refused, match="TASK_HAS_ENDED"):
        await tasks_worker.runtime.org(ORG).tasks.cancel(task_id)
    assert await tasks_worker.status() == "done"


async def test_cancel_and_completion_at_the_same_moment_have_one_winner(tasks_worker: TasksWorker) -> None:
    task_id = await tasks_worker.submit("tests.note")
    (task,) = await tasks_worker.claim(1)
    async with tasks_worker.database.transaction(None) as connection:
        mark = AttemptResult(task, Succeeded(), "done")
        settled, _ = await settle_if_claimed(connection, tasks_worker.duty._jobs.worker_id, [mark])
        assert settled == [mark]
        cancelling = asyncio.create_task(tasks_worker.runtime.org(ORG).tasks.cancel(task_id))
        await wait_until_a_connection_is_blocked(connection)
    with pytest.raises(assent.Refused, match="TASK_HAS_ENDED"):
        await cancelling
    assert await tasks_worker.status() == "done"


async def test_open_task_that_is_cancelled_never_runs(tasks_worker: TasksWorker) -> None:
    task_id = await tasks_worker.submit("tests.note")
    await tasks_worker.runtime.org(ORG).tasks.cancel(task_id)
    assert await tasks_worker.work() == {}
    assert await tasks_worker.status() == "cancelled"


async def test_a_worker_that_ends_lets_short_tasks_end_and_gives_long_ones_back(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @app.task("tests.short")
    async def short() -> str:
        begun.set()
        await release.wait()
        return "done"

    @app.task("tests.endless")
    async def endless() -> None:
        await asyncio.sleep(600)

    tasks_worker = open_tasks_worker(grace_period_ms=300, tasks_interval_ms=10)
    await tasks_worker.submit("tests.short")
    await tasks_worker.submit("tests.endless")
    await tasks_worker.duty.run_once()
    await asyncio.wait_for(begun.wait(), 20)
    release.set()
    await tasks_worker.duty.finish()
    rows = {row["type"]: row for row in await tasks_worker.rows()}
    assert rows["tests.short"]["status"] == "done"
    endless_row = rows["tests.endless"]
    assert (endless_row["status"], endless_row["attempts"], endless_row["worker_id"]) == ("queued", 0, None)
    assert await count(tasks_worker.database, "worker_leases") == 0


async def test_nothing_is_left_behind_in_the_queue_and_no_lease_either(tasks_worker: TasksWorker) -> None:
    await submit_many(tasks_worker, 25)
    async with second_worker(tasks_worker.place) as place:
        await asyncio.gather(run_until_done(tasks_worker.duty), run_until_done(Tasks(place)))
    assert {row["status"] for row in await tasks_worker.rows()} == {"done"}
    assert [row["attempts"] for row in await tasks_worker.rows()] == [1] * 25
    assert await count(tasks_worker.database, "worker_leases") == 0


async def test_lease_is_not_forgotten_while_tasks_are_in_its_workers_hands(tasks_worker: TasksWorker) -> None:
    await tasks_worker.submit("tests.note")
    await tasks_worker.claim(1)
    await tasks_worker.duty._jobs.lease.end(tasks_worker.database)
    assert await count(tasks_worker.database, "worker_leases") == 1


async def test_claim_renews_a_lease_that_is_about_to_end_and_holds_it(
    tasks_worker: TasksWorker, clock: MovedClock
) -> None:
    """Without a lease no claim could be rescued; and a lease that is held is not ended beside the claim."""
    lease = "SELECT leased_until - assent.now() AS left FROM assent.worker_leases"
    length = tasks_worker.duty._jobs._length
    await submit_many(tasks_worker, 3)
    assert len(await tasks_worker.claim(1)) == 1
    assert [row["left"] for row in await fetch(tasks_worker.database, lease)] == [length]
    clock.advance(length * 0.8)
    assert len(await tasks_worker.claim(1)) == 1
    assert [row["left"] for row in await fetch(tasks_worker.database, lease)] == [length]
    async with tasks_worker.database.transaction(None) as connection:
        assert len(await tasks_worker.duty._claim(connection, 1)) == 1
        assert await fetch(tasks_worker.database, lease + " FOR UPDATE SKIP LOCKED") == []


async def test_worker_that_is_stopped_inside_a_claim_does_not_keep_others_from_claiming(
    tasks_worker: TasksWorker, open_tasks_worker: OpenTasksWorker
) -> None:
    await submit_many(tasks_worker, 20)
    async with tasks_worker.database.transaction(None) as stopped:
        assert len(await tasks_worker.duty._claim(stopped, 5)) == 5
        assert len(await asyncio.wait_for(open_tasks_worker().claim(10), 20)) == 10


async def test_claim_that_stands_idle_is_ended_and_its_tasks_are_free(
    tasks_worker: TasksWorker, open_tasks_worker: OpenTasksWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assent.jobs.queue.CLAIM_IDLE_TIMEOUT_MS", 50)
    await submit_many(tasks_worker, 3)
    stopped = await connect(tasks_worker.database.url, SETTINGS)
    try:
        await stopped.execute("BEGIN")
        await prepare_claim(stopped)
        assert len(await tasks_worker.duty._queue.claim(stopped, 3)) == 3
        async with asyncio.timeout(20):
            while len(found := await open_tasks_worker().claim(3)) < 3:
                pass
    finally:
        stopped.terminate()  # else its end is noticed, and warned of, in another test
    assert {task.attempt for task in found} == {1}
