"""The fences of tasks: what an attempt may do ends with it, also for a worker that has the task again."""

import asyncio
from datetime import timedelta

import pytest

import assent
from assent.app import App
from assent.jobs.job import AttemptResult, RetryPolicy, Succeeded, next_state
from assent.jobs.queue import hold_if_claimed
from assent.store.connection import connect
from assent.store.database import Connection
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.settle import settle_if_claimed
from assent.worker.rescue import Rescue
from tests.postgres import SETTINGS
from tests.processes.spawn import wait_until_blocked as blocked
from tests.workers import OpenTasksWorker, TasksWorker
from tests.world import ORG, count


@pytest.fixture
def tasks_worker(app: App, open_tasks_worker: OpenTasksWorker) -> TasksWorker:
    @app.task("tests.note")
    async def note(what: str = "") -> str:
        return what

    return open_tasks_worker(rescue_batch_max=2)


@pytest.fixture
async def former(tasks_worker: TasksWorker) -> ClaimedTask:
    """The first attempt of a task whose worker was taken for gone, and has the task again as its second attempt."""
    await tasks_worker.submit("tests.note")
    (first,) = await tasks_worker.claim(1)
    assert (await tasks_worker.sweep())["tasks"] == 1
    (second,) = await tasks_worker.claim(1)
    assert (second.id, second.attempt) == (first.id, 2)
    return first


async def test_a_former_attempt_of_the_same_worker_does_not_settle_the_present_one(
    tasks_worker: TasksWorker, former: ClaimedTask
) -> None:
    async def settle(connection: Connection) -> list:
        mark = AttemptResult(former, Succeeded(result="late"), "done")
        settled, _ = await settle_if_claimed(connection, tasks_worker.duty._jobs.worker_id, [mark])
        return settled

    assert await tasks_worker.database.run(settle, org_id=None) == []
    assert await tasks_worker.status() == "running"
    assert [one["outcome"] for one in await tasks_worker.attempts()] == ["lost"]


async def test_a_former_attempt_of_the_same_worker_writes_nothing(
    tasks_worker: TasksWorker, former: ClaimedTask
) -> None:
    async with tasks_worker.database.transaction(None) as connection:
        assert not await hold_if_claimed(connection, tasks_worker.duty._jobs.worker_id, [former.job])


async def test_a_former_attempt_of_the_same_worker_is_not_taken_for_the_present_one(
    tasks_worker: TasksWorker, former: ClaimedTask
) -> None:
    async with tasks_worker.database.transaction(None) as connection:
        assert await tasks_worker.duty._queue.give_back_unknown(connection, [former.job]) == 1
    row = await tasks_worker.row()
    assert (row["status"], row["attempts"]) == ("queued", 1)


async def test_a_worker_that_is_gone_with_more_than_one_sweep_takes_is_found_again(
    tasks_worker: TasksWorker,
) -> None:
    await tasks_worker.runtime.org(ORG).tasks.submit_many([assent.NewTask("tests.note") for _ in range(5)])
    assert len(await tasks_worker.claim(5)) == 5
    assert (await tasks_worker.sweep())["tasks"] == 5
    assert {row["status"] for row in await tasks_worker.rows()} == {"queued"}
    assert await count(tasks_worker.database, "worker_leases") == 0


async def test_a_worker_cannot_come_back_while_its_tasks_are_given_to_others(
    tasks_worker: TasksWorker,
) -> None:
    await tasks_worker.submit("tests.note")
    await tasks_worker.claim(1)
    tasks_worker.database.clock.advance("2m")  # type: ignore[attr-defined]
    holder = await connect(tasks_worker.database.url, SETTINGS)
    try:
        async with holder.transaction():
            # The sweep stands before the rows in which it says that attempts were lost.
            await holder.execute("LOCK TABLE assent.job_attempts IN SHARE MODE")
            sweeping = asyncio.create_task(Rescue(tasks_worker.place).run_once())
            await blocked(holder, 1)
            renewing = asyncio.create_task(
                tasks_worker.duty._jobs.lease.renew(tasks_worker.database, timedelta(minutes=1))
            )
            await blocked(holder, 2)
        await asyncio.gather(sweeping, renewing)
    finally:
        await holder.close()
    assert await tasks_worker.status() == "queued"


async def test_subtasks_of_a_fenced_attempt_are_not_submitted_with_those_of_the_present_one(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    """A worker that stood still for too long has two attempts at one task, and hands in both at once."""

    @app.task("tests.part")
    async def part() -> None: ...

    @app.task("tests.whole")
    async def whole(task: assent.TaskContext) -> assent.Blocked:
        task.subtask("tests.part")
        return assent.Blocked()

    worker = open_tasks_worker()
    whole_id = await worker.submit("tests.whole")
    results = []
    for _ in range(2):
        (claimed,) = await worker.claim(1)
        outcome = (await worker.duty._attempts.make(claimed)).outcome
        results.append(next_state(claimed, outcome, RetryPolicy()))
        if len(results) == 1:
            await worker.sweep()
    await worker.duty._exchange(results, 0)
    made = [row for row in await worker.rows() if row["parent_id"] == whole_id]
    assert len(made) == 1, "of the second attempt alone"
