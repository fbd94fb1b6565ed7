"""Awaiting the result of a task, in another process than its worker's; with lost notifications and cut connections."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import assent
from assent.app import App
from assent.model.mutation import Refused
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.tasks import ends
from assent.worker.rescue import Rescue, Unblock
from tests.plain_sql import WAIT_MAX_S
from tests.postgres import SETTINGS
from tests.statements import StatementCounter
from tests.workers import OpenTasksWorker, TasksWorker, run_until_done
from tests.world import ORG, fetch

WAITERS = "SELECT FROM assent.task_waiters WHERE org_id = 'acme'"
LISTENING = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
   AND (query LIKE 'LISTEN%' OR query LIKE '%read_server_process%')
"""


@pytest.fixture
def worker(app: App, open_tasks_worker: OpenTasksWorker) -> TasksWorker:
    @app.task("tests.double", attempts_max=1)
    async def double(number: int) -> int:
        if number < 0:
            raise ValueError(f"{number} is less than nothing")
        return number * 2

    @app.task("tests.printed", attempts_max=1)
    async def printed() -> assent.Background:
        return assent.Background("the printer has it", timeout="1h")

    return open_tasks_worker()


@pytest.fixture
async def acme(app: App, worker: TasksWorker, clock: MovedClock) -> AsyncIterator[assent.OrgRuntime]:
    """The commands as another process has them: over connections of its own."""
    database = await Database.open(worker.database.url, settings=SETTINGS, clock=clock)
    yield app.runtime(database).org(ORG)
    await database.close()


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but a notification ends a wait."""
    monkeypatch.setattr(ends, "FIRST_LOOKS_S", ())
    monkeypatch.setattr(ends, "LOOK_EVERY_S", 3_600.0)


async def begin_to_wait(task: assent.SubmittedTask, worker: TasksWorker) -> "asyncio.Task[Any]":
    """Begin to await the result of a task, and return when the database knows of it and the process listens."""
    waiting = asyncio.create_task(task.result(timeout=WAIT_MAX_S))
    await wait_for_rows(worker.database, WAITERS, 1)
    await wait_for_rows(worker.database, LISTENING, 1)
    return waiting


async def wait_for_rows(database: Database, query: str, number: int) -> None:
    async with asyncio.timeout(WAIT_MAX_S):
        for _ in iter(int, 1):
            if len(await fetch(database, query)) >= number:
                return
            await asyncio.sleep(0.005)


async def test_result_of_a_task_arrives_in_another_process(
    acme: assent.OrgRuntime, worker: TasksWorker, no_looks: None
) -> None:
    task = await acme.tasks.submit("tests.double", {"number": 21})
    assert await task.status() == "queued"
    waiting = await begin_to_wait(task, worker)
    await worker.work()
    assert await waiting == 42
    assert await task.status() == "done"
    assert await task.result() == 42
    assert await (await acme.tasks.handle(task.id)).result(timeout="1s") == 42
    assert await fetch(worker.database, WAITERS) == []


async def end_by_worker(acme: assent.OrgRuntime, worker: TasksWorker, task: assent.SubmittedTask) -> None:
    await worker.work()


async def end_by_cancel(acme: assent.OrgRuntime, worker: TasksWorker, task: assent.SubmittedTask) -> None:
    await acme.tasks.cancel(task.id)


async def end_from_outside(acme: assent.OrgRuntime, worker: TasksWorker, task: assent.SubmittedTask) -> None:
    await worker.work()
    await acme.tasks.fail(task.id, "no paper", code="OUT_OF_PAPER")


async def end_by_time(acme: assent.OrgRuntime, worker: TasksWorker, task: assent.SubmittedTask) -> None:
    await worker.work()
    worker.database.clock.advance("2h")  # type: ignore[attr-defined]
    await run_until_done(Unblock(worker.place))


async def end_by_loss(acme: assent.OrgRuntime, worker: TasksWorker, task: assent.SubmittedTask) -> None:
    assert await worker.claim(1)
    worker.database.clock.advance("2m")  # type: ignore[attr-defined]
    await run_until_done(Rescue(worker.place))


@pytest.mark.parametrize(
    ("type", "input", "end", "status", "code"),
    [
        ("tests.double", {"number": -1}, end_by_worker, "dead", "TASK_FAILED"),
        ("tests.double", {"number": 1}, end_by_cancel, "cancelled", "TASK_CANCELLED"),
        ("tests.printed", {}, end_from_outside, "dead", "OUT_OF_PAPER"),
        ("tests.printed", {}, end_by_time, "dead", "TASK_EXPIRED"),
        ("tests.double", {"number": 1}, end_by_loss, "dead", "TASK_LOST"),
    ],
)
async def test_however_a_task_ends_who_waits_is_notified_and_gets_its_error(  # noqa: PLR0913, PLR0917
    acme: assent.OrgRuntime,
    worker: TasksWorker,
    no_looks: None,
    type: str,
    input: dict[str, Any],
    end: Any,
    status: str,
    code: str,
) -> None:
    task = await acme.tasks.submit(type, input)
    waiting = await begin_to_wait(task, worker)
    await end(acme, worker, task)
    with pytest.raises(assent.TaskFailed, match=code) as failed:
        await waiting
    assert (failed.value.status, failed.value.error.code) == (status, code)
    if code == "TASK_FAILED":
        assert failed.value.error.type == "ValueError"
        assert "less than nothing" in (failed.value.error.stack_trace or "")


async def test_time_that_is_over_is_said_and_ends_nothing(
    acme: assent.OrgRuntime, worker: TasksWorker
) -> None:
    task = await acme.tasks.submit("tests.double", {"number": 4})
    with pytest.raises(TimeoutError, match=r"to end within 0\.05 s, found it queued"):
        await task.result(timeout=0.05)
    await worker.work()
    assert await task.result(timeout=0.05) == 8


@pytest.mark.parametrize("loss", ["notification", "connection"])
async def test_lost_notification_is_survived_by_one_look(
    acme: assent.OrgRuntime, worker: TasksWorker, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    """The row of the wait is deleted, or the listening connection is ended: nothing is heard of the end."""
    monkeypatch.setattr(ends, "FIRST_LOOKS_S", ())
    monkeypatch.setattr(ends, "LOOK_EVERY_S", 0.2 if loss == "notification" else 3_600.0)
    task = await acme.tasks.submit("tests.double", {"number": 5})
    waiting = await begin_to_wait(task, worker)
    async with worker.database.transaction(None) as connection:
        await connection.execute("DELETE FROM assent.task_waiters WHERE org_id = 'acme'")
    await worker.work()
    if loss == "connection":
        await fetch(worker.database, f"SELECT pg_terminate_backend(pid) FROM ({LISTENING}) AS listening")  # noqa: S608
    assert await waiting == 10


async def test_many_who_wait_share_one_connection_and_one_look(
    acme: assent.OrgRuntime, worker: TasksWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked of the database for each of them while they wait: it would be a storm."""
    monkeypatch.setattr(ends, "FIRST_LOOKS_S", (0.1,))
    tasks = await acme.tasks.submit_many([assent.NewTask("tests.double", {"number": n}) for n in range(40)])
    waiting = [asyncio.create_task(task.result(timeout=WAIT_MAX_S)) for task in tasks]
    await wait_for_rows(worker.database, WAITERS, 40)
    statements = StatementCounter()
    with acme.scope.database.observe(statements):
        await asyncio.sleep(0.4)  # the time of several looks
    assert sum(name == "find_ended" for name in statements.names) <= 8
    assert len(await fetch(worker.database, LISTENING)) == 1
    await worker.work()
    assert sorted(await asyncio.gather(*waiting)) == [n * 2 for n in range(40)]


async def test_task_of_a_transaction_is_awaited_after_its_commit(
    app: App, acme: assent.OrgRuntime, worker: TasksWorker
) -> None:
    async with worker.database.transaction(None) as connection:
        async with worker.runtime.within(connection, ORG) as here:
            task = await here.tasks.submit("tests.double", {"number": 6})
        with pytest.raises(Refused, match="no task"):
            await task.result(timeout=1)
    await worker.work()
    assert await task.result(timeout=WAIT_MAX_S) == 12


async def test_threads_that_block_wait_too(app: App, worker: TasksWorker) -> None:
    own_time = await Database.open(
        worker.database.url, settings=SETTINGS
    )  # as the runtime for threads has it
    with app.sync_runtime(worker.database.url, settings=SETTINGS) as runtime:
        acme = runtime.org(ORG)
        task = await asyncio.to_thread(acme.tasks.submit, "tests.double", {"number": 7})
        await TasksWorker(app, own_time).work()
        assert await asyncio.to_thread(task.result, 10) == 14
        assert await asyncio.to_thread(task.status) == "done"
        again = await asyncio.to_thread(acme.tasks.handle, task.id)
        assert again == task
        with pytest.raises(Refused, match="is done"):
            await asyncio.to_thread(again.cancel)
    await own_time.close()


async def test_result_is_for_those_who_may_read_the_task(
    acme: assent.OrgRuntime, worker: TasksWorker
) -> None:
    task = await acme.tasks.submit("tests.double", {"number": 8})
    await worker.work()
    with pytest.raises(Refused, match="no task"):
        await worker.runtime.org("globex").tasks.handle(task.id)
    stranger = acme.by(assent.Actor("sam"))
    with pytest.raises(Refused, match="tasks:read"):
        await stranger.tasks.handle(task.id)
    assert (
        await (
            await acme.by(assent.Actor("adam", capabilities={"tasks:read"})).tasks.handle(task.id)
        ).result()
        == 16
    )


async def test_delay_is_by_the_clock_of_the_database(
    acme: assent.OrgRuntime, worker: TasksWorker, clock: MovedClock
) -> None:
    later = await acme.tasks.submit("tests.double", {"number": 1}, delay="15m")
    in_sql = await fetch(
        worker.database,
        "SELECT assent.submit_task('tests.double', '{\"number\": 2}', delay => '15 minutes') "
        "FROM set_config('assent.org_id', 'acme', true)",
    )
    await worker.work()
    assert {row["status"] for row in await worker.rows()} == {"queued"}
    clock.advance("16m")
    await worker.work()
    assert await later.result() == 2
    assert await (await acme.tasks.handle(in_sql[0]["submit_task"])).result() == 4
    with pytest.raises(Refused, match="not both"):
        await acme.tasks.submit("tests.double", {"number": 1}, delay="1m", run_at=clock.now())
    with pytest.raises(Refused, match="duration"):
        await acme.tasks.submit("tests.double", {"number": 1}, delay="soon")
