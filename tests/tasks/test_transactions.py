"""Writing together with the completion: the rows and the task's end, both or neither, and not by who is late."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import assent
from assent.app import App
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.processes.application import calls, keep_calls
from tests.workers import OpenTasksWorker, TasksWorker
from tests.world import ORG

NOTE = "INSERT INTO public.calls (what) VALUES ($1)"


@pytest.fixture(autouse=True)
async def table(database: Database) -> None:
    await keep_calls(database)


async def test_rows_and_completion_commit_together(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    @app.task("tests.note")
    async def note(task: assent.TaskContext, what: str) -> dict[str, Any]:
        async with task.transaction() as connection:
            await connection.execute(NOTE, what)
            return {"org": await connection.fetchval("SELECT assent.org_id()")}

    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.note", {"what": "a"})
    assert await tasks_worker.work() == {"done": 1}
    assert await calls(tasks_worker.database) == ["a"]
    assert (await tasks_worker.attempt())["output"] == {"org": "acme"}


async def test_what_fails_after_the_block_leaves_no_rows(
    app: App, open_tasks_worker: OpenTasksWorker, clock: MovedClock
) -> None:
    @app.task("tests.note")
    async def note(task: assent.TaskContext, what: str) -> None:
        async with task.transaction() as connection:
            await connection.execute(NOTE, f"{what}{task.attempt}")
        if task.attempt == 1:
            raise RuntimeError("after it wrote")

    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.note", {"what": "a"})
    assert await tasks_worker.work() == {"retrying": 1}
    assert await calls(tasks_worker.database) == []
    clock.advance("1h")
    assert await tasks_worker.work() == {"done": 1}
    assert await calls(tasks_worker.database) == ["a2"]


async def test_what_takes_too_long_leaves_no_rows(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    @app.task("tests.note", timeout=timedelta(milliseconds=200))
    async def note(task: assent.TaskContext) -> None:
        async with task.transaction() as connection:
            await connection.execute(NOTE, "a")
            await asyncio.sleep(60)

    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.note")
    assert await tasks_worker.work() == {"retrying": 1}
    assert await calls(tasks_worker.database) == []


async def test_a_block_whose_error_is_caught_undoes_its_own_rows_only(
    app: App, open_tasks_worker: OpenTasksWorker
) -> None:
    @app.task("tests.note")
    async def note(task: assent.TaskContext) -> None:
        async with task.transaction() as connection:
            await connection.execute(NOTE, "kept")
        try:
            async with task.transaction() as connection:
                await connection.execute(NOTE, "undone")
                raise LookupError
        except LookupError:
            pass

    tasks_worker = open_tasks_worker()
    await tasks_worker.submit("tests.note")
    assert await tasks_worker.work() == {"done": 1}
    assert await calls(tasks_worker.database) == ["kept"]


@pytest.mark.parametrize("taken", ["cancelled", "given to another"])
async def test_whoever_has_lost_the_task_writes_nothing(
    app: App, open_tasks_worker: OpenTasksWorker, taken: str
) -> None:
    lost: list[str] = []
    workers: list[TasksWorker] = []

    @app.task("tests.note")
    async def note(task: assent.TaskContext) -> None:
        if taken == "cancelled":
            await workers[0].runtime.org(ORG).tasks.cancel(task.id)
        elif task.attempt == 1:
            await workers[0].sweep()
        try:
            async with task.transaction() as connection:
                await connection.execute(NOTE, f"attempt {task.attempt}")
        except assent.ClaimLost as error:
            lost.append(str(error))
            raise

    workers.append(open_tasks_worker())
    await workers[0].submit("tests.note")
    await workers[0].work()
    assert len(lost) == 1
    assert await calls(workers[0].database) == ([] if taken == "cancelled" else ["attempt 2"])
    assert await workers[0].status() == ("cancelled" if taken == "cancelled" else "done")


async def test_while_a_task_writes_nobody_can_take_it(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    """The sweep passes it over, and whoever cancels comes too late."""
    cancelling: list[asyncio.Task[None]] = []
    workers: list[TasksWorker] = []

    @app.task("tests.note")
    async def note(task: assent.TaskContext) -> None:
        async with task.transaction() as connection:
            assert (await workers[0].sweep())["tasks"] == 0
            cancelling.append(asyncio.create_task(workers[0].runtime.org(ORG).tasks.cancel(task.id)))
            await connection.execute(NOTE, "a")

    workers.append(open_tasks_worker())
    await workers[0].submit("tests.note")
    assert await workers[0].work() == {"done": 1}
    with pytest.raises(assent.Refused, match="TASK_HAS_ENDED"):
        await cancelling[0]
    assert await calls(workers[0].database) == ["a"]


async def test_a_task_submits_another_with_its_own_rows(app: App, open_tasks_worker: OpenTasksWorker) -> None:
    workers: list[TasksWorker] = []

    @app.task("tests.first")
    async def first(task: assent.TaskContext) -> None:
        async with task.transaction() as connection, workers[0].runtime.within(connection, ORG) as here:
            await second.configure(key=task.key).submit(here)

    @app.task("tests.second")
    async def second() -> None: ...

    workers.append(open_tasks_worker())
    await workers[0].submit("tests.first")
    assert await workers[0].work() == {"done": 2}
