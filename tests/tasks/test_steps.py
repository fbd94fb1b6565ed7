"""Steps of type `task`: they rest until it has ended, go on by its outcome, and take it with them when they leave."""

import asyncio
from typing import Any

import pytest

import assent
from assent.app import App
from assent.jobs.job import AttemptResult, Failed
from assent.model.actor import Actor
from assent.runtime import InstanceView
from assent.store.clock import MovedClock
from assent.tasks.settle import settle_if_claimed
from assent.telemetry import scope
from assent.worker.timers import Timers
from tests.authored import END, arrows
from tests.plain_sql import wait_until_a_connection_is_blocked
from tests.workers import OpenTasksWorker, TasksWorker, run_until_done
from tests.world import ANN, OPS, ORG, drain, insert_org, publish_steps, rows, steps_of

STEP = {
    "id": "build",
    "type": "task",
    "task": "report.build",
    "input": {"month": "workflow.month"},
    "output": {"pages": "result.pages"},
}
CLERK = Actor("ann", capabilities=frozenset({"tasks:cancel"}))
ENDS = [END, {"id": "failed", "type": "terminal"}, {"id": "late", "type": "terminal"}]


@pytest.fixture
def tasks_worker(app: App, open_tasks_worker: OpenTasksWorker) -> TasksWorker:
    @app.task("report.build", attempts_max=2, priority=7)
    async def build(month: str) -> dict[str, Any]:
        if month == "never":
            raise RuntimeError("no such month")
        return {"pages": len(month)}

    return open_tasks_worker()


async def publish_step(tasks_worker: TasksWorker, **rest: Any) -> None:
    step = {**STEP, **rest}
    ways = [*arrows("build", "end"), *arrows("build", "failed", event="error")]
    if "timeout" in step:
        ways += arrows("build", "late", event="timeout")
    ends = [end for end in ENDS if end["id"] in ("end", *(way["to"] for way in ways))]
    await publish_steps(tasks_worker.database, "reports", [step, *ends], ways)


async def start(tasks_worker: TasksWorker, month: Any = "May") -> InstanceView:
    return await tasks_worker.runtime.org(ORG, ANN).instances.start("reports", {"month": month})


async def instance(tasks_worker: TasksWorker) -> dict[str, Any]:
    (found,) = await rows(tasks_worker.database, "workflow_instances")
    return found


async def test_task_of_an_instance_that_is_deleted_is_read_by_no_member(tasks_worker: TasksWorker) -> None:
    """Who could read the instance is not known any more; the list leaves the task out."""
    await publish_step(tasks_worker)
    await start(tasks_worker)
    await tasks_worker.work_and_tell()
    task, reader = await tasks_worker.row(), Actor("eve", capabilities=frozenset({"tasks:read"}))
    database, acme = tasks_worker.database, tasks_worker.runtime.org(ORG, reader)
    async with database.transaction(None) as connection:
        await insert_org(connection, settings={"retention_days": 1})
    database.clock.advance("3d")  # type: ignore[attr-defined]
    async with database.transaction(None) as connection:
        await connection.execute("SELECT assent.delete_ended_instances(10)")
    assert await rows(database, "workflow_instances") == []
    assert not (await acme.tasks.list()).items
    for read in (acme.tasks.get, acme.tasks.tree, acme.tasks.log):
        with pytest.raises(assent.Refused, match="NOT_FOUND"):
            await read(task["id"])
    assert (await tasks_worker.runtime.org(ORG).tasks.get(task["id"])).input == {"month": "May"}


async def step(tasks_worker: TasksWorker, view: InstanceView) -> dict[str, Any]:
    return next(step for step in await steps_of(tasks_worker.database, view.id) if step["node_id"] == "build")


async def test_it_rests_until_the_task_is_complete_and_takes_its_output(tasks_worker: TasksWorker) -> None:
    await publish_step(tasks_worker)
    view = await start(tasks_worker)
    assert [waiting.name for waiting in view.waiting] == ["build"]
    row = await tasks_worker.row()
    expected = {"type": "report.build", "input": {"month": "May"}, "awaited": True, "priority": 7}
    assert expected.items() <= row.items()
    assert (row["attempts_max"], row["submitted_by"], row["instance_id"]) == (2, "ann", view.id)
    await tasks_worker.work_and_tell()
    found = await instance(tasks_worker)
    assert (found["status"], found["context_json"]["pages"]) == ("completed", 3)
    ended = await step(tasks_worker, view)
    assert (ended["status"], ended["output_json"]["result"]) == ("completed", {"pages": 3})


async def test_a_dead_task_takes_the_error_edge(tasks_worker: TasksWorker, clock: MovedClock) -> None:
    await publish_step(tasks_worker)
    view = await start(tasks_worker, "never")
    await tasks_worker.work_and_tell()
    assert (await instance(tasks_worker))["status"] == "running", "there is another attempt"
    clock.advance("1h")
    await tasks_worker.work_and_tell()
    assert (await instance(tasks_worker))["status"] == "completed"
    ended = await step(tasks_worker, view)
    assert (ended["status"], ended["output_json"]["error"]["code"]) == ("failed", "TASK_FAILED")
    assert ended["output_json"]["error"]["message"] == "RuntimeError: no such month"


async def test_a_task_that_somebody_cancels_takes_the_error_edge(tasks_worker: TasksWorker) -> None:
    await publish_step(tasks_worker)
    view = await start(tasks_worker)
    await tasks_worker.runtime.org(ORG, CLERK).tasks.cancel((await tasks_worker.row())["id"])
    await drain(tasks_worker.runtime)
    error = (await step(tasks_worker, view))["output_json"]["error"]
    assert (error["code"], error["message"]) == ("TASK_CANCELLED", "cancelled by ann")


async def test_a_task_whose_workers_die_takes_the_error_edge(
    tasks_worker: TasksWorker, open_tasks_worker: OpenTasksWorker
) -> None:
    await publish_step(tasks_worker)
    view = await start(tasks_worker)
    for _ in range(2):
        assert len(await open_tasks_worker().claim(1)) == 1
        await tasks_worker.sweep()
    await drain(tasks_worker.runtime)
    assert (await step(tasks_worker, view))["output_json"]["error"]["code"] == "TASK_LOST"
    assert await tasks_worker.status() == "dead"


async def test_without_await_it_goes_on_when_the_task_is_submitted(tasks_worker: TasksWorker) -> None:
    await publish_step(tasks_worker, **{"await": False, "output": {}})
    await start(tasks_worker)
    assert (await instance(tasks_worker))["status"] == "completed"
    row = await tasks_worker.row()
    assert (row["status"], row["awaited"]) == ("queued", False)
    await tasks_worker.work_and_tell()
    assert await tasks_worker.status() == "done"


async def test_its_own_priority_comes_before_that_of_the_type(tasks_worker: TasksWorker) -> None:
    await publish_step(tasks_worker, priority=250)
    await start(tasks_worker)
    assert (await tasks_worker.row())["priority"] == 250


async def test_its_time_is_over_and_the_task_is_cancelled(
    tasks_worker: TasksWorker, clock: MovedClock
) -> None:
    await publish_step(tasks_worker, timeout="1h")
    view = await start(tasks_worker)
    clock.advance("1h")
    await run_until_done(Timers(tasks_worker.place))
    await drain(tasks_worker.runtime)
    assert (await step(tasks_worker, view))["output_json"]["timed_out"] is True
    assert (await instance(tasks_worker))["status"] == "completed"
    assert await tasks_worker.status() == "cancelled"


async def test_an_instance_that_is_cancelled_cancels_its_task(tasks_worker: TasksWorker) -> None:
    await publish_step(tasks_worker)
    view = await start(tasks_worker)
    await tasks_worker.claim(1)
    await tasks_worker.runtime.org(ORG, ANN).instances.cancel(view.id, "not needed")
    assert await tasks_worker.status() == "cancelled"
    assert await drain(tasks_worker.runtime) == 0, "nobody is told what nobody waits for"


@pytest.mark.parametrize(
    ("rest", "month", "code"),
    [
        ({"task": "report.burn"}, "May", "UNKNOWN_TASK"),
        ({}, 5, "WRONG_TYPE"),
        ({"input": {}}, 5, "MISSING_KEY"),
    ],
)
async def test_what_the_application_does_not_take_takes_the_error_edge(
    tasks_worker: TasksWorker, rest: dict[str, Any], month: Any, code: str
) -> None:
    await publish_step(tasks_worker, **rest)
    view = await start(tasks_worker, month)
    assert (await step(tasks_worker, view))["output_json"]["error"]["code"] == code
    assert await tasks_worker.rows() == []


async def test_a_step_that_is_tried_again_submits_another_task(
    tasks_worker: TasksWorker, clock: MovedClock
) -> None:
    await publish_steps(tasks_worker.database, "reports", [STEP, END], arrows("build", "end"))
    view = await start(tasks_worker, "never")
    for _ in range(2):
        await tasks_worker.work_and_tell()
        clock.advance("1h")
    assert (await instance(tasks_worker))["status"] == "paused"
    await tasks_worker.runtime.org(ORG, OPS).instances.retry(view.id)
    assert [row["status"] for row in await tasks_worker.rows()] == ["dead", "queued"]


async def test_the_task_ends_with_its_answer_in_one_transaction(tasks_worker: TasksWorker) -> None:
    """Held at the answer, the task is not complete for anybody else."""
    await publish_step(tasks_worker)
    await start(tasks_worker)
    async with tasks_worker.database.transaction(None) as connection:
        await connection.execute("LOCK TABLE assent.workflow_outbox_receipts IN SHARE MODE")
        working = asyncio.create_task(tasks_worker.work())

        await wait_until_a_connection_is_blocked(connection)
        assert await connection.fetchval("SELECT status FROM assent.jobs WHERE org_id = 'acme'") == "running"
    assert await working == {"done": 1}


async def test_a_traced_step_hands_its_trace_on(tasks_worker: TasksWorker) -> None:

    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await publish_step(tasks_worker)
    with scope(trace=trace):
        await start(tasks_worker)
    assert (await tasks_worker.row())["trace_id"] == trace
    await tasks_worker.work()
    told = [
        row
        for row in await rows(tasks_worker.database, "workflow_events_outbox")
        if row["event_type"] == "on_event"
    ]
    assert [row["trace_id"] for row in told] == [trace]


async def test_retrying_all_dead_tasks_leaves_those_that_a_step_has_given_up(
    tasks_worker: TasksWorker, clock: MovedClock
) -> None:
    await publish_step(tasks_worker)
    await start(tasks_worker, "never")
    for _ in range(2):
        await tasks_worker.work_and_tell()
        clock.advance("1h")
    assert (await tasks_worker.status(), (await instance(tasks_worker))["current_nodes"]) == ("dead", [])
    assert await tasks_worker.runtime.org(ORG).tasks.retry_all() == 0
    assert await tasks_worker.status() == "dead"


async def test_a_former_attempt_tells_the_step_nothing(
    tasks_worker: TasksWorker, open_tasks_worker: OpenTasksWorker
) -> None:
    await publish_step(tasks_worker)
    overtaken = await start(tasks_worker)
    (former,) = await tasks_worker.claim(1)
    assert (await tasks_worker.sweep())["tasks"] == 1
    (present,) = await open_tasks_worker().claim(1)
    assert (present.id, present.attempt) == (former.id, 2)
    other = await start(tasks_worker)
    (fresh,) = await tasks_worker.claim(1)
    late, in_time = (
        AttemptResult(task, Failed("BROKEN", "failed"), "dead", error="failed") for task in (former, fresh)
    )
    async with tasks_worker.database.transaction(None) as connection:
        settled, _ = await settle_if_claimed(connection, tasks_worker.duty._jobs.worker_id, [late, in_time])
    assert settled == [in_time]
    assert await drain(tasks_worker.runtime) == 1
    assert (await step(tasks_worker, overtaken))["status"] == "pending"
    assert (await step(tasks_worker, other))["output_json"]["error"]["code"] == "BROKEN"
