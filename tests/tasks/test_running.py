"""What a task's function gets, what becomes of what it returns and raises, and how often it is tried."""

import asyncio
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

import assent
from assent.app import App
from assent.store.clock import MovedClock
from assent.worker.duty import RunResult
from tests.workers import OpenTasksWorker, TasksWorker


@pytest.fixture
def tried(app: App) -> list[int]:
    """Attempts at a task that fails as often as its input says."""
    tried: list[int] = []

    @app.task("tests.fail", attempts_max=3)
    async def fail(task: assent.TaskContext, times: int) -> str:
        tried.append(task.attempt)
        if task.attempt <= times:
            raise RuntimeError(f"attempt {task.attempt} failed")
        return "done"

    return tried


async def test_a_task_runs_and_its_output_is_kept(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    @app.task("tests.add")
    async def add(task: assent.TaskContext, a: int, b: int = 1) -> dict[str, Any]:
        return {"sum": a + b, "by": task.org_id, "first": task.attempt == 1, "key": task.key}

    tasks_worker = open_tasks_worker()
    task_id = await tasks_worker.submit("tests.add", {"a": 2})
    assert await tasks_worker.work() == {"done": 1}
    row, attempt = await tasks_worker.row(), await tasks_worker.attempt()
    assert (row["id"], row["status"], row["attempts"], row["worker_id"]) == (task_id, "done", 1, None)
    assert attempt["output"] == {"sum": 3, "by": "acme", "first": True, "key": str(task_id)}
    assert (attempt["outcome"], attempt["error"]) == ("done", None)


class OrderInput(BaseModel):
    number: int
    lines: list[str] = []


@dataclass
class Parcel:
    weight: float


async def test_a_model_or_a_dataclass_is_the_whole_input_and_may_be_the_output(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    @app.task("tests.pack")
    async def pack(order: OrderInput) -> Parcel:
        return Parcel(order.number * 1.5)

    @app.task("tests.send")
    def send(parcel: Parcel) -> OrderInput:
        return OrderInput(number=int(parcel.weight))

    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.pack", OrderInput(number=2))
    await tasks_worker.submit("tests.send", {"weight": 3})
    assert await tasks_worker.work() == {"done": 2}
    outputs = [(await tasks_worker.attempts(row["id"]))[0]["output"] for row in await tasks_worker.rows()]
    assert outputs == [{"weight": 3.0}, {"number": 3, "lines": []}]


async def test_a_plain_function_runs_in_a_thread_and_blocks_nobody(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    both = threading.Barrier(2, timeout=10)

    @app.task("tests.block")
    def block(input: dict[str, Any]) -> bool:
        both.wait()
        return threading.current_thread() is not threading.main_thread()

    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.block", {"any": "thing"})
    await tasks_worker.submit("tests.block")
    assert await tasks_worker.work() == {"done": 2}
    outputs = [(await tasks_worker.attempts(row["id"]))[0]["output"] for row in await tasks_worker.rows()]
    assert outputs == [True, True]


async def test_a_failure_is_tried_again_later_each_time_and_every_attempt_is_kept(
    open_tasks_worker: OpenTasksWorker, tried: list[int], clock: MovedClock
) -> None:
    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.fail", {"times": 2})
    assert await tasks_worker.work() == {"retrying": 1}
    row = await tasks_worker.row()
    assert (row["status"], row["attempts"]) == ("retrying", 1)
    assert timedelta(seconds=0.8) <= row["run_at"] - clock.now() <= timedelta(seconds=1.2)
    clock.advance("2s")
    assert await tasks_worker.work() == {"retrying": 1}
    assert (await tasks_worker.row())["run_at"] - clock.now() >= timedelta(seconds=1.6)
    assert await tasks_worker.work() == {}, "it is not due"
    clock.advance("3s")
    assert await tasks_worker.work() == {"done": 1}
    attempts = await tasks_worker.attempts()
    assert tried == [1, 2, 3]
    assert [(one["attempt"], one["outcome"], one["error"]) for one in attempts] == [
        (1, "failed", "RuntimeError: attempt 1 failed"),
        (2, "failed", "RuntimeError: attempt 2 failed"),
        (3, "done", None),
    ]


async def test_attempts_used_up_is_dead(
    open_tasks_worker: OpenTasksWorker, tried: list[int], clock: MovedClock
) -> None:
    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.fail", {"times": 9})
    for _ in range(5):
        await tasks_worker.work()
        clock.advance("1h")
    row = await tasks_worker.row()
    assert (row["status"], row["attempts"], tried) == ("dead", 3, [1, 2, 3])


async def test_giving_up_is_dead_at_once(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    @app.task("tests.give_up")
    async def give_up() -> None:
        raise assent.GiveUp("there is no such client")

    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.give_up")
    assert await tasks_worker.work() == {"dead": 1}
    attempt = await tasks_worker.attempt()
    assert (attempt["code"], attempt["error"]) == ("TASK_GAVE_UP", "there is no such client")


async def test_a_task_says_when_it_wants_to_be_tried_again(
    app: App, open_tasks_worker: OpenTasksWorker, clock: MovedClock
) -> None:
    @app.task("tests.later")
    async def later() -> None:
        raise assent.Retry("the bank is closed", after="12h")

    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.later")
    assert await tasks_worker.work() == {"retrying": 1}
    assert (await tasks_worker.row())["run_at"] == clock.now() + timedelta(hours=12)


async def test_an_attempt_has_its_time(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    @app.task("tests.sleep", timeout=timedelta(milliseconds=20))
    async def sleep() -> None:
        await asyncio.sleep(60)

    @app.task("tests.own_timeout", timeout="1h")
    async def own_timeout() -> None:
        raise TimeoutError("the other side's")

    tasks_worker = open_tasks_worker()
    started = time.monotonic()
    await tasks_worker.submit("tests.sleep")
    await tasks_worker.submit("tests.own_timeout")
    assert await tasks_worker.work() == {"retrying": 2}
    codes = [(await tasks_worker.attempts(row["id"]))[0]["code"] for row in await tasks_worker.rows()]
    assert codes == ["TASK_TIMED_OUT", "TASK_FAILED"]
    assert time.monotonic() - started < 30


async def test_output_that_cannot_be_kept_is_a_failed_attempt(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    @app.task("tests.odd")
    async def odd() -> object:
        return {"at": object()}

    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.odd")
    assert await tasks_worker.work() == {"retrying": 1}


async def test_errors_with_any_text_can_be_kept(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    @app.task("tests.odd")
    async def odd() -> None:
        raise RuntimeError("\0 and \ud800" + "x" * 5_000)

    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.odd")
    assert await tasks_worker.work() == {"retrying": 1}
    assert len((await tasks_worker.attempt())["error"]) <= 2_100


async def test_a_delayed_task_waits_for_its_time(
    app: App, open_tasks_worker: OpenTasksWorker, clock: MovedClock
) -> None:
    @app.task("tests.note")
    async def note() -> None: ...

    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.note", run_at=clock.now() + timedelta(hours=1))
    assert await tasks_worker.work() == {}
    clock.advance("1h")
    assert await tasks_worker.work() == {"done": 1}


async def test_higher_priority_first_then_the_oldest(
    app: App, open_tasks_worker: OpenTasksWorker, clock: MovedClock
) -> None:
    ran: list[str] = []

    @app.task("tests.note")
    async def note(name: str) -> None:
        ran.append(name)

    @app.task("tests.other", priority=200)
    async def other(name: str) -> None:
        ran.append(name)

    tasks_worker = open_tasks_worker(tasks_under_way_max=1, tasks_lanes=1)
    for name, priority in (("b", None), ("low", 1), ("c", None), ("high", 255)):
        await tasks_worker.submit("tests.note", {"name": name}, priority=priority)
        clock.advance("1s")
    await tasks_worker.submit("tests.other", {"name": "of its type"})
    await tasks_worker.work()
    assert ran == ["high", "of its type", "b", "c", "low"]


async def test_what_another_application_runs_is_left_to_it(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    @app.task("tests.note")
    async def note() -> None: ...

    knowing = open_tasks_worker()
    await knowing.submit("tests.note")
    assert await TasksWorker(App(), knowing.database).work() == {}
    assert await knowing.status() == "queued"
    assert await knowing.work() == {"done": 1}


async def test_something_new_is_begun_while_something_slow_is_under_way(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    begun, slow, quick = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.task("tests.slow")
    async def wait() -> None:
        begun.set()
        await asyncio.wait_for(slow.wait(), 20)

    @app.task("tests.quick")
    async def ring() -> None:
        quick.set()

    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.slow")
    running = asyncio.create_task(tasks_worker.duty.run_once())
    await asyncio.wait_for(begun.wait(), 20)
    await tasks_worker.submit("tests.quick")
    tasks_worker.duty.wake()
    done: RunResult = await running
    assert done.more
    async with asyncio.timeout(20):
        await tasks_worker.duty.run_once()
    assert quick.is_set()
    slow.set()
    assert await tasks_worker.work() == {"done": 2}
