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
from assent.store.connect import connect
from assent.store.database import Connection
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.settle import settle_if_claimed
from assent.worker.rescue import Rescue
from assent.worker.tasks import Tasks
from tests.postgres import SETTINGS
from tests.runtime.flows import ORG
from tests.statements import StatementCounter
from tests.tasks.workshop import Opened, Workshop
from tests.worker.queues import count, fetch, run_until_done, second_worker, wait_until_somebody_is_blocked


@pytest.fixture
def shop(app: App, opened: Opened) -> Workshop:
    @app.task("tests.note")
    async def note(what: str = "") -> str:
        return what

    @app.task("tests.other")
    async def other() -> None: ...

    return opened()


async def submit_many(
    shop: Workshop, number: int, org: str = ORG, type: str = "tests.note", **rest: Any
) -> None:
    await shop.runtime.org(org).tasks.submit_many([assent.NewTask(type, **rest) for _ in range(number)])


async def settle(shop: Workshop, task: ClaimedTask, output: Any = None) -> bool:
    async def work(connection: Connection) -> bool:
        mark = AttemptResult(task, Succeeded(result=output), "done", output=output)
        settled, _ = await settle_if_claimed(connection, shop.duty._jobs.worker_id, [mark])
        return bool(settled)

    return await shop.database.run(work, org_id=None)


async def test_org_with_a_backlog_leaves_the_others_their_turns(shop: Workshop, clock: MovedClock) -> None:
    await submit_many(shop, 50, "big")
    await submit_many(shop, 50, "big", "tests.other", priority=255)
    clock.advance("1m")
    await submit_many(shop, 3, "small", priority=0)
    found = Counter(task.org_id for task in await shop.claim(8))
    assert found == {"big": 5, "small": 3}


async def test_two_who_claim_at_once_get_different_tasks(shop: Workshop, opened: Opened) -> None:
    await submit_many(shop, 40)
    other = opened()
    found = await asyncio.gather(*(one.claim(10) for one in (shop, other) for _ in range(2)))
    assert [len(some) for some in found] == [10] * 4
    assert len({task.id for some in found for task in some}) == 40


async def test_task_that_is_being_cancelled_is_passed_over_and_holds_nobody_up(shop: Workshop) -> None:
    await submit_many(shop, 2)
    first, _ = await shop.rows()
    async with shop.database.transaction(ORG) as connection:
        await connection.execute(
            "UPDATE assent.jobs SET status = 'cancelled', ended_at = assent.now() WHERE org_id = 'acme' AND id = $1",
            first["id"],
        )
        (claimed,) = await shop.claim(10)
    assert claimed.id != first["id"]


async def test_tasks_of_tomorrow_are_not_read_to_find_those_of_today(
    shop: Workshop, clock: MovedClock
) -> None:
    """What is not due stands behind what is, in the order of the index."""
    later = clock.now().replace(year=2099)
    await submit_many(shop, 2_000, run_at=later)
    await submit_many(shop, 1)
    async with shop.database.transaction(None) as connection:
        await connection.execute("ANALYZE assent.jobs")
        await connection.execute("SET LOCAL enable_seqscan = off")
        plan = "\n".join(
            row[0]
            for row in await connection.fetch(
                "EXPLAIN (ANALYZE, BUFFERS OFF, TIMING OFF) SELECT id FROM assent.jobs WHERE org_id = 'acme'"
                " AND kind = 'task' AND lane = 'tests.note' AND priority = 128 AND status IN ('queued', 'retrying')"
                " AND run_at <= $1 ORDER BY run_at, id LIMIT 100",
                clock.now(),
            )
        )
    assert "jobs_to_run" in plan
    assert "Sort" not in plan
    assert "Rows Removed" not in plan
    assert len(await shop.claim(100)) == 1


async def test_places_come_round_also_where_there_are_more_than_one_claim_looks_at(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assent.jobs.queue.LANES_MAX", 3)
    for number in range(10):
        await submit_many(shop, 1, f"org-{number}")
    assert (await run_until_done(shop.duty)).parts == {"done": 10}


async def test_statements_of_a_batch_do_not_depend_on_its_size(
    opened: Opened, shop: Workshop, statement_counter: StatementCounter
) -> None:
    numbers = []
    for size in (1, 1, 400):  # the first is also when the connection learns its types
        await submit_many(shop, size)
        worker = opened(tasks_under_way_max=1_000, tasks_lanes=1)
        statement_counter.clear()
        assert await worker.work() == {"done": size}
        numbers.append(len(statement_counter))
    assert numbers[1] == numbers[2]


async def test_a_late_finisher_whose_lease_was_over_changes_nothing(shop: Workshop, opened: Opened) -> None:
    await shop.submit("tests.note")
    (task,) = await shop.claim(1)
    assert (await shop.sweep())["tasks"] == 1
    assert await shop.status() == "queued"
    assert not await settle(shop, task, "late")
    assert await shop.status() == "queued"
    heir = opened()
    (again,) = await heir.claim(1)
    assert again.attempt == 2
    assert not await settle(shop, task, "later still")
    assert await settle(heir, again, "in time")
    assert [(one["outcome"], one["output"]) for one in await shop.attempts()] == [
        ("lost", None),
        ("done", "in time"),
    ]


async def test_a_worker_that_renews_its_lease_keeps_its_tasks(
    app: App, opened: Opened, clock: MovedClock
) -> None:
    release = asyncio.Event()

    @app.task("tests.long")
    async def long() -> None:
        await asyncio.wait_for(release.wait(), 20)

    shop = opened(tasks_interval_ms=10)
    await shop.submit("tests.long")
    for _ in range(5):
        await shop.duty.run_once()
        clock.advance("50s")
        await shop.renew()
        assert (await run_until_done(Rescue(shop.place))).count == 0
    release.set()
    assert await shop.work() == {"done": 1}


async def test_renewing_writes_one_row_however_many_tasks_there_are(shop: Workshop) -> None:
    await submit_many(shop, 30)
    assert len(await shop.claim(30)) == 30
    before = await fetch(
        shop.database, "SELECT xmin::text, ctid::text FROM assent.jobs WHERE org_id = 'acme' ORDER BY id"
    )
    await shop.duty._jobs.lease.renew(shop.database, timedelta(minutes=1))
    assert (
        await fetch(
            shop.database, "SELECT xmin::text, ctid::text FROM assent.jobs WHERE org_id = 'acme' ORDER BY id"
        )
        == before
    )
    assert await count(shop.database, "worker_leases") == 1


async def test_cancelled_before_it_completes_stays_cancelled(shop: Workshop) -> None:
    task_id = await shop.submit("tests.note")
    (task,) = await shop.claim(1)
    await shop.runtime.org(ORG).tasks.cancel(task_id)
    assert not await settle(shop, task, "too late")
    assert (await shop.status(), await shop.attempts()) == ("cancelled", [])


async def test_completed_before_it_is_cancelled_stays_complete(shop: Workshop) -> None:
    task_id = await shop.submit("tests.note")
    (task,) = await shop.claim(1)
    assert await settle(shop, task)
    with pytest.raises(assent.Refused, match="TASK_HAS_ENDED"):
        await shop.runtime.org(ORG).tasks.cancel(task_id)
    assert await shop.status() == "done"


async def test_cancel_and_completion_at_the_same_moment_have_one_winner(shop: Workshop) -> None:
    task_id = await shop.submit("tests.note")
    (task,) = await shop.claim(1)
    async with shop.database.transaction(None) as connection:
        mark = AttemptResult(task, Succeeded(), "done")
        settled, _ = await settle_if_claimed(connection, shop.duty._jobs.worker_id, [mark])
        assert settled == [mark]
        cancelling = asyncio.create_task(shop.runtime.org(ORG).tasks.cancel(task_id))
        await wait_until_somebody_is_blocked(connection)
    with pytest.raises(assent.Refused, match="TASK_HAS_ENDED"):
        await cancelling
    assert await shop.status() == "done"


async def test_a_running_task_that_is_cancelled_is_broken_off(
    app: App, opened: Opened, clock: MovedClock
) -> None:
    begun, broken = asyncio.Event(), asyncio.Event()

    @app.task("tests.long")
    async def long() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            broken.set()
            raise

    shop = opened(tasks_interval_ms=10)
    task_id = await shop.submit("tests.long")
    await shop.duty.run_once()
    await asyncio.wait_for(begun.wait(), 20)
    await shop.runtime.org(ORG).tasks.cancel(task_id)
    await shop.renew()
    await asyncio.wait_for(broken.wait(), 20)
    assert await shop.status() == "cancelled"


async def test_open_task_that_is_cancelled_never_runs(shop: Workshop) -> None:
    task_id = await shop.submit("tests.note")
    await shop.runtime.org(ORG).tasks.cancel(task_id)
    assert await shop.work() == {}
    assert await shop.status() == "cancelled"


async def test_a_worker_that_ends_lets_short_tasks_end_and_gives_long_ones_back(
    app: App, opened: Opened
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

    shop = opened(grace_period_ms=300, tasks_interval_ms=10)
    await shop.submit("tests.short")
    await shop.submit("tests.endless")
    await shop.duty.run_once()
    await asyncio.wait_for(begun.wait(), 20)
    release.set()
    await shop.duty.finish()
    rows = {row["type"]: row for row in await shop.rows()}
    assert rows["tests.short"]["status"] == "done"
    endless_row = rows["tests.endless"]
    assert (endless_row["status"], endless_row["attempts"], endless_row["worker_id"]) == ("queued", 0, None)
    assert await count(shop.database, "worker_leases") == 0


async def test_nothing_is_left_behind_in_the_queue_and_no_lease_either(shop: Workshop) -> None:
    await submit_many(shop, 25)
    async with second_worker(shop.place) as place:
        await asyncio.gather(run_until_done(shop.duty), run_until_done(Tasks(place)))
    assert {row["status"] for row in await shop.rows()} == {"done"}
    assert [row["attempts"] for row in await shop.rows()] == [1] * 25
    assert await count(shop.database, "worker_leases") == 0


async def test_lease_is_not_forgotten_while_tasks_are_in_its_workers_hands(shop: Workshop) -> None:
    await shop.submit("tests.note")
    await shop.claim(1)
    await shop.duty._jobs.lease.end(shop.database)
    assert await count(shop.database, "worker_leases") == 1


async def test_claim_renews_a_lease_that_is_about_to_end_and_holds_it(
    shop: Workshop, clock: MovedClock
) -> None:
    """Without a lease no claim could be rescued; and a lease that is held is not ended beside the claim."""
    lease = "SELECT leased_until - assent.now() AS left FROM assent.worker_leases"
    length = shop.duty._jobs._length
    await submit_many(shop, 3)
    assert len(await shop.claim(1)) == 1
    assert [row["left"] for row in await fetch(shop.database, lease)] == [length]
    clock.advance(length * 0.8)
    assert len(await shop.claim(1)) == 1
    assert [row["left"] for row in await fetch(shop.database, lease)] == [length]
    async with shop.database.transaction(None) as connection:
        assert len(await shop.duty._claim(connection, 1)) == 1
        assert await fetch(shop.database, lease + " FOR UPDATE SKIP LOCKED") == []


async def test_worker_that_is_stopped_inside_a_claim_does_not_keep_others_from_claiming(
    shop: Workshop, opened: Opened
) -> None:
    await submit_many(shop, 20)
    async with shop.database.transaction(None) as stopped:
        assert len(await shop.duty._claim(stopped, 5)) == 5
        assert len(await asyncio.wait_for(opened().claim(10), 20)) == 10


async def test_claim_that_stands_idle_is_ended_and_its_tasks_are_free(
    shop: Workshop, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assent.jobs.queue.CLAIM_IDLE_TIMEOUT_MS", 50)
    await submit_many(shop, 3)
    stopped = await connect(shop.database.url, SETTINGS)
    try:
        await stopped.execute("BEGIN")
        await prepare_claim(stopped)
        assert len(await shop.duty._queue.claim(stopped, 3)) == 3
        async with asyncio.timeout(20):
            while len(found := await opened().claim(3)) < 3:
                pass
    finally:
        stopped.terminate()  # else its end is noticed, and warned of, in another test
    assert {task.attempt for task in found} == {1}
