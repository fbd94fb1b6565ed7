"""What functions and classes return and raise, what follows from it, and what is kept of it."""

import asyncio
from typing import Any

import asyncpg
import httpx
import pytest

import assent
from assent.app import App
from assent.store.clock import MovedClock
from tests.workers import OpenTasksWorker, TasksWorker


async def outcome_of(worker: TasksWorker, type: str, input: Any = None) -> dict[str, Any]:
    """Submit a task, run it once, and return its attempt."""
    task_id = await worker.submit(type, input)
    await worker.work()
    return (await worker.attempts(task_id))[-1]


async def test_class_with_hooks_is_a_task(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    class Greet:
        """Greets people."""

        async def on_start(self, task: assent.TaskContext, name: str, times: int = 1) -> assent.Complete:
            return assent.Complete({"text": f"hello {name} " * times, "attempt": task.attempt})

    greet = app.task("tests.greet", attempts_max=2)(Greet)
    worker = open_tasks_worker()
    assert greet.__doc__ == "Greets people."
    assert greet.name == "tests.greet"
    task_id = (await greet.submit(worker.runtime.org("acme"), name="ann", times=2)).id
    await worker.work()
    assert (await worker.attempts(task_id))[0]["output"] == {"text": "hello ann hello ann ", "attempt": 1}
    with pytest.raises(assent.Refused, match="often"):
        await greet.submit(worker.runtime.org("acme"), name="ann", often=2)


async def test_each_attempt_has_an_object_of_its_own(
    app: App, open_tasks_worker: OpenTasksWorker, clock: MovedClock
) -> None:
    @app.task("tests.count")
    class Count:
        def __init__(self) -> None:
            self.runs = 0

        def on_start(self) -> int:
            self.runs += 1
            if self.runs == 1 and not seen:
                seen.append(self.runs)
                raise TimeoutError("once more")
            return self.runs

    seen: list[int] = []
    worker = open_tasks_worker()
    await worker.submit("tests.count")
    await worker.work()
    clock.advance("1m")
    await worker.work()
    assert [one["output"] for one in await worker.attempts()] == [None, 1]


class Unfit:
    async def on_start(self, number: int) -> None: ...

    async def on_resume(self, digit: int) -> None: ...


class Hookless:
    async def start(self) -> None: ...


@pytest.mark.parametrize(
    ("declared", "says"),
    [(Unfit, "takes `digit`, which `on_start` does not"), (Hookless, "has no `on_start`")],
)
def test_class_that_can_be_no_task_is_refused(app: App, declared: type, says: str) -> None:
    with pytest.raises(assent.Invalid, match=says):
        app.task("tests.unfit")(declared)


async def test_attributes_of_a_class_do_not_hide_those_of_its_handle(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    class Named:
        name = "another"
        function = "none"

        async def on_start(self) -> str:
            return self.name

    named = app.task("tests.named")(Named)
    worker = open_tasks_worker()
    await named.submit(worker.runtime.org("acme"))
    await worker.work()
    assert (await worker.attempt())["output"] == "another"


TRANSIENT = [
    TimeoutError("slow"),
    ConnectionResetError("gone"),
    FileNotFoundError("not yet there"),
    EOFError("cut"),
    httpx.ReadTimeout("slow"),
    asyncpg.ConnectionDoesNotExistError("gone"),
    asyncpg.SerializationError("lost against others"),
]
PERMANENT = [
    ValueError("wrong"),
    KeyError("name"),
    ZeroDivisionError(),
    asyncpg.UniqueViolationError("twice"),
]


@pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: type(error).__name__)
async def test_class_tries_io_and_timeouts_again(
    app: App, open_tasks_worker: OpenTasksWorker, error: Exception
) -> None:
    assert assent.is_transient(error)
    await expect(app, open_tasks_worker, error, {}, "retrying")


@pytest.mark.parametrize("error", PERMANENT, ids=lambda error: type(error).__name__)
async def test_class_does_not_try_other_errors_again(
    app: App, open_tasks_worker: OpenTasksWorker, error: Exception
) -> None:
    assert not assent.is_transient(error)
    await expect(app, open_tasks_worker, error, {}, "dead")


@pytest.mark.parametrize(
    ("options", "error", "status"),
    [
        ({"retry_on": ValueError}, ValueError("wrong"), "retrying"),
        ({"retry_on": ValueError}, TimeoutError("slow"), "dead"),
        ({"retry_on": (ValueError, OSError)}, TimeoutError("slow"), "retrying"),
        ({"retry_on": lambda error: "again" in str(error)}, ValueError("again"), "retrying"),
        ({"retry_on": lambda error: "again" in str(error)}, ValueError("never"), "dead"),
    ],
)
async def test_type_of_task_says_which_errors_are_tried_again(
    app: App, open_tasks_worker: OpenTasksWorker, options: dict[str, Any], error: Exception, status: str
) -> None:
    await expect(app, open_tasks_worker, error, options, status)


async def expect(
    app: App, open_worker: OpenTasksWorker, error: Exception, options: dict[str, Any], status: str
) -> None:
    class Raise:
        async def on_start(self) -> None:
            raise error

    app.task("tests.raise", **options)(Raise)
    worker = open_worker()
    attempt = await outcome_of(worker, "tests.raise")
    assert await worker.status() == status
    assert (attempt["code"], attempt["error_type"]) == ("TASK_FAILED", type(error).__name__)
    assert attempt["retryable"] is (status == "retrying")


async def test_function_tries_every_error_again_unless_it_says_which(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    """As it always did: an error of the code is gone after the next deployment, and nothing was lost."""

    @app.task("tests.any")
    async def fail_always() -> None:
        raise ValueError("wrong")

    @app.task("tests.some", retry_on=OSError)
    async def fail_with_io() -> None:
        raise ValueError("wrong")

    worker = open_tasks_worker()
    assert (await outcome_of(worker, "tests.any"))["retryable"] is True
    assert (await outcome_of(worker, "tests.some"))["retryable"] is False
    assert [row["status"] for row in await worker.rows()] == ["retrying", "dead"]


@pytest.mark.parametrize("is_plain", [False, True])
async def test_stack_trace_is_kept_from_the_function_on(
    app: App, open_tasks_worker: OpenTasksWorker, is_plain: bool
) -> None:
    def divide(number: int) -> float:
        return 1 / number

    async def divide_later(number: int) -> float:
        return divide(number)

    app.task("tests.divide")(divide if is_plain else divide_later)
    attempt = await outcome_of(open_tasks_worker(), "tests.divide", {"number": 0})
    lines = attempt["stack_trace"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert "in divide" in attempt["stack_trace"]
    assert "return 1 / number" in attempt["stack_trace"]
    assert "assent/tasks/attempt.py" not in attempt["stack_trace"], "it begins with the function"
    assert attempt["error_type"] == "ZeroDivisionError"


async def test_stack_trace_is_cut_and_can_be_kept(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    @app.task("tests.odd")
    async def odd() -> None:
        raise RuntimeError("\0 and \ud800" + "x" * 20_000 + " the end")

    attempt = await outcome_of(open_tasks_worker(), "tests.odd")
    assert len(attempt["stack_trace"]) <= 8_100
    assert attempt["stack_trace"].strip().endswith("the end")


@pytest.mark.parametrize(
    ("returned", "status", "code"),
    [
        (assent.Failed("DAMAGED", "the file is damaged", permanent=True), "dead", "DAMAGED"),
        (assent.Failed("BUSY", "the scanner is busy"), "retrying", "BUSY"),
    ],
)
async def test_function_returns_its_failure(
    app: App, open_tasks_worker: OpenTasksWorker, returned: Any, status: str, code: str
) -> None:
    @app.task("tests.fail")
    async def fail(task: assent.TaskContext) -> Any:
        async with task.transaction() as connection:
            await connection.execute("SELECT pg_notify('tests', '')")
        return returned

    worker = open_tasks_worker()
    attempt = await outcome_of(worker, "tests.fail")
    assert (await worker.status(), attempt["code"], attempt["error_type"]) == (status, code, None)


async def test_blocked_without_subtasks_is_refused(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    """Nothing would ever resume it."""

    @app.task("tests.blocked")
    async def block() -> assent.Blocked:
        return assent.Blocked()

    worker = open_tasks_worker()
    attempt = await outcome_of(worker, "tests.blocked")
    assert (await worker.status(), attempt["code"]) == ("dead", "TASK_MISUSED")


async def test_subtasks_without_blocked_are_refused(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    """They would be lost without a word."""

    @app.task("tests.forget")
    async def forget(task: assent.TaskContext, depth: int = 0) -> None:
        task.subtask("tests.forget", {"depth": 1})

    worker = open_tasks_worker()
    attempt = await outcome_of(worker, "tests.forget")
    assert (await worker.status(), attempt["code"]) == ("dead", "TASK_MISUSED")


async def test_thread_of_a_class_hook_blocks_no_other_task(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    loop = asyncio.get_running_loop()

    @app.task("tests.thread")
    class Thread:
        def on_start(self) -> bool:
            try:
                return asyncio.get_running_loop() is loop
            except RuntimeError:
                return False

    assert (await outcome_of(open_tasks_worker(), "tests.thread"))["output"] is False
