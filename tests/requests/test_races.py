"""Results that race: staged with locks, on connections and in processes of their own."""

import asyncio
from uuid import UUID, uuid4

import pytest

from assent.jobs.job import JOB_COLUMNS, ClaimedJob
from assent.jobs.queue import JobQueue, hold_if_claimed
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.rescue import Rescue
from assent.worker.results import Results
from tests.plain_sql import wait_until_a_connection_is_blocked
from tests.plain_sql import wait_until_blocked as wait_until_waiting
from tests.processes.spawn import ChildDied, children, wait_until_blocked
from tests.requests.bundles import item
from tests.workers import ResultsWorker, run_until_done, second_worker
from tests.world import ANN, ORG, drain, publish_vendor

HOLD = "SELECT FROM assent.outside_requests WHERE org_id = 'acme' FOR NO KEY UPDATE"
PUSH = "SELECT assent.push_result($1, $2, $3::jsonb)"


async def ask(results_worker: ResultsWorker, number: int = 1) -> list[UUID]:
    await publish_vendor(results_worker.database, expects=2)
    for _ in range(number):
        await results_worker.start()
    return [row["id"] for row in await results_worker.requests()]


async def test_one_key_from_two_connections_is_taken_once(results_worker: ResultsWorker) -> None:
    """The second waits for the first to commit, and then has nothing to do."""
    (request_id,) = await ask(results_worker)
    async with (
        results_worker.database.transaction(None) as observer,
        results_worker.database.transaction(ORG) as second,
    ):
        async with results_worker.database.transaction(ORG) as first:
            assert await first.fetchval(PUSH, request_id, "k", [item(1)]) == "accepted"
            waiting = asyncio.create_task(second.fetchval(PUSH, request_id, "k", [item(2)]))
            await wait_until_waiting(observer, second)
        assert await waiting == "repeated"
    await results_worker.work()
    assert [found["cargo"] for found in await results_worker.items()] == ["external://vault/1"]


@pytest.mark.parametrize(("cargo", "received"), [(1, 1), (2, 2)], ids=["the same", "another"])
async def test_two_workers_at_one_request_count_each_cargo_once(
    results_worker: ResultsWorker, database: Database, cargo: int, received: int
) -> None:
    """The second has a bundle of its own, waits for the request, and then sees what the first brought."""
    (request_id,) = await ask(results_worker)
    place = WorkerContext(database)
    async with second_worker(place) as other:
        async with database.transaction(None) as holding:
            await holding.execute(HOLD)
            await results_worker.push(request_id, "a", item(1))
            first = asyncio.create_task(Results(place).run_once())
            await wait_until_a_connection_is_blocked(holding)
            await results_worker.push(request_id, "b", item(cargo))
            second = asyncio.create_task(Results(other).run_once())
            await wait_until_blocked(holding, 2)
        done = [await first, await second]
    assert [one.parts for one in done] == [{"processed": 1}, {"processed": 1}]
    assert ((await results_worker.request())["received"], len(await results_worker.items())) == (
        received,
        received,
    )


async def test_a_cancellation_and_a_result_end_a_request_one_way(
    results_worker: ResultsWorker, database: Database
) -> None:
    """The worker has locked the request when its instance is cancelled: the result was first."""
    (request_id,) = await ask(results_worker)
    instance_id = (await results_worker.instance())["id"]
    await results_worker.push(request_id, "a", item(1), item(2))
    async with database.transaction(None) as holding:
        await holding.execute(HOLD)
        folding = asyncio.create_task(Results(WorkerContext(database)).run_once())
        await wait_until_a_connection_is_blocked(holding)
        cancelling = asyncio.create_task(
            results_worker.runtime.org(ORG, ANN).instances.cancel(instance_id, "mistaken")
        )
        await wait_until_blocked(holding, 2)
    await folding
    assert (await cancelling).status == "cancelled"
    await drain(results_worker.runtime)
    assert ((await results_worker.request())["status"], (await results_worker.instance())["status"]) == (
        "completed",
        "cancelled",
    )
    assert [what for what, _ in await results_worker.history()].count("completed") == 1
    assert "cancelled" not in [what for what, _ in await results_worker.history()]


async def test_a_worker_that_is_killed_in_the_middle_of_a_batch_loses_nothing(
    results_worker: ResultsWorker, database: Database
) -> None:
    """It has written items and requests, and dies before it has told anybody."""
    requests = await ask(results_worker, 3)
    for request_id in requests:
        await results_worker.push(request_id, "k", item(1), item(2))
    async with children(database, 1) as (child,):
        async with database.transaction(None) as holding:
            await holding.execute("LOCK TABLE assent.workflow_events_outbox IN ACCESS EXCLUSIVE MODE")
            asked = asyncio.create_task(child.ask("fold_results"))
            await wait_until_blocked(holding, 1)
            await child.kill()
        with pytest.raises(ChildDied):
            await asked
    assert {row["status"] for row in await results_worker.deliveries()} == {"running"}
    assert (await results_worker.items(), {row["received"] for row in await results_worker.requests()}) == (
        [],
        {0},
    )
    assert await results_worker.work() == {}, "they are the dead worker's until its lease is over"
    results_worker.clock.advance("61s")
    assert (await run_until_done(Rescue(WorkerContext(database)))).parts["results"] == 3
    assert await results_worker.work() == {"processed": 3}
    assert {row["status"] for row in await results_worker.requests()} == {"completed"}
    assert len(await results_worker.items()) == 6


@pytest.mark.parametrize("change", ["worker_id = gen_random_uuid()", "attempts = attempts + 1"])
async def test_a_bundle_is_folded_only_by_the_worker_and_the_attempt_that_have_it(
    results_worker: ResultsWorker, database: Database, change: str
) -> None:
    (request_id,) = await ask(results_worker)
    await results_worker.push(request_id, "a", item(1))
    worker_id = uuid4()
    async with database.transaction(None) as connection:
        (row,) = await JobQueue("result", worker_id).claim(connection, 10)
        claimed = ClaimedJob(*row[:JOB_COLUMNS])
        assert await hold_if_claimed(connection, worker_id, [claimed.job]) == {claimed.id}
        sql = f"UPDATE assent.jobs SET {change} WHERE org_id = $1 AND kind = 'result'"  # noqa: S608 - ours
        await connection.execute(sql, ORG)
        assert await hold_if_claimed(connection, worker_id, [claimed.job]) == set()
