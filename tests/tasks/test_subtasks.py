"""Subtasks: made with their parent's block, waited for together, and what becomes of the parent then."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

import assent
from assent.app import App
from assent.jobs.job import AttemptResult, RetryPolicy, next_state
from assent.store.clock import MovedClock
from assent.store.database import Connection, Database
from assent.tasks.outcomes import BlockedBySubtasks
from assent.tasks.settle import settle_if_claimed
from assent.worker.rescue import Unblock
from assent.worker.tasks import Tasks
from tests.authored import END, arrows
from tests.plain_sql import wait_until_a_connection_is_blocked
from tests.workers import OpenTasksWorker, TasksWorker, run_until_done, second_worker
from tests.world import ANN, ORG, publish_steps, steps_of


class Trees:
    """A task that makes subtasks as its input says, and notes what is called."""

    def __init__(self, app: App) -> None:
        self.calls: list[tuple[str, str]] = []
        trees = self

        @app.task("tests.tree", attempts_max=2)
        class Tree:
            async def on_start(self, task: assent.TaskContext, name: str, parts: list[Any], ends: str) -> Any:
                trees.calls.append((name, "start"))
                for part in parts:
                    task.subtask("tests.tree", part)
                return assent.Blocked() if parts else trees.end(ends)

            async def on_resume(self, task: assent.TaskContext, name: str, ends: str) -> Any:
                trees.calls.append((name, "resume"))
                return trees.end(ends) or [one.output for one in task.subtasks]

            async def on_error(
                self, task: assent.TaskContext, name: str, ends: str, error: assent.TaskError
            ) -> Any:
                trees.calls.append((name, f"error {error.code}"))
                if ends == "handles":
                    return {"failed": [one.error.code for one in task.subtasks if one.error]}
                return assent.Failed(error.code, error.message, permanent=True)

    def end(self, ends: str) -> Any:
        match ends:
            case "dies":
                raise assent.GiveUp("as it was told")
            case "fails once":
                raise TimeoutError("once more")
        return None

    def called(self, name: str) -> list[str]:
        return [call for each, call in self.calls if each == name]


def tree(name: str, *parts: dict[str, Any], ends: str = "") -> dict[str, Any]:
    return {"name": name, "parts": list(parts), "ends": ends}


@pytest.fixture
def trees(app: App) -> Trees:
    return Trees(app)


@pytest.fixture
def worker(trees: Trees, open_tasks_worker: OpenTasksWorker) -> TasksWorker:
    return open_tasks_worker()


async def by_name(worker: TasksWorker) -> dict[str, dict[str, Any]]:
    return {row["input"]["name"]: row for row in await worker.rows()}


async def output(worker: TasksWorker, task_id: UUID) -> Any:
    return (await worker.runtime.org(ORG).tasks.get(task_id)).output


async def test_parent_goes_on_once_with_the_results_in_order(trees: Trees, worker: TasksWorker) -> None:
    task_id = await worker.submit(
        "tests.tree", tree("root", tree("a", tree("a1"), tree("a2")), tree("b"), tree("c"))
    )
    await worker.work()
    assert {row["status"] for row in await worker.rows()} == {"done"}
    assert trees.called("root") == ["start", "resume"]
    assert trees.called("a") == ["start", "resume"]
    assert await output(worker, task_id) == [[None, None], None, None]
    rows = await by_name(worker)
    assert rows["a1"]["parent_id"] == rows["a"]["id"]
    assert rows["root"]["parent_id"] is None


async def test_results_and_errors_are_found_by_subtask(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    seen: dict[str, Any] = {}

    @app.task("tests.part")
    async def part(number: int) -> int:
        if number == 2:
            raise assent.GiveUp("two is none of them")
        return number * 10

    @app.task("tests.whole")
    class Whole:
        async def on_start(self, task: assent.TaskContext) -> assent.Blocked:
            seen["ids"] = [task.subtask(part, {"number": number}) for number in range(4)]
            return assent.Blocked()

        async def on_error(self, task: assent.TaskContext, error: assent.TaskError) -> str:
            seen["results"] = [task.subtask_result(each) for each in seen["ids"]]
            seen["errors"] = [task.subtask_error(each) for each in seen["ids"]]
            seen["error"] = error
            with pytest.raises(LookupError, match="one of the 4 subtasks"):
                task.subtask_result(task.id)
            return "handled"

    worker = open_tasks_worker()
    task_id = await worker.submit("tests.whole")
    await worker.work()
    assert seen["results"] == [0, 10, None, 30]
    assert [error is None for error in seen["errors"]] == [True, True, False, True]
    assert (seen["error"].code, seen["error"].message) == ("TASK_GAVE_UP", "two is none of them")
    assert (seen["error"].type, seen["error"].subtask_id) == ("GiveUp", seen["ids"][2])
    assert "two is none of them" in seen["error"].stack_trace
    assert await output(worker, task_id) == "handled"
    assert await worker.runtime.org(ORG).dead_letters.list() == []


async def test_failures_arrive_once_after_all_siblings_have_ended(
    app: App, trees: Trees, worker: TasksWorker
) -> None:
    may_end = asyncio.Event()

    @app.task("tests.slow")
    async def slow() -> None:
        trees.calls.append(("slow", "began"))
        await may_end.wait()
        trees.calls.append(("slow", "ended"))

    @app.task("tests.mixed")
    class Mixed:
        def on_start(self, task: assent.TaskContext) -> assent.Blocked:
            for _ in range(3):
                task.subtask("tests.tree", tree("bad", ends="dies"))
            task.subtask("tests.slow")
            return assent.Blocked()

        def on_error(self, task: assent.TaskContext) -> int:
            trees.calls.append(("mixed", "error"))
            return len([one for one in task.subtasks if one.error])

    worker = TasksWorker(app, worker.database)
    task_id = await worker.submit("tests.mixed")
    for _ in range(20):
        await worker.duty.run_once()
    assert ("mixed", "error") not in trees.calls
    assert Counter(trees.calls)["bad", "start"] == 3
    may_end.set()
    await worker.work()
    assert trees.calls[-2:] == [("slow", "ended"), ("mixed", "error")]
    assert await output(worker, task_id) == 3


async def test_parent_without_a_hook_for_errors_dies_of_its_subtask(
    app: App, trees: Trees, worker: TasksWorker
) -> None:
    @app.task("tests.trusting")
    async def trust(task: assent.TaskContext) -> Any:
        task.subtask("tests.tree", tree("good"))
        task.subtask("tests.tree", tree("bad", ends="dies"))
        return assent.Blocked()

    worker = TasksWorker(app, worker.database)
    task_id = await worker.submit("tests.trusting")
    await worker.work()
    view = await worker.runtime.org(ORG).tasks.get(task_id)
    assert (view.status, view.tried[-1].code) == ("dead", "SUBTASK_FAILED")
    assert "TASK_GAVE_UP: as it was told" in (view.tried[-1].error or "")
    (letter,) = await worker.runtime.org(ORG).dead_letters.list()
    assert letter.id == task_id, "its subtask is no dead letter of its own"


async def test_plain_function_is_called_again_when_its_subtasks_have_ended(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    @app.task("tests.sum")
    def add(task: assent.TaskContext, numbers: list[int]) -> Any:
        if len(numbers) == 1:
            return numbers[0]
        if task.subtasks:
            return sum(one.output for one in task.subtasks)
        half = len(numbers) // 2
        task.subtask("tests.sum", {"numbers": numbers[:half]})
        task.subtask("tests.sum", {"numbers": numbers[half:]})
        return assent.Blocked()

    worker = open_tasks_worker()
    task_id = await worker.submit("tests.sum", {"numbers": list(range(20))})
    await worker.work()
    assert await output(worker, task_id) == 190


async def test_waiting_uses_no_attempt(trees: Trees, worker: TasksWorker) -> None:
    task_id = await worker.submit("tests.tree", tree("root", tree("a")))
    await worker.work()
    view = await worker.runtime.org(ORG).tasks.get(task_id)
    assert [one.outcome for one in view.tried] == ["blocked", "done"]
    assert view.attempts_max - view.attempts == 1, "of two attempts one is left"


async def test_attempt_that_fails_has_made_no_subtasks(app: App, trees: Trees, worker: TasksWorker) -> None:
    @app.task("tests.late")
    async def fail_late(task: assent.TaskContext) -> None:
        task.subtask("tests.tree", tree("never"))
        raise TimeoutError("too late")

    worker = TasksWorker(app, worker.database)
    await worker.submit("tests.late")
    assert await worker.work() == {"retrying": 1}
    assert len(await worker.rows()) == 1


async def test_fenced_worker_submits_no_subtasks(trees: Trees, worker: TasksWorker) -> None:
    """Its task was given to another: what it has made belongs to nothing."""
    await worker.submit("tests.tree", tree("root", tree("a")))
    (task,) = await worker.claim(1)
    ended = await worker.duty._attempts.make(task)
    assert isinstance(ended.outcome, BlockedBySubtasks)
    assert len(ended.outcome.subtasks) == 1
    await worker.sweep()
    result = AttemptResult(task, ended.outcome, "blocked")

    async def settle(connection: Connection) -> Sequence[Any]:
        return (await settle_if_claimed(connection, worker.duty._jobs.worker_id, [result]))[0]

    assert await worker.database.run(settle, org_id=None) == []
    assert len(await worker.rows()) == 1


async def test_subtasks_are_written_with_the_rows_of_their_parent(
    app: App, trees: Trees, worker: TasksWorker
) -> None:
    @app.task("tests.written")
    async def write(task: assent.TaskContext) -> Any:
        async with task.transaction() as connection:
            await connection.execute("SELECT 1")
        if not task.subtasks:
            task.subtask("tests.tree", tree("a"))
            return assent.Blocked()
        return "resumed"

    worker = TasksWorker(app, worker.database)
    task_id = await worker.submit("tests.written")
    await worker.work()
    assert await output(worker, task_id) == "resumed"


async def test_subtasks_may_be_made_again_and_only_the_last_ones_count(
    app: App, trees: Trees, worker: TasksWorker
) -> None:
    """A failure that was answered by other subtasks does not come back."""

    @app.task("tests.rounds")
    class Rounds:
        async def on_start(self, task: assent.TaskContext) -> Any:
            task.subtask("tests.tree", tree("bad", ends="dies"))
            return assent.Blocked()

        async def on_error(self, task: assent.TaskContext) -> Any:
            trees.calls.append(("rounds", "error"))
            task.subtask("tests.tree", tree("good"))
            return assent.Blocked()

        async def on_resume(self, task: assent.TaskContext) -> Any:
            trees.calls.append(("rounds", "resume"))
            return len(task.subtasks)

    worker = TasksWorker(app, worker.database)
    task_id = await worker.submit("tests.rounds")
    await worker.work()
    assert await output(worker, task_id) == 1
    assert trees.called("rounds") == ["error", "resume"]


async def test_hook_that_fails_is_tried_again_by_itself(
    app: App, trees: Trees, worker: TasksWorker, clock: MovedClock
) -> None:
    """The subtasks have ended, and are not made twice."""
    failed: list[str] = []

    @app.task("tests.shaky")
    class Shaky:
        async def on_start(self, task: assent.TaskContext) -> Any:
            trees.calls.append(("shaky", "start"))
            task.subtask("tests.tree", tree("a"))
            return assent.Blocked()

        async def on_resume(self, task: assent.TaskContext) -> str:
            trees.calls.append(("shaky", "resume"))
            if not failed:
                failed.append("once")
                raise TimeoutError("once more")
            return "resumed"

    worker = TasksWorker(app, worker.database)
    task_id = await worker.submit("tests.shaky")
    await worker.work()
    clock.advance("1h")
    await worker.work()
    assert await output(worker, task_id) == "resumed"
    assert trees.called("shaky") == ["start", "resume", "resume"]
    assert len(await worker.rows()) == 2


async def test_cancel_takes_the_whole_tree_with_it(trees: Trees, worker: TasksWorker) -> None:
    task_id = await worker.submit("tests.tree", tree("root", tree("a", tree("a1")), tree("b")))
    for _ in range(2):
        (claimed, *_) = await worker.claim(1)
        await run_claimed(worker, claimed)
    await worker.runtime.org(ORG).tasks.cancel(task_id)
    await worker.work()
    assert {name: row["status"] for name, row in (await by_name(worker)).items()} == dict.fromkeys(
        ("root", "a", "a1", "b"), "cancelled"
    )


async def run_claimed(worker: TasksWorker, *claimed: Any) -> None:
    """Run claimed tasks and write what came out of them, without resuming what waits for them."""
    results = [
        next_state(task, (await worker.duty._attempts.make(task)).outcome, RetryPolicy()) for task in claimed
    ]

    async def settle(connection: Connection) -> None:
        await settle_if_claimed(connection, worker.duty._jobs.worker_id, results)

    await worker.database.run(settle, org_id=None)


async def test_subtasks_that_are_made_while_their_tree_is_cancelled_are_cancelled(
    trees: Trees, worker: TasksWorker
) -> None:
    """The cancel waits for the row of a subtask that is just being blocked, and finds what it made."""
    task_id = await worker.submit("tests.tree", tree("root", tree("a", tree("a1"), tree("a2"))))
    await run_claimed(worker, *await worker.claim(1))
    (a,) = await worker.claim(1)
    ended = await worker.duty._attempts.make(a)
    async with worker.database.transaction(None) as connection:
        result = AttemptResult(a, ended.outcome, "blocked")
        await settle_if_claimed(connection, worker.duty._jobs.worker_id, [result])
        cancelling = asyncio.create_task(worker.runtime.org(ORG).tasks.cancel(task_id))
        await wait_until_a_connection_is_blocked(connection)
    await cancelling
    assert {name: row["status"] for name, row in (await by_name(worker)).items()} == dict.fromkeys(
        ("root", "a", "a1", "a2"), "cancelled"
    )


async def test_cancelled_subtask_has_failed(trees: Trees, worker: TasksWorker) -> None:
    task_id = await worker.submit("tests.tree", tree("root", tree("a"), tree("b"), ends="handles"))
    await run_claimed(worker, *await worker.claim(1))
    rows = await by_name(worker)
    await worker.runtime.org(ORG).tasks.cancel(rows["a"]["id"])
    await worker.work()
    assert await output(worker, task_id) == {"failed": ["TASK_CANCELLED"]}


async def test_last_subtask_that_is_cancelled_resumes_its_parent(trees: Trees, worker: TasksWorker) -> None:
    task_id = await worker.submit("tests.tree", tree("root", tree("a"), ends="handles"))
    await run_claimed(worker, *await worker.claim(1))
    await worker.runtime.org(ORG).tasks.cancel((await by_name(worker))["a"]["id"])
    assert (await by_name(worker))["root"]["status"] == "queued"
    await worker.work()
    assert await output(worker, task_id) == {"failed": ["TASK_CANCELLED"]}


async def test_two_that_end_the_last_subtasks_at_once_do_not_both_miss_it(
    trees: Trees, worker: TasksWorker
) -> None:
    """Neither transaction sees the other's end; what resumes the parent begins after both."""
    task_id = await worker.submit("tests.tree", tree("root", tree("a"), tree("b")))
    await run_claimed(worker, *await worker.claim(1))
    other_worker = TasksWorker(worker.app, worker.database)
    (first,), (second,) = await worker.claim(1), await other_worker.claim(1)
    outcomes = [(await worker.duty._attempts.make(task)).outcome for task in (first, second)]
    async with worker.database.transaction(None) as one, worker.database.transaction(None) as other:
        for connection, duty, task, outcome in (
            (one, worker.duty, first, outcomes[0]),
            (other, other_worker.duty, second, outcomes[1]),
        ):
            result = AttemptResult(task, outcome, "done")
            await settle_if_claimed(connection, duty._jobs.worker_id, [result])
    worker.duty._parents = {(ORG, task_id)}
    await worker.work()
    assert trees.called("root") == ["start", "resume"]


async def test_parent_whose_worker_died_before_it_was_resumed_is_found(
    trees: Trees, worker: TasksWorker
) -> None:
    task_id = await worker.submit("tests.tree", tree("root", tree("a")))
    await run_claimed(worker, *await worker.claim(1))
    await run_claimed(worker, *await worker.claim(1))
    assert (await by_name(worker))["root"]["status"] == "blocked"
    assert (await run_until_done(Unblock(worker.place))).parts == {"resumed": 1, "expired": 0}
    assert (await run_until_done(Unblock(worker.place))).parts == {"resumed": 0, "expired": 0}
    await worker.work()
    assert (await worker.runtime.org(ORG).tasks.get(task_id)).status == "done"


async def test_subtask_that_dies_with_its_worker_fails_its_parent(trees: Trees, worker: TasksWorker) -> None:
    task_id = await worker.submit("tests.tree", tree("root", tree("a"), ends="handles"))
    await run_claimed(worker, *await worker.claim(1))
    for _ in range(2):
        assert len(await worker.claim(1)) == 1
        await worker.sweep()
        worker.database.clock.advance("10m")  # type: ignore[attr-defined]
    rows = await by_name(worker)
    assert (rows["a"]["status"], rows["a"]["resolved"]) == ("dead", True)
    await run_until_done(Unblock(worker.place))
    await worker.work()
    assert await output(worker, task_id) == {"failed": ["TASK_LOST"]}


async def test_retry_of_a_dead_parent_retries_its_dead_subtasks(
    app: App, trees: Trees, worker: TasksWorker
) -> None:
    is_mended: list[bool] = []

    @app.task("tests.mended", attempts_max=1)
    async def mend() -> str:
        if not is_mended:
            raise TimeoutError("not yet")
        return "mended"

    @app.task("tests.whole", attempts_max=1)
    async def whole(task: assent.TaskContext, depth: int) -> Any:
        if task.subtasks:
            return [one.output for one in task.subtasks]
        task.subtask("tests.mended") if not depth else task.subtask("tests.whole", {"depth": depth - 1})
        task.subtask("tests.tree", tree("good"))
        return assent.Blocked()

    worker = TasksWorker(app, worker.database)
    task_id = await worker.submit("tests.whole", {"depth": 2})
    await worker.work()
    dead = [row for row in await worker.rows() if row["status"] == "dead"]
    assert len(dead) == 4
    with pytest.raises(assent.Refused, match="TASK_WAS_AWAITED"):
        await worker.runtime.org(ORG).tasks.retry(dead[-1]["id"])
    is_mended.append(True)
    await worker.runtime.org(ORG).tasks.retry(task_id)
    await worker.work()
    await run_until_done(Unblock(worker.place))
    await worker.work()
    assert {row["status"] for row in await worker.rows()} == {"done"}
    assert await output(worker, task_id) == [[["mended", None], None], None]
    assert trees.called("good") == ["start"] * 3, "what was done is not done again"


async def test_step_that_is_left_takes_the_subtasks_of_its_task_along(
    app: App, trees: Trees, worker: TasksWorker, database: Database
) -> None:
    node = {
        "id": "build", "type": "task", "task": "tests.tree",
        "input": {"name": "'root'", "parts": "workflow.parts", "ends": "''"},
    }  # fmt: skip
    await publish_steps(database, "build", [node, END], arrows("build", "end"))
    worker = TasksWorker(app, database)
    view = await worker.runtime.org(ORG, ANN).instances.start("build", {"parts": [tree("a"), tree("b")]})
    await run_claimed(worker, *await worker.claim(1))
    rows = await by_name(worker)
    assert {row["instance_id"] for row in rows.values()} == {view.id}, (
        "who may read the instance may read them"
    )
    assert [row["awaited"] for row in rows.values()] == [True, False, False]
    await worker.runtime.org(ORG, ANN).instances.cancel(view.id, "not needed")
    assert {row["status"] for row in await worker.rows()} == {"cancelled"}


async def test_step_goes_on_when_the_tree_of_its_task_has_ended(
    app: App, trees: Trees, worker: TasksWorker, database: Database
) -> None:
    node = {
        "id": "build", "type": "task", "task": "tests.tree",
        "input": {"name": "'root'", "parts": "workflow.parts", "ends": "''"},
    }  # fmt: skip
    await publish_steps(database, "build", [node, END], arrows("build", "end"))
    worker = TasksWorker(app, database)
    view = await worker.runtime.org(ORG, ANN).instances.start("build", {"parts": [tree("a"), tree("b")]})
    await worker.work_and_tell()
    assert [step["status"] for step in await steps_of(database, view.id)][-1] == "completed"


async def test_two_workers_run_one_tree(trees: Trees, worker: TasksWorker) -> None:
    parts = [tree(f"p{number}", *(tree(f"p{number}.{n}") for n in range(4))) for number in range(8)]
    await worker.submit("tests.tree", tree("root", *parts))
    async with second_worker(worker.place) as place:
        other = Tasks(place)
        for _ in range(60):
            await asyncio.gather(run_until_done(worker.duty), run_until_done(other))
            await run_until_done(Unblock(worker.place))
            if (await by_name(worker))["root"]["status"] == "done":
                break
    assert {row["status"] for row in await worker.rows()} == {"done"}
    assert Counter(trees.calls) == Counter(
        [("root", "start"), ("root", "resume")]
        + [(f"p{n}", call) for n in range(8) for call in ("start", "resume")]
        + [(f"p{n}.{m}", "start") for n in range(8) for m in range(4)]
    )
