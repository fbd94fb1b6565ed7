"""Tasks in the background: ended from outside, once, by whatever comes first; or by their time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

import assent
from assent.app import App
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.rescue import Unblock
from tests.authored import END, arrows
from tests.workers import OpenTasksWorker, TasksWorker, run_until_done
from tests.world import ANN, ORG, drain, fetch, publish_steps, steps_of


@pytest.fixture
def worker(app: App, open_tasks_worker: OpenTasksWorker) -> TasksWorker:
    @app.task("tests.print", attempts_max=2)
    async def print_it(name: str = "") -> assent.Background:
        return assent.Background("it is being printed", timeout="2h")

    return open_tasks_worker()


async def in_background(worker: TasksWorker) -> UUID:
    task_id = await worker.submit("tests.print")
    assert await worker.work() == {"background": 1}
    return task_id


End = Callable[[TasksWorker, UUID], Awaitable[object]]


async def complete(worker: TasksWorker, task_id: UUID) -> None:
    await worker.runtime.org(ORG).tasks.complete(task_id, {"pages": 3})


async def fail(worker: TasksWorker, task_id: UUID) -> None:
    await worker.runtime.org(ORG).tasks.fail(task_id, "no paper", code="OUT_OF_PAPER")


async def fail_for_now(worker: TasksWorker, task_id: UUID) -> None:
    await worker.runtime.org(ORG).tasks.fail(task_id, "no paper", code="OUT_OF_PAPER", retryable=True)


async def cancel(worker: TasksWorker, task_id: UUID) -> None:
    await worker.runtime.org(ORG).tasks.cancel(task_id)


async def expire(worker: TasksWorker, task_id: UUID) -> None:
    worker.database.clock.advance("3h")  # type: ignore[attr-defined]
    await run_until_done(Unblock(worker.place))


async def test_task_in_the_background_holds_no_place_and_no_lease(worker: TasksWorker) -> None:
    task_id = await in_background(worker)
    row, (attempt,) = await worker.row(), await worker.attempts(task_id)
    assert (row["status"], row["worker_id"], row["attempts"]) == ("background", None, 1)
    assert (attempt["outcome"], attempt["output"]) == ("background", {"reason": "it is being printed"})
    assert not worker.duty._jobs.is_held
    assert await worker.sweep() == {"tasks": 0, "effects": 0, "results": 0, "dead": 0}
    assert await worker.work() == {}


async def test_it_is_completed_from_outside(worker: TasksWorker) -> None:
    task_id = await in_background(worker)
    await complete(worker, task_id)
    view = await worker.runtime.org(ORG).tasks.get(task_id)
    assert (view.status, view.output) == ("done", {"pages": 3})
    assert [one.outcome for one in view.tried] == ["background", "done"]
    assert view.attempts_max - view.attempts == 1, "its end from outside is no attempt of its own"


async def test_it_is_failed_from_outside(worker: TasksWorker) -> None:
    task_id = await in_background(worker)
    await fail(worker, task_id)
    view = await worker.runtime.org(ORG).tasks.get(task_id)
    assert (view.status, view.tried[-1].code, view.tried[-1].error) == ("dead", "OUT_OF_PAPER", "no paper")
    await worker.runtime.org(ORG).tasks.retry(task_id)
    assert await worker.work() == {"background": 1}


async def test_failure_that_may_pass_is_tried_again_while_attempts_are_left(
    worker: TasksWorker, clock: MovedClock
) -> None:
    task_id = await in_background(worker)
    await fail_for_now(worker, task_id)
    assert await worker.status() == "retrying"
    clock.advance("1m")
    assert await worker.work() == {"background": 1}
    await fail_for_now(worker, task_id)
    assert await worker.status() == "dead"


async def test_time_that_is_over_has_used_its_attempt(worker: TasksWorker) -> None:
    task_id = await in_background(worker)
    await run_until_done(Unblock(worker.place))
    assert await worker.status() == "background", "it has two hours"
    await expire(worker, task_id)
    assert await worker.status() == "queued"
    assert await worker.work() == {"background": 1}
    await expire(worker, task_id)
    view = await worker.runtime.org(ORG).tasks.get(task_id)
    assert view.status == "dead"
    assert [one.code for one in view.tried] == [None, "TASK_EXPIRED", None, "TASK_EXPIRED"]


@pytest.mark.parametrize("second", [complete, fail, cancel], ids=lambda end: end.__name__)
@pytest.mark.parametrize(
    "first", [complete, fail, fail_for_now, cancel, expire], ids=lambda end: end.__name__
)
async def test_the_first_end_counts(worker: TasksWorker, first: End, second: End) -> None:
    task_id = await in_background(worker)
    await first(worker, task_id)
    before = await worker.row(), await worker.attempts(task_id)
    if second is cancel and before[0]["status"] in {"queued", "retrying"}:
        return  # it has not ended
    with pytest.raises(assent.Refused, match=r"TASK_NOT_UNDER_WAY|TASK_HAS_ENDED"):
        await second(worker, task_id)
    assert (await worker.row(), await worker.attempts(task_id)) == before


@pytest.mark.parametrize("other", [complete, fail, cancel], ids=lambda end: end.__name__)
async def test_two_that_end_it_at_once_have_one_winner(worker: TasksWorker, other: End) -> None:
    task_id = await in_background(worker)
    ends = [complete(worker, task_id), other(worker, task_id), expire(worker, task_id)]
    await asyncio.gather(*ends, return_exceptions=True)
    outcomes = [one["outcome"] for one in await worker.attempts(task_id)]
    assert len(outcomes) <= 2
    assert await worker.status() in {"done", "dead", "cancelled", "queued"}


async def test_system_that_is_quicker_than_the_function_has_its_say(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    """Its answer comes while the function that called it still runs; what that returns is dropped."""
    begun, broken = asyncio.Event(), asyncio.Event()

    @app.task("tests.call")
    async def call() -> assent.Background:
        begun.set()
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            broken.set()
            raise
        return assent.Background("called", "1h")

    worker = open_tasks_worker(tasks_interval_ms=20)
    task_id = await worker.submit("tests.call")
    await worker.duty.run_once()
    await begun.wait()
    await complete(worker, task_id)
    async with asyncio.timeout(60):
        while not broken.is_set():
            await worker.duty.run_once()
    assert (await worker.runtime.org(ORG).tasks.get(task_id)).output == {"pages": 3}
    assert [one["outcome"] for one in await worker.attempts(task_id)] == ["done"]


async def test_it_is_ended_in_sql_by_other_programs_of_its_org(worker: TasksWorker) -> None:
    done, failed = await in_background(worker), await in_background(worker)
    async with worker.database.transaction("globex") as connection:
        assert await connection.fetchval("SELECT assent.complete_task($1)", done) is None
    async with worker.database.transaction(ORG) as connection:
        ended = "SELECT assent.complete_task($1, $2), assent.fail_task($3, 'no paper', retryable => true)"
        assert tuple(await connection.fetchrow(ended, done, {"pages": 3}, failed)) == ("done", "retrying")
    assert {row["id"]: row["status"] for row in await worker.rows()} == {done: "done", failed: "retrying"}


@pytest.mark.parametrize("end", [complete, fail, expire], ids=lambda end: end.__name__)
async def test_step_that_waits_for_it_goes_on(worker: TasksWorker, database: Database, end: End) -> None:
    await publish_steps(
        database,
        "print",
        [{"id": "print", "type": "task", "task": "tests.print"}, END],
        arrows("print", "end"),
    )
    view = await worker.runtime.org(ORG, ANN).instances.start("print", {})
    for _ in range(2):
        await worker.work()
        if await worker.status() == "background":
            await end(worker, (await worker.row())["id"])
    await drain(worker.runtime)
    (step,) = [step for step in await steps_of(database, view.id) if step["node_id"] == "print"]
    if end is complete:
        assert step["status"] == "completed"
        assert step["output_json"]["result"] == {"pages": 3} or step["output_json"]
    else:
        assert step["status"] == "failed"


@pytest.mark.parametrize("end", [complete, fail, expire], ids=lambda end: end.__name__)
async def test_parent_that_waits_for_it_goes_on(app: App, worker: TasksWorker, end: End) -> None:
    @app.task("tests.whole")
    async def whole(task: assent.TaskContext) -> Any:
        if task.subtasks:
            return [one.output for one in task.subtasks]
        task.subtask("tests.print")
        return assent.Blocked()

    worker = TasksWorker(app, worker.database)
    task_id = await worker.submit("tests.whole")
    await worker.work()
    for _ in range(2):
        (child,) = [row for row in await worker.rows() if row["parent_id"] is not None]
        if child["status"] == "background":
            await end(worker, child["id"])
        await worker.work()
    await run_until_done(Unblock(worker.place))
    await worker.work()
    view = await worker.runtime.org(ORG).tasks.get(task_id)
    assert view.status == ("done" if end is complete else "dead")
    assert view.output == ([{"pages": 3}] if end is complete else None)


async def test_it_is_not_ended_from_outside_before_it_runs_or_in_another_partition(
    worker: TasksWorker,
) -> None:
    task_id = await worker.submit("tests.print")
    with pytest.raises(assent.Refused, match="TASK_NOT_UNDER_WAY"):
        await complete(worker, task_id)
    await worker.work()
    other = worker.runtime.org(ORG, partition_id="south")
    for ending in (other.tasks.complete(task_id), other.tasks.fail(task_id, "no paper")):
        with pytest.raises(assent.Refused, match="NOT_FOUND"):
            await ending
    assert await worker.status() == "background"


async def test_what_cannot_be_kept_is_refused(worker: TasksWorker) -> None:
    task_id = await in_background(worker)
    tasks = worker.runtime.org(ORG).tasks
    with pytest.raises(assent.Invalid):
        await tasks.complete(task_id, {"at": object()})
    with pytest.raises(assent.Refused, match="BLANK"):
        await tasks.fail(task_id, " ")
    assert (await fetch(worker.database, "SELECT status FROM assent.jobs WHERE org_id = 'acme'"))[0][
        0
    ] == "background"
