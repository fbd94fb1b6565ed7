"""Batches: many tasks, and one that runs once when all have ended; and trees of tasks as they are read."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

import assent
from assent.app import App
from assent.model.mutation import Refused
from assent.store.database import Database
from assent.worker.rescue import Unblock
from tests.postgres import SETTINGS
from tests.workers import OpenTasksWorker, TasksWorker, run_until_done
from tests.world import ORG, fetch


class Reports:
    """What the tasks that run for batches have found."""

    def __init__(self, app: App) -> None:
        self.found: list[dict[str, Any]] = []
        reports = self

        @app.task("tests.part", attempts_max=1)
        async def part(number: int) -> int:
            if number % 7 == 3:
                raise ValueError(f"{number} is damaged")
            return number

        @app.task("tests.sum", attempts_max=2)
        async def add(task: assent.TaskContext, name: str = "") -> dict[str, Any]:
            found = {
                "sum": sum(one.output for one in task.subtasks if one.error is None),
                "failed": [one.error.message for one in task.subtasks if one.error is not None],
                "number": len(task.subtasks),
            }
            reports.found.append({"name": name, "attempt": task.attempt, **found})
            if name == "fails once" and len(reports.found) == 1:
                raise TimeoutError("once more")
            return found

        @app.task("tests.handled")
        class Handled:
            async def on_start(self) -> str:
                return "nothing was to be done"

            async def on_resume(self) -> str:
                return "all went well"

            async def on_error(self, error: assent.TaskError) -> str:
                return f"one failed: {error.message}"


@pytest.fixture
def reports(app: App) -> Reports:
    return Reports(app)


@pytest.fixture
def worker(reports: Reports, open_tasks_worker: OpenTasksWorker) -> TasksWorker:
    return open_tasks_worker()


def parts(*numbers: int) -> list[assent.NewTask]:
    return [assent.NewTask("tests.part", {"number": number}) for number in numbers]


async def test_callback_runs_once_with_results_and_failures_in_order(
    worker: TasksWorker, reports: Reports
) -> None:
    acme = worker.runtime.org(ORG)
    batch = await acme.tasks.submit_batch(parts(1, 2, 3, 4), assent.NewTask("tests.sum"))
    assert await batch.status() == "blocked"
    await worker.work()
    assert await batch.result(timeout=1) == {"sum": 7, "failed": ["ValueError: 3 is damaged"], "number": 4}
    assert len(reports.found) == 1


@pytest.mark.parametrize(
    ("numbers", "output"),
    [((1, 2), "all went well"), ((2, 3), "one failed: ValueError: 3 is damaged")],
)
async def test_class_has_its_own_function_for_batches_that_failed(
    worker: TasksWorker, numbers: tuple[int, ...], output: str
) -> None:
    batch = await worker.runtime.org(ORG).tasks.submit_batch(parts(*numbers), assent.NewTask("tests.handled"))
    await worker.work()
    assert await batch.result(timeout=1) == output


async def test_callback_that_fails_is_tried_again_and_the_batch_is_not(
    worker: TasksWorker, reports: Reports
) -> None:
    then = assent.NewTask("tests.sum", {"name": "fails once"})
    batch = await worker.runtime.org(ORG).tasks.submit_batch(parts(1, 2), then)
    await worker.work()
    worker.database.clock.advance("1h")  # type: ignore[attr-defined]
    await worker.work()
    assert (await batch.result(timeout=1))["sum"] == 3
    assert [one["attempt"] for one in reports.found] == [2, 3]
    attempts = await fetch(worker.database, "SELECT job_id FROM assent.job_attempts WHERE org_id = 'acme'")
    assert len(attempts) == 2 + 3


async def test_key_stands_for_the_whole_batch(worker: TasksWorker) -> None:
    acme = worker.runtime.org(ORG)
    then = assent.NewTask("tests.sum", key="nightly")
    first = await acme.tasks.submit_batch(parts(1, 2), then)
    again = await acme.tasks.submit_batch(parts(1, 2), then)
    assert again == first
    assert len(await worker.rows()) == 3


async def test_cancel_of_a_batch_cancels_what_has_not_ended(worker: TasksWorker, reports: Reports) -> None:
    batch = await worker.runtime.org(ORG).tasks.submit_batch(parts(1, 2, 3), assent.NewTask("tests.sum"))
    await worker.claim(1)
    await batch.cancel()
    await worker.work()
    assert {row["status"] for row in await worker.rows()} == {"cancelled"}
    assert reports.found == []


@pytest.mark.parametrize(
    ("tasks", "then", "code"),
    [
        ([], assent.NewTask("tests.sum"), "OUT_OF_RANGE"),
        ([assent.NewTask("tests.part", {"number": 1}, key="k")], assent.NewTask("tests.sum"), "BAD_VALUE"),
        (parts(1), assent.NewTask("tests.sum", delay="1m"), "BAD_VALUE"),
        (parts(1), assent.NewTask("tests.unknown"), "UNKNOWN_TASK"),
        ([*parts(1), assent.NewTask("tests.part", {"number": "one"})], assent.NewTask("tests.sum"), None),
    ],
)
async def test_batch_that_cannot_be_submits_nothing(
    worker: TasksWorker, tasks: list[assent.NewTask], then: assent.NewTask, code: str | None
) -> None:
    with pytest.raises(Refused) as refused:
        await worker.runtime.org(ORG).tasks.submit_batch(tasks, then)
    assert code is None or refused.value.rejection.code == code
    assert await worker.rows() == []


async def test_callback_runs_once_however_many_workers_end_the_batch_and_die(
    app: App, database: Database, worker: TasksWorker, reports: Reports
) -> None:
    """Four workers end 3 batches of 40 side by side; now and then one is killed between an end and what follows it."""
    acme = worker.runtime.org(ORG)
    batches = [
        await acme.tasks.submit_batch(parts(*range(40)), assent.NewTask("tests.sum", {"name": str(n)}))
        for n in range(3)
    ]
    async with AsyncExitStack() as stack:
        databases = [
            await Database.open(database.url, settings=SETTINGS, clock=database.clock) for _ in range(4)
        ]
        for one in databases:
            stack.push_async_callback(one.close)

        async def run(one: Database, number: int) -> None:
            workers = TasksWorker(app, one, tasks_under_way_max=3 + number)
            for turn in range(400):
                await workers.duty.run_once()
                if number == 0:
                    workers.duty._parents.clear()  # it dies before it resumes the parents
                if turn % 20 == 19:
                    await run_until_done(Unblock(worker.place))
                if not await fetch(
                    one, "SELECT FROM assent.jobs WHERE org_id = 'acme' AND ended_at IS NULL LIMIT 1"
                ):
                    return

        await asyncio.gather(*(run(one, number) for number, one in enumerate(databases)))
    failed = [f"ValueError: {n} is damaged" for n in range(40) if n % 7 == 3]
    expected = {"sum": sum(n for n in range(40) if n % 7 != 3), "failed": failed, "number": 40}
    assert [await batch.result(timeout=1) for batch in batches] == [expected] * 3
    assert sorted(one["name"] for one in reports.found) == ["0", "1", "2"]


async def test_batch_of_many_is_submitted_in_a_few_statements(worker: TasksWorker) -> None:
    from tests.statements import StatementCounter

    counted = []
    for size in (2, 200):
        statements = StatementCounter()
        with worker.database.observe(statements):
            await worker.runtime.org(ORG).tasks.submit_batch(parts(*range(size)), assent.NewTask("tests.sum"))
        counted.append(len(statements))
    assert counted[1] - counted[0] <= 1, "a large write goes by itself"


async def test_tree_has_each_below_its_parent_with_its_status(worker: TasksWorker) -> None:
    acme = worker.runtime.org(ORG)
    batch = await acme.tasks.submit_batch(parts(1, 3), assent.NewTask("tests.sum"))
    await worker.work()
    tree = await acme.tasks.tree(batch.id)
    assert [(one.type, one.depth, one.status) for one in tree.tasks] == [
        ("tests.sum", 0, "done"),
        ("tests.part", 1, "done"),
        ("tests.part", 1, "dead"),
    ]
    assert dict(tree.counts) == {"done": 2, "dead": 1}
    part = await acme.tasks.tree(tree.tasks[1].id)
    assert [one.depth for one in part.tasks] == [0]
    with pytest.raises(Refused, match="no task"):
        await worker.runtime.org("globex").tasks.tree(batch.id)
