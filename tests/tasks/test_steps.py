"""Steps of type `task`: they rest until it has ended, go on by its outcome, and take it with them when they leave."""

import asyncio
from typing import Any

import pytest

from assent.app import App
from assent.jobs.job import AttemptResult, Failed
from assent.runtime import InstanceView
from assent.store.clock import MovedClock
from assent.tasks.settle import settle_if_claimed
from assent.telemetry import scope
from assent.worker.timers import Timers
from tests.runtime.flows import ANN, END, OPS, ORG, arrows, drain, publish, rows, steps_of
from tests.tasks.workshop import Opened, Workshop
from tests.worker.queues import run_until_done, wait_until_somebody_is_blocked

STEP = {
    "id": "build",
    "type": "task",
    "task": "report.build",
    "input": {"month": "workflow.month"},
    "output": {"pages": "result.pages"},
}
ENDS = [END, {"id": "failed", "type": "terminal"}, {"id": "late", "type": "terminal"}]


@pytest.fixture
def shop(app: App, opened: Opened) -> Workshop:
    @app.task("report.build", attempts_max=2, priority=7)
    async def build(month: str) -> dict[str, Any]:
        if month == "never":
            raise RuntimeError("no such month")
        return {"pages": len(month)}

    return opened()


async def publish_step(shop: Workshop, **rest: Any) -> None:
    step = {**STEP, **rest}
    ways = [*arrows("build", "end"), *arrows("build", "failed", event="error")]
    if "timeout" in step:
        ways += arrows("build", "late", event="timeout")
    ends = [end for end in ENDS if end["id"] in ("end", *(way["to"] for way in ways))]
    await publish(shop.database, "reports", [step, *ends], ways)


async def start(shop: Workshop, month: Any = "May") -> InstanceView:
    return await shop.runtime.org(ORG, ANN).instances.start("reports", {"month": month})


async def instance(shop: Workshop) -> dict[str, Any]:
    (found,) = await rows(shop.database, "workflow_instances")
    return found


async def step(shop: Workshop, view: InstanceView) -> dict[str, Any]:
    return next(step for step in await steps_of(shop.database, view.id) if step["node_id"] == "build")


async def test_it_rests_until_the_task_is_complete_and_takes_its_output(shop: Workshop) -> None:
    await publish_step(shop)
    view = await start(shop)
    assert [waiting.name for waiting in view.waiting] == ["build"]
    row = await shop.row()
    expected = {"type": "report.build", "input": {"month": "May"}, "awaited": True, "priority": 7}
    assert expected.items() <= row.items()
    assert (row["attempts_max"], row["submitted_by"], row["instance_id"]) == (2, "ann", view.id)
    await shop.work_and_tell()
    found = await instance(shop)
    assert (found["status"], found["context_json"]["pages"]) == ("completed", 3)
    ended = await step(shop, view)
    assert (ended["status"], ended["output_json"]["result"]) == ("completed", {"pages": 3})


async def test_a_dead_task_takes_the_error_edge(shop: Workshop, clock: MovedClock) -> None:
    await publish_step(shop)
    view = await start(shop, "never")
    await shop.work_and_tell()
    assert (await instance(shop))["status"] == "running", "there is another attempt"
    clock.advance("1h")
    await shop.work_and_tell()
    assert (await instance(shop))["status"] == "completed"
    ended = await step(shop, view)
    assert (ended["status"], ended["output_json"]["error"]["code"]) == ("failed", "TASK_FAILED")
    assert ended["output_json"]["error"]["message"] == "RuntimeError: no such month"


async def test_a_task_that_somebody_cancels_takes_the_error_edge(shop: Workshop) -> None:
    await publish_step(shop)
    view = await start(shop)
    await shop.runtime.org(ORG, ANN).tasks.cancel((await shop.row())["id"])
    await drain(shop.runtime)
    error = (await step(shop, view))["output_json"]["error"]
    assert (error["code"], error["message"]) == ("TASK_CANCELLED", "cancelled by ann")


async def test_a_task_whose_workers_die_takes_the_error_edge(shop: Workshop, opened: Opened) -> None:
    await publish_step(shop)
    view = await start(shop)
    for _ in range(2):
        assert len(await opened().claim(1)) == 1
        await shop.sweep()
    await drain(shop.runtime)
    assert (await step(shop, view))["output_json"]["error"]["code"] == "TASK_LOST"
    assert await shop.status() == "dead"


async def test_without_await_it_goes_on_when_the_task_is_submitted(shop: Workshop) -> None:
    await publish_step(shop, **{"await": False, "output": {}})
    await start(shop)
    assert (await instance(shop))["status"] == "completed"
    row = await shop.row()
    assert (row["status"], row["awaited"]) == ("queued", False)
    await shop.work_and_tell()
    assert await shop.status() == "done"


async def test_its_own_priority_comes_before_that_of_the_type(shop: Workshop) -> None:
    await publish_step(shop, priority=250)
    await start(shop)
    assert (await shop.row())["priority"] == 250


async def test_its_time_is_over_and_the_task_is_cancelled(shop: Workshop, clock: MovedClock) -> None:
    await publish_step(shop, timeout="1h")
    view = await start(shop)
    clock.advance("1h")
    await run_until_done(Timers(shop.place))
    await drain(shop.runtime)
    assert (await step(shop, view))["output_json"]["timed_out"] is True
    assert (await instance(shop))["status"] == "completed"
    assert await shop.status() == "cancelled"


async def test_an_instance_that_is_cancelled_cancels_its_task(shop: Workshop) -> None:
    await publish_step(shop)
    view = await start(shop)
    await shop.claim(1)
    await shop.runtime.org(ORG, ANN).instances.cancel(view.id, "not needed")
    assert await shop.status() == "cancelled"
    assert await drain(shop.runtime) == 0, "nobody is told what nobody waits for"


@pytest.mark.parametrize(
    ("rest", "month", "code"),
    [
        ({"task": "report.burn"}, "May", "UNKNOWN_TASK"),
        ({}, 5, "WRONG_TYPE"),
        ({"input": {}}, 5, "MISSING_KEY"),
    ],
)
async def test_what_the_application_does_not_take_takes_the_error_edge(
    shop: Workshop, rest: dict[str, Any], month: Any, code: str
) -> None:
    await publish_step(shop, **rest)
    view = await start(shop, month)
    assert (await step(shop, view))["output_json"]["error"]["code"] == code
    assert await shop.rows() == []


async def test_a_step_that_is_tried_again_submits_another_task(shop: Workshop, clock: MovedClock) -> None:
    await publish(shop.database, "reports", [STEP, END], arrows("build", "end"))
    view = await start(shop, "never")
    for _ in range(2):
        await shop.work_and_tell()
        clock.advance("1h")
    assert (await instance(shop))["status"] == "paused"
    await shop.runtime.org(ORG, OPS).instances.retry(view.id)
    assert [row["status"] for row in await shop.rows()] == ["dead", "queued"]


async def test_the_task_ends_with_its_answer_in_one_transaction(shop: Workshop) -> None:
    """Held at the answer, the task is not complete for anybody else."""
    await publish_step(shop)
    await start(shop)
    async with shop.database.transaction(None) as connection:
        await connection.execute("LOCK TABLE assent.workflow_outbox_receipts IN SHARE MODE")
        working = asyncio.create_task(shop.work())

        await wait_until_somebody_is_blocked(connection)
        assert await connection.fetchval("SELECT status FROM assent.jobs WHERE org_id = 'acme'") == "running"
    assert await working == {"done": 1}


async def test_a_traced_step_hands_its_trace_on(shop: Workshop) -> None:

    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await publish_step(shop)
    with scope(trace=trace):
        await start(shop)
    assert (await shop.row())["trace_id"] == trace
    await shop.work()
    told = [
        row for row in await rows(shop.database, "workflow_events_outbox") if row["event_type"] == "on_event"
    ]
    assert [row["trace_id"] for row in told] == [trace]


async def test_retrying_all_dead_tasks_leaves_those_that_a_step_has_given_up(
    shop: Workshop, clock: MovedClock
) -> None:
    await publish_step(shop)
    await start(shop, "never")
    for _ in range(2):
        await shop.work_and_tell()
        clock.advance("1h")
    assert (await shop.status(), (await instance(shop))["current_nodes"]) == ("dead", [])
    assert await shop.runtime.org(ORG).tasks.retry_all() == 0
    assert await shop.status() == "dead"


async def test_a_former_attempt_tells_the_step_nothing(shop: Workshop, opened: Opened) -> None:
    await publish_step(shop)
    overtaken = await start(shop)
    (former,) = await shop.claim(1)
    assert (await shop.sweep())["tasks"] == 1
    (present,) = await opened().claim(1)
    assert (present.id, present.attempt) == (former.id, 2)
    other = await start(shop)
    (fresh,) = await shop.claim(1)
    late, in_time = (
        AttemptResult(task, Failed("BROKEN", "failed"), "dead", error="failed") for task in (former, fresh)
    )
    async with shop.database.transaction(None) as connection:
        settled, _ = await settle_if_claimed(connection, shop.duty._jobs.worker_id, [late, in_time])
    assert settled == [in_time]
    assert await drain(shop.runtime) == 1
    assert (await step(shop, overtaken))["status"] == "pending"
    assert (await step(shop, other))["output_json"]["error"]["code"] == "BROKEN"
