"""Progress and log lines: written while the attempt runs and with its end, by the worker that has the task."""

import asyncio
from typing import Any

import pytest

import assent
from assent.app import App
from assent.store.clock import MovedClock
from assent.tasks.notes import LINES_MAX
from tests.statements import StatementCounter
from tests.workers import OpenTasksWorker, TasksWorker
from tests.world import ORG, count


async def lines_of(worker: TasksWorker, task_id: Any) -> list[tuple[int, int, str, str]]:
    page = await worker.runtime.org(ORG).tasks.log(task_id, limit=200)
    return [(line.attempt, line.position, line.level, line.message) for line in page.items]


async def test_progress_and_log_are_seen_while_the_task_runs(
    app: App, open_tasks_worker: OpenTasksWorker, statement_counter: StatementCounter
) -> None:
    said, may_end = asyncio.Event(), asyncio.Event()

    @app.task("tests.read")
    async def read(task: assent.TaskContext) -> None:
        task.progress(0.1, "page 3 of 30")
        task.progress(0.4, "page 12 of 30")
        task.log("fetched 3 pages")
        said.set()
        await may_end.wait()
        task.log("the printer is slow", "warning")
        task.progress(1)

    worker = open_tasks_worker(tasks_interval_ms=20)
    tasks = [await worker.submit("tests.read") for _ in range(5)]
    await worker.duty.run_once()
    await said.wait()
    statement_counter.clear()
    async with asyncio.timeout(60):
        while (seen := (await worker.runtime.org(ORG).tasks.get(tasks[0])).progress) is None:
            await worker.duty.run_once()
    assert statement_counter.names.count("write_notes_if_claimed") == 1, "one statement for all of them"
    assert (seen.fraction, seen.message, seen.attempt) == (0.4, "page 12 of 30", 1)
    assert await lines_of(worker, tasks[0]) == [(1, 1, "info", "fetched 3 pages")]
    may_end.set()
    assert await worker.work() == {"done": 5}
    ended = await worker.runtime.org(ORG).tasks.get(tasks[0])
    assert ended.progress is not None
    assert ended.progress.fraction == 1
    assert [line[2:] for line in await lines_of(worker, tasks[0])] == [
        ("info", "fetched 3 pages"),
        ("warning", "the printer is slow"),
    ]


@pytest.mark.parametrize("how", ["async", "plain", "with rows"])
async def test_last_words_of_an_attempt_are_kept_with_its_end(
    app: App, open_tasks_worker: OpenTasksWorker, clock: MovedClock, how: str
) -> None:
    async def speak(task: assent.TaskContext) -> None:
        if how == "with rows":
            async with task.transaction() as connection:
                await connection.execute("SELECT 1")
        task.log(f"attempt {task.attempt}")
        task.progress(0.5, f"attempt {task.attempt}")
        if task.attempt == 1:
            raise TimeoutError("once more")

    def speak_plainly(task: assent.TaskContext) -> None:
        task.log(f"attempt {task.attempt}")
        task.progress(0.5, f"attempt {task.attempt}")
        if task.attempt == 1:
            raise TimeoutError("once more")

    app.task("tests.speak")(speak_plainly if how == "plain" else speak)
    worker = open_tasks_worker()
    task_id = await worker.submit("tests.speak")
    await worker.work()
    clock.advance("1m")
    await worker.work()
    assert await lines_of(worker, task_id) == [(1, 1, "info", "attempt 1"), (2, 1, "info", "attempt 2")]
    found = await worker.runtime.org(ORG).tasks.get(task_id)
    assert [one.code for one in found.tried] == ["TASK_FAILED", None], (
        "the second attempt is done, with its notes"
    )
    assert found.progress.message == "attempt 2"


async def test_worker_that_has_lost_the_task_writes_nothing(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    @app.task("tests.speak")
    async def speak(task: assent.TaskContext) -> None:
        task.log(f"attempt {task.attempt}")
        task.progress(0.5)

    worker = open_tasks_worker()
    task_id = await worker.submit("tests.speak")
    (claimed,) = await worker.claim(1)
    await worker.duty._attempts.make(claimed)
    await worker.sweep()
    worker.duty._noted_s -= 3_600
    worker.duty._under_way = {asyncio.create_task(asyncio.sleep(0)): claimed}
    await worker.duty._write_notes()
    worker.duty._under_way = {}
    assert await lines_of(worker, task_id) == []
    assert await count(worker.database, "task_progress") == 0


async def test_log_of_an_attempt_is_bounded_and_says_so(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    @app.task("tests.chatter")
    async def chatter(task: assent.TaskContext) -> None:
        for number in range(5_000):
            task.log(f"\0line {number} " + "x" * 5_000 if not number else f"line {number}")

    worker = open_tasks_worker()
    task_id = await worker.submit("tests.chatter")
    await worker.work()
    tasks, cursor, lines = worker.runtime.org(ORG).tasks, None, []
    while True:
        page = await tasks.log(task_id, cursor=cursor, limit=200)
        lines += page.items
        cursor = page.next
        if cursor is None:
            break
    assert [line.position for line in lines] == list(range(1, LINES_MAX + 1))
    assert len(lines[0].message) == 2_000
    assert (lines[-1].level, lines[-1].message) == (
        "warning",
        "only the first 999 lines of an attempt are kept",
    )


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
async def test_what_is_no_part_of_the_whole_is_refused(
    app: App, open_tasks_worker: OpenTasksWorker, fraction: float
) -> None:
    @app.task("tests.odd", attempts_max=1)
    async def odd(task: assent.TaskContext) -> None:
        task.progress(fraction)

    worker = open_tasks_worker()
    await worker.submit("tests.odd")
    assert await worker.work() == {"dead": 1}
    assert "Expected a progress from 0 to 1" in (await worker.attempt())["error"]


async def test_pruned_task_leaves_no_notes(
    app: App, open_tasks_worker: OpenTasksWorker, clock: MovedClock
) -> None:
    @app.task("tests.speak")
    async def speak(task: assent.TaskContext) -> None:
        task.log("a line")
        task.progress(1)

    worker = open_tasks_worker()
    await worker.submit("tests.speak")
    await worker.work()
    clock.advance("100d")
    async with worker.database.transaction(None) as connection:
        await connection.execute("SELECT assent.prune_jobs('task', assent.now() - interval '90 days', 10)")
    assert [await count(worker.database, table) for table in ("jobs", "task_progress", "task_log_lines")] == [
        0
    ] * 3
