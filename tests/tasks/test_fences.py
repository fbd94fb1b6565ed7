"""The fences of tasks: what an attempt may do ends with it, also for a worker that has the task again."""

import asyncio
from datetime import timedelta

import pytest

import assent
from assent.app import App
from assent.jobs.job import AttemptResult, Succeeded
from assent.jobs.queue import hold_if_claimed
from assent.store.connect import connect
from assent.store.database import Connection
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.settle import settle_if_claimed
from assent.worker.rescue import Rescue
from tests.postgres import SETTINGS
from tests.processes.spawn import wait_until_blocked as blocked
from tests.runtime.flows import ORG
from tests.tasks.workshop import Opened, Workshop
from tests.worker.queues import count


@pytest.fixture
def shop(app: App, opened: Opened) -> Workshop:
    @app.task("tests.note")
    async def note(what: str = "") -> str:
        return what

    return opened(rescue_batch_max=2)


@pytest.fixture
async def former(shop: Workshop) -> ClaimedTask:
    """The first attempt of a task whose worker was taken for gone, and has the task again as its second attempt."""
    await shop.submit("tests.note")
    (first,) = await shop.claim(1)
    assert (await shop.sweep())["tasks"] == 1
    (second,) = await shop.claim(1)
    assert (second.id, second.attempt) == (first.id, 2)
    return first


async def test_a_former_attempt_of_the_same_worker_does_not_settle_the_present_one(
    shop: Workshop, former: ClaimedTask
) -> None:
    async def settle(connection: Connection) -> list:
        mark = AttemptResult(former, Succeeded(result="late"), "done")
        settled, _ = await settle_if_claimed(connection, shop.duty._jobs.worker_id, [mark])
        return settled

    assert await shop.database.run(settle, org_id=None) == []
    assert await shop.status() == "running"
    assert [one["outcome"] for one in await shop.attempts()] == ["lost"]


async def test_a_former_attempt_of_the_same_worker_writes_nothing(
    shop: Workshop, former: ClaimedTask
) -> None:
    async with shop.database.transaction(None) as connection:
        assert not await hold_if_claimed(connection, shop.duty._jobs.worker_id, [former.job])


async def test_a_former_attempt_of_the_same_worker_is_not_taken_for_the_present_one(
    shop: Workshop, former: ClaimedTask
) -> None:
    async with shop.database.transaction(None) as connection:
        assert await shop.duty._queue.give_back_unknown(connection, [former.job]) == 1
    row = await shop.row()
    assert (row["status"], row["attempts"]) == ("queued", 1)


async def test_a_worker_that_is_gone_with_more_than_one_sweep_takes_is_found_again(shop: Workshop) -> None:
    await shop.runtime.org(ORG).tasks.submit_many([assent.NewTask("tests.note") for _ in range(5)])
    assert len(await shop.claim(5)) == 5
    assert (await shop.sweep())["tasks"] == 5
    assert {row["status"] for row in await shop.rows()} == {"queued"}
    assert await count(shop.database, "worker_leases") == 0


async def test_a_worker_cannot_come_back_while_its_tasks_are_given_to_others(shop: Workshop) -> None:
    await shop.submit("tests.note")
    await shop.claim(1)
    shop.database.clock.advance("2m")  # type: ignore[attr-defined]
    holder = await connect(shop.database.url, SETTINGS)
    try:
        async with holder.transaction():
            # The sweep stands before the rows in which it says that attempts were lost.
            await holder.execute("LOCK TABLE assent.job_attempts IN SHARE MODE")
            sweeping = asyncio.create_task(Rescue(shop.place).run_once())
            await blocked(holder, 1)
            renewing = asyncio.create_task(shop.duty._jobs.lease.renew(shop.database, timedelta(minutes=1)))
            await blocked(holder, 2)
        await asyncio.gather(sweeping, renewing)
    finally:
        await holder.close()
    assert await shop.status() == "queued"
