"""Submitting: checked, with the caller's rows or not at all, and one key is one task for good."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import assent
from assent.app import App
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.plain_sql import wait_until_a_connection_is_blocked
from tests.postgres import SETTINGS, START
from tests.statements import StatementCounter
from tests.workers import OpenTasksWorker, TasksWorker
from tests.world import ANN, ORG, count


class ReportInput(BaseModel):
    month: str
    pages: int = 1


@pytest.fixture
def tasks_worker(app: App, open_tasks_worker: OpenTasksWorker) -> TasksWorker:
    @app.task("report.build", attempts_max=5, priority=100)
    async def build(report: ReportInput) -> int:
        return report.pages

    @app.task("report.send")
    async def send(to: str, pages: int = 1) -> None: ...

    return open_tasks_worker()


async def test_a_task_has_what_its_type_declares(tasks_worker: TasksWorker, clock: MovedClock) -> None:
    await tasks_worker.submit("report.build", ReportInput(month="May"), actor=ANN)
    row = await tasks_worker.row()
    expected = {
        "input": {"month": "May", "pages": 1},
        "attempts_max": 5,
        "priority": 100,
        "submitted_by": "ann",
    }
    assert expected.items() <= row.items()
    assert (row["status"], row["run_at"], row["created_at"]) == ("queued", clock.now(), clock.now())


@pytest.mark.parametrize(
    ("type", "input", "found"),
    [
        ("report.build", {}, ("MISSING_KEY", ("input", "month"))),
        ("report.build", {"month": 5}, ("WRONG_TYPE", ("input", "month"))),
        ("report.send", {"to": "ann", "cc": "bea"}, ("UNKNOWN_KEY", ("input", "cc"))),
        ("report.send", {"to": "ann", "pages": "many"}, ("WRONG_TYPE", ("input", "pages"))),
        ("report.send", {"to": "a\0b"}, ("TEXT_NOT_KEPT", ("input", "to"))),
        ("report.send", ["ann"], ("WRONG_TYPE", ("input",))),
        ("report.send", {"to": object()}, ("WRONG_TYPE", ("input",))),
    ],
)
async def test_an_input_that_will_not_do_is_refused_at_once(
    tasks_worker: TasksWorker, type: str, input: Any, found: tuple[str, tuple[str, ...]]
) -> None:
    with pytest.raises(assent.Refused) as refused:
        await tasks_worker.submit(type, input)
    (problem,) = refused.value.rejection.problems
    assert (problem.code, problem.path) == found
    assert await tasks_worker.rows() == []


async def test_a_task_that_nobody_declared_is_refused(tasks_worker: TasksWorker) -> None:
    with pytest.raises(assent.Refused, match="UNKNOWN_TASK"):
        await tasks_worker.submit("report.burn")


@pytest.mark.parametrize("rest", [{"priority": 256}, {"priority": -1}])
async def test_a_priority_out_of_range_is_refused(tasks_worker: TasksWorker, rest: dict[str, Any]) -> None:
    with pytest.raises(assent.Refused, match="OUT_OF_RANGE"):
        await tasks_worker.submit("report.send", {"to": "ann"}, **rest)


@pytest.mark.parametrize(("key", "code"), [("", "BLANK"), ("k" * 201, "OUT_OF_RANGE")])
async def test_a_key_is_short(tasks_worker: TasksWorker, key: str, code: str) -> None:
    with pytest.raises(assent.Refused, match=code):
        await tasks_worker.submit("report.send", {"to": "ann"}, key=key)


def test_two_tasks_of_one_name_and_functions_that_cannot_be_called_by_name_are_refused(app: App) -> None:
    app.task("report.send")(lambda: None)
    with pytest.raises(assent.Invalid, match="registered twice"):
        app.task("report.send")(lambda: None)
    with pytest.raises(assent.Invalid, match="cannot be given by name"):
        app.task("report.any")(lambda *many: None)
    with pytest.raises(assent.Invalid, match="BAD_NAME"):
        app.task("no name")(lambda: None)
    with pytest.raises(assent.Invalid, match="OUT_OF_RANGE"):
        app.task("report.never", attempts_max=0)(lambda: None)


async def test_a_repeated_submit_is_the_first_task(tasks_worker: TasksWorker) -> None:
    first = await tasks_worker.submit("report.send", {"to": "ann"}, key="may")
    assert await tasks_worker.submit("report.send", {"to": "ann"}, key="may") == first
    assert await tasks_worker.work() == {"done": 1}
    assert await tasks_worker.submit("report.send", {"to": "ann"}, key="may") == first
    assert len(await tasks_worker.rows()) == 1


async def test_a_key_is_of_an_org_and_a_type(tasks_worker: TasksWorker) -> None:
    ids = {
        await tasks_worker.submit("report.send", {"to": "ann"}, key="may"),
        await tasks_worker.submit("report.build", {"month": "May"}, key="may"),
        (await tasks_worker.runtime.org("globex").tasks.submit("report.send", {"to": "ann"}, key="may")).id,
    }
    assert len(ids) == 3


async def test_another_input_under_the_same_key_is_refused_and_submits_nothing(
    tasks_worker: TasksWorker,
) -> None:
    await tasks_worker.submit("report.send", {"to": "ann"}, key="may")
    other = [
        assent.NewTask("report.send", {"to": to}, key=key) for to, key in (("bea", "june"), ("bea", "may"))
    ]
    with pytest.raises(assent.Refused, match="IDEMPOTENCY_KEY_REUSED"):
        await tasks_worker.runtime.org(ORG).tasks.submit_many(other)
    assert len(await tasks_worker.rows()) == 1
    assert await count(tasks_worker.database, "task_keys") == 1


async def test_a_key_outlives_its_task(tasks_worker: TasksWorker, clock: MovedClock) -> None:
    first = await tasks_worker.submit("report.send", {"to": "ann"}, key="may")
    await tasks_worker.work()
    clock.advance("1d")
    async with tasks_worker.database.transaction(None) as connection:
        assert await connection.fetchval("SELECT assent.prune_jobs('task', $1, 10)", clock.now()) == 1
    assert [await count(tasks_worker.database, t) for t in ("jobs", "task_submissions", "job_attempts")] == [
        0,
        0,
        0,
    ]
    assert await tasks_worker.submit("report.send", {"to": "ann"}, key="may") == first


async def test_two_who_submit_one_key_at_once_get_one_task(tasks_worker: TasksWorker) -> None:
    """The second waits for the first to commit, and then finds its task."""
    async with tasks_worker.database.transaction(ORG) as connection:
        async with tasks_worker.runtime.within(connection, ORG) as here:
            first = await here.tasks.submit("report.send", {"to": "ann"}, key="may")
        second = asyncio.create_task(tasks_worker.submit("report.send", {"to": "ann"}, key="may"))
        await wait_until_a_connection_is_blocked(connection)
    assert await second == first.id
    assert len(await tasks_worker.rows()) == 1


async def test_whoever_waits_for_one_who_rolls_back_submits_the_task(tasks_worker: TasksWorker) -> None:
    async def submit_and_fail() -> "asyncio.Task[UUID]":
        async with tasks_worker.database.transaction(ORG) as connection:
            async with tasks_worker.runtime.within(connection, ORG) as here:
                await here.tasks.submit("report.send", {"to": "ann"}, key="may")
            second = asyncio.create_task(tasks_worker.submit("report.send", {"to": "bea"}, key="may"))
            await wait_until_a_connection_is_blocked(connection)
            raise LookupError(second)

    with pytest.raises(LookupError) as failed:
        await submit_and_fail()
    task_id = await failed.value.args[0]
    assert (await tasks_worker.row())["id"] == task_id
    assert (await tasks_worker.row())["input"] == {"to": "bea"}


async def test_the_callers_rows_and_the_task_commit_together_or_not_at_all(
    tasks_worker: TasksWorker, database: Database
) -> None:
    caller = await asyncpg.connect(database.url)
    await caller.execute("CREATE TABLE public.orders (id integer)")

    async def order(number: int, *, fails: bool = False) -> None:
        async with caller.transaction():
            await caller.execute("INSERT INTO public.orders VALUES ($1)", number)
            async with tasks_worker.runtime.within(caller, ORG) as here:
                await here.tasks.submit("report.send", {"to": f"order {number}"})
            if fails:
                raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError, match="changed my mind"):
        await order(1, fails=True)
    assert (await caller.fetchval("SELECT count(*) FROM public.orders"), await tasks_worker.rows()) == (0, [])
    await order(2)
    assert await caller.fetchval("SELECT id FROM public.orders") == 2
    assert (await tasks_worker.row())["input"] == {"to": "order 2"}
    await caller.close()


async def test_the_same_in_a_session_of_sqlalchemy(tasks_worker: TasksWorker, database: Database) -> None:
    engine = create_async_engine(database.url.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session:
        await session.execute(text("CREATE TABLE public.orders (id integer)"))
        await session.commit()
        for number, keeps in ((1, False), (2, True)):
            await session.execute(text("INSERT INTO public.orders VALUES (:number)"), {"number": number})
            async with tasks_worker.runtime.within(session, ORG) as here:
                await here.tasks.submit("report.send", {"to": f"order {number}"})
            await (session.commit() if keeps else session.rollback())
        assert (await session.execute(text("SELECT id FROM public.orders"))).scalars().all() == [2]
    await engine.dispose()
    assert (await tasks_worker.row())["input"] == {"to": "order 2"}


async def test_statements_do_not_depend_on_how_many_are_submitted(
    tasks_worker: TasksWorker, statement_counter: StatementCounter
) -> None:
    numbers = []
    for size in (2, 1, 300):  # the first renews the connection's plans too
        statement_counter.clear()
        tasks = [assent.NewTask("report.send", {"to": "ann"}, key=f"{size}:{n}") for n in range(size)]
        ids = [task.id for task in await tasks_worker.runtime.org(ORG).tasks.submit_many(tasks)]
        assert ids == sorted(ids), "ids sort by time, in the order in which tasks were submitted"
        again = await tasks_worker.runtime.org(ORG).tasks.submit_many(tasks)
        assert [task.id for task in again] == ids
        numbers.append(len(statement_counter))
    assert numbers[1] == numbers[2]


async def test_a_submission_wakes_the_workers_and_a_delayed_one_does_not(
    tasks_worker: TasksWorker, clock: MovedClock
) -> None:
    async with tasks_worker.database.listen("assent_tasks") as listener:
        await tasks_worker.submit("report.send", {"to": "ann"}, run_at=clock.now() + timedelta(hours=1))
        assert await listener.wait(0.05) == frozenset()
        await tasks_worker.submit("report.send", {"to": "ann"})
        assert await listener.wait(10) == frozenset({"assent_tasks"})


SUBMIT = "SELECT assent.submit_task($1, $2::jsonb, $3)"


async def test_a_task_from_sql_is_like_any_other(tasks_worker: TasksWorker) -> None:
    async with tasks_worker.database.transaction(ORG) as connection:
        task_id = await connection.fetchval(
            "SELECT assent.submit_task('report.build', '{\"month\": \"May\"}')"
        )
    row = await tasks_worker.row()
    assert (row["id"], row["input"], row["submitted_by"]) == (task_id, {"month": "May"}, "sql:assent_engine")
    assert (row["priority"], row["attempts_max"]) == (128, 8)
    assert await tasks_worker.work() == {"done": 1}
    assert (await tasks_worker.attempt())["output"] == 1


async def test_sql_and_python_know_each_others_keys(tasks_worker: TasksWorker) -> None:
    first = await tasks_worker.submit("report.send", {"to": "ann", "pages": 2}, key="may")
    async with tasks_worker.database.transaction(ORG) as connection:
        assert await connection.fetchval(SUBMIT, "report.send", {"pages": 2, "to": "ann"}, "may") == first
        second = await connection.fetchval(SUBMIT, "report.send", {"to": "bea"}, "june")
    assert await tasks_worker.submit("report.send", {"to": "bea"}, key="june") == second
    with pytest.raises(asyncpg.UniqueViolationError, match="used for another input"):
        async with tasks_worker.database.transaction(ORG) as connection:
            await connection.fetchval(SUBMIT, "report.send", {"to": "ann"}, "may")


async def test_ids_from_sql_and_python_sort_together(tasks_worker: TasksWorker, clock: MovedClock) -> None:
    ids = []
    clock.move_to(
        START + timedelta(days=30_000)
    )  # ids of a process never go back, and other tests moved time too
    for turn in range(6):
        clock.advance("1s")
        if turn % 2:
            ids.append(await tasks_worker.submit("report.send", {"to": "ann"}))
        else:
            async with tasks_worker.database.transaction(ORG) as connection:
                ids.append(await connection.fetchval(SUBMIT, "report.send", {"to": "ann"}, None))
    assert ids == sorted(ids)
    assert {task_id.version for task_id in ids} == {7}


@pytest.mark.parametrize(
    ("org", "arguments", "saying"),
    [
        (None, ("report.send", {}, None), "needs an org"),
        (ORG, ("report.send", ["ann"], None), "is an object"),
        (ORG, ("report.send", None, None), "is an object"),
        (ORG, ("", {}, None), "a task needs a type"),
        (ORG, ("report.send", {}, ""), "the key of a task is not blank"),
    ],
)
async def test_what_sql_hands_in_wrong_is_refused(
    tasks_worker: TasksWorker, org: str | None, arguments: tuple[Any, ...], saying: str
) -> None:
    with pytest.raises(asyncpg.PostgresError, match=saying):
        async with tasks_worker.database.transaction(org) as connection:
            await connection.execute(SUBMIT, *arguments)
    assert await tasks_worker.rows() == []


async def test_input_from_sql_that_will_not_do_is_dead_at_once(tasks_worker: TasksWorker) -> None:
    async with tasks_worker.database.transaction(ORG) as connection:
        await connection.execute(SUBMIT, "report.send", {"cc": "bea"}, None)
    assert await tasks_worker.work() == {"dead": 1}
    assert (await tasks_worker.attempt())["code"] == "BAD_INPUT"


async def test_an_org_sees_and_cancels_its_own_tasks_only(tasks_worker: TasksWorker) -> None:
    task_id = await tasks_worker.submit("report.send", {"to": "ann"})
    with pytest.raises(assent.Refused, match="NOT_FOUND"):
        await tasks_worker.runtime.org("globex").tasks.cancel(task_id)
    with pytest.raises(assent.Refused, match="NOT_FOUND"):
        await tasks_worker.runtime.org("globex").tasks.get(task_id)
    assert (await tasks_worker.runtime.org("globex").tasks.list()).items == []
    async with tasks_worker.database.transaction("globex") as connection:
        for table in ("jobs", "task_submissions", "task_keys", "job_attempts"):
            assert await connection.fetchval(f"SELECT count(*) FROM assent.{table}") == 0  # noqa: S608
    assert await tasks_worker.status() == "queued"


async def test_a_transaction_that_cannot_see_who_was_faster_is_run_again(tasks_worker: TasksWorker) -> None:
    other = await Database.open(
        tasks_worker.database.url, settings=SETTINGS, clock=tasks_worker.database.clock
    )
    tries = 0

    async def work(connection: Any) -> UUID:
        nonlocal tries
        tries += 1
        await connection.fetchval("SELECT 1")  # from here on it sees what was there at this moment
        if tries == 1:
            await tasks_worker.submit("report.send", {"to": "ann"}, key="may")
        async with tasks_worker.runtime.within(connection, ORG) as here:
            return (await here.tasks.submit("report.send", {"to": "ann"}, key="may")).id

    assert await other.run(work, org_id=ORG, isolation="repeatable_read") == (await tasks_worker.row())["id"]
    assert tries == 2
    await other.close()
