"""`within` in the transaction of every driver and framework: all of it with the caller's rows, or nothing."""

import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
import pytest
from django.db import connection as django_connection
from django.db import models, transaction
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from assent import App, OrgRuntime, Refused, Runtime, SyncOrgRuntime, SyncRuntime
from assent.store.database import Database
from tests.authored import END
from tests.django_settings import django_on
from tests.world import ANN, FIN, LARGE, ORG, found_acme_with_invoices, publish_steps, request_id

TAXI = {"title": "Taxi", "total": 1}
ODD = {**LARGE, "number": "7 \"ü\" \\ 'so' {on},"}
WAIT = {"id": "paid", "type": "wait", "key": "paid:7"}
WAYS = [{"from": "paid", "event": "completed", "to": "end"}]
INSERT = "INSERT INTO public.orders VALUES (1)"
COUNTS = """
SELECT (SELECT count(*) FROM public.orders), (SELECT count(*) FROM assent.entities WHERE org_id = 'acme'),
       (SELECT count(*) FROM assent.workflow_instances WHERE org_id = 'acme'),
       (SELECT count(*) FROM assent.workflow_events_outbox WHERE org_id = 'acme' AND event_type = 'on_event'),
       (SELECT count(*) FROM assent.task_submissions WHERE org_id = 'acme')
"""


class OrderRow(models.Model):
    """A table of the application."""

    id = models.IntegerField(primary_key=True)

    class Meta:
        app_label = "shop"
        db_table = "orders"
        managed = False


@pytest.fixture(autouse=True)
async def tables(database: Database, app: App) -> None:
    async with database.transaction(None) as connection:
        await connection.execute("CREATE TABLE public.orders (id integer)")
    await found_acme_with_invoices(database)
    await publish_steps(database, "orders", [WAIT, END], WAYS)

    @app.task("orders.print")
    def print_order(number: int) -> None: ...


@pytest.fixture
def blocking(app: App, database: Database) -> Iterator[SyncRuntime]:
    with app.sync_runtime(database.url) as runtime:
        yield runtime


async def written(database: Database) -> list[int]:
    """Return how many orders, entities, instances, events and tasks are committed."""
    async with database.transaction(None) as connection:
        return list(await connection.fetchrow(COUNTS))


def work(here: SyncOrgRuntime) -> None:
    """Work of each kind, and what it reads back in the same transaction."""
    here = here.by(ANN)
    made = here.entities.mutate("invoice.create", ODD).entity
    view = here.entities.transition(made.id, "submit")
    here.by(FIN).approvals.decide(request_id(view, "finance"), "approved", reason="so, 'be' it")
    read = here.entities.get(made.id)
    assert (read.data["number"], read.state) == (ODD["number"], "submitted")
    assert [one.reason for one in here.entities.decisions(made.id).items] == ["so, 'be' it"]
    assert here.instances.start("orders", {"nested": {"list": [1, "two", None]}}).status == "running"
    assert here.events.emit("paid:8", {"é": [1.5]}, cause="the bank")
    here.tasks.submit("orders.print", {"number": 7}, key="7")


async def work_async(here: OrgRuntime) -> None:
    here = here.by(ANN)
    made = (await here.entities.mutate("invoice.create", ODD)).entity
    view = await here.entities.transition(made.id, "submit")
    await here.by(FIN).approvals.decide(request_id(view, "finance"), "approved", reason="so, 'be' it")
    read = await here.entities.get(made.id)
    assert (read.data["number"], read.state) == (ODD["number"], "submitted")
    assert [one.reason for one in (await here.entities.decisions(made.id)).items] == ["so, 'be' it"]
    started = await here.instances.start("orders", {"nested": {"list": [1, "two", None]}})
    assert started.status == "running"
    assert await here.events.emit("paid:8", {"é": [1.5]}, cause="the bank")
    await here.tasks.submit("orders.print", {"number": 7}, key="7")


ALL = [1, 1, 2, 1, 1]
NONE = [0, 0, 0, 0, 0]


@dataclass(frozen=True, slots=True)
class CallerKind:
    """A transaction of the caller: what it is to `within`, how it runs a statement, and how it makes a savepoint."""

    caller: Any
    execute: Callable[[str], Any]
    savepoint: Callable[[], Any]


def with_driver(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


@contextmanager
def by_psycopg(url: str) -> Iterator[CallerKind]:
    with psycopg.connect(url) as connection:
        yield CallerKind(connection, connection.execute, connection.transaction)


@contextmanager
def by_psycopg_with_autocommit(url: str) -> Iterator[CallerKind]:
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        yield CallerKind(connection, connection.execute, connection.transaction)


@contextmanager
def disposing(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def by_sqlalchemy_session(url: str) -> Iterator[CallerKind]:
    with (
        disposing(create_engine(with_driver(url, "psycopg"))) as engine,
        Session(engine) as session,
        session.begin(),
    ):
        yield CallerKind(session, lambda sql: session.execute(text(sql)), session.begin_nested)


@contextmanager
def by_scoped_session(url: str) -> Iterator[CallerKind]:
    """As Flask-SQLAlchemy's `db.session` is."""
    with disposing(create_engine(with_driver(url, "psycopg"))) as engine:
        session = scoped_session(sessionmaker(engine))
        try:
            with session.begin():
                yield CallerKind(session, lambda sql: session.execute(text(sql)), session.begin_nested)
        finally:
            session.remove()


@contextmanager
def by_sqlalchemy_connection(url: str) -> Iterator[CallerKind]:
    with disposing(create_engine(with_driver(url, "psycopg"))) as engine, engine.begin() as connection:
        yield CallerKind(connection, lambda sql: connection.execute(text(sql)), connection.begin_nested)


@contextmanager
def by_django(url: str) -> Iterator[CallerKind]:
    with django_on(url), transaction.atomic():
        yield CallerKind(django_connection, lambda sql: OrderRow.objects.create(id=1), transaction.atomic)


BLOCKING = [
    by_psycopg,
    by_psycopg_with_autocommit,
    by_sqlalchemy_session,
    by_scoped_session,
    by_sqlalchemy_connection,
    by_django,
]


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[CallerKind]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield CallerKind(connection, connection.execute, connection.transaction)
    finally:
        await connection.close()


@asynccontextmanager
async def by_psycopg_async(url: str) -> AsyncIterator[CallerKind]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield CallerKind(connection, connection.execute, connection.transaction)


@asynccontextmanager
async def by_async_session(url: str, driver: str) -> AsyncIterator[CallerKind]:
    engine = create_async_engine(with_driver(url, driver))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield CallerKind(session, lambda sql: session.execute(text(sql)), session.begin_nested)
    finally:
        await engine.dispose()


def by_async_session_on_asyncpg(url: str) -> AbstractAsyncContextManager[CallerKind]:
    return by_async_session(url, "asyncpg")


def by_async_session_on_psycopg(url: str) -> AbstractAsyncContextManager[CallerKind]:
    return by_async_session(url, "psycopg_async")


@asynccontextmanager
async def by_async_connection_on_psycopg(url: str) -> AsyncIterator[CallerKind]:
    engine = create_async_engine(with_driver(url, "psycopg"))
    try:
        async with engine.begin() as connection:
            yield CallerKind(connection, lambda sql: connection.execute(text(sql)), connection.begin_nested)
    finally:
        await engine.dispose()


AWAITED = [
    by_asyncpg,
    by_psycopg_async,
    by_async_session_on_asyncpg,
    by_async_session_on_psycopg,
    by_async_connection_on_psycopg,
]

Blocks = Callable[[str], AbstractContextManager[CallerKind]]
Awaits = Callable[[str], AbstractAsyncContextManager[CallerKind]]


class ChangedMyMind(Exception):
    pass


async def in_thread(function: Callable[[], object]) -> None:
    """As a framework would: the loop of the test goes on meanwhile. Raises what the thread raised."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("opened", BLOCKING)
async def test_all_commits_with_the_callers_rows(
    opened: Blocks, blocking: SyncRuntime, database: Database
) -> None:
    def run() -> None:
        with opened(database.url) as way:
            way.execute(INSERT)
            with blocking.within(way.caller, ORG) as here:
                work(here)

    await in_thread(run)
    assert await written(database) == ALL


@pytest.mark.parametrize("opened", BLOCKING)
async def test_within_first_and_own_rows_afterwards(
    opened: Blocks, blocking: SyncRuntime, database: Database
) -> None:
    def run() -> None:
        with opened(database.url) as way:
            with blocking.within(way.caller, ORG) as here:
                work(here)
            way.execute(INSERT)  # with the caller's own role and settings again

    await in_thread(run)
    assert await written(database) == ALL


@pytest.mark.parametrize("opened", BLOCKING)
async def test_the_callers_rollback_undoes_all(
    opened: Blocks, blocking: SyncRuntime, database: Database
) -> None:
    def run() -> None:
        with opened(database.url) as way:
            way.execute(INSERT)
            with blocking.within(way.caller, ORG) as here:
                work(here)
            raise ChangedMyMind

    with pytest.raises(ChangedMyMind):
        await in_thread(run)
    assert await written(database) == NONE


@pytest.mark.parametrize("opened", BLOCKING)
async def test_what_is_raised_in_the_block_undoes_the_block_alone(
    opened: Blocks, blocking: SyncRuntime, database: Database
) -> None:
    def run() -> None:
        with opened(database.url) as way:
            with pytest.raises(ChangedMyMind), blocking.within(way.caller, ORG) as here:  # noqa: PT012
                work(here)
                raise ChangedMyMind
            way.execute(INSERT)

    await in_thread(run)
    assert await written(database) == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("opened", BLOCKING)
async def test_a_refused_command_undoes_itself_alone(
    opened: Blocks, blocking: SyncRuntime, database: Database
) -> None:
    def run() -> None:
        with opened(database.url) as way:
            with blocking.within(way.caller, ORG) as here:
                with pytest.raises(Refused):
                    here.by(ANN).instances.start("unknown")
                with pytest.raises(Refused):
                    here.by(ANN).entities.mutate("expense.create", {"title": "a \0 in it", "total": 1})
                work(here)
            way.execute(INSERT)

    await in_thread(run)
    assert await written(database) == ALL


@pytest.mark.parametrize("opened", BLOCKING)
async def test_a_savepoint_of_the_caller_undoes_what_was_done_in_it(
    opened: Blocks, blocking: SyncRuntime, database: Database
) -> None:
    def run() -> None:
        with opened(database.url) as way:
            way.execute(INSERT)
            with blocking.within(way.caller, ORG) as here:
                here.events.emit("paid:outer")
            with pytest.raises(ChangedMyMind), way.savepoint():  # noqa: PT012
                with blocking.within(way.caller, ORG) as here:
                    work(here)
                raise ChangedMyMind

    await in_thread(run)
    assert await written(database) == [1, 0, 0, 1, 0]


@pytest.mark.parametrize("opened", AWAITED)
async def test_all_commits_with_the_callers_rows_when_awaited(
    opened: Awaits, runtime: Runtime, database: Database
) -> None:
    async with opened(database.url) as way:
        await way.execute(INSERT)
        async with runtime.within(way.caller, ORG) as here:
            await work_async(here)
            assert await written(database) == NONE  # no other connection sees it yet
    assert await written(database) == ALL


@pytest.mark.parametrize("opened", AWAITED)
async def test_the_callers_rollback_undoes_all_when_awaited(
    opened: Awaits, runtime: Runtime, database: Database
) -> None:
    async def run() -> None:
        async with opened(database.url) as way:
            async with runtime.within(way.caller, ORG) as here:
                await work_async(here)
            await way.execute(INSERT)
            raise ChangedMyMind

    with pytest.raises(ChangedMyMind):
        await run()
    assert await written(database) == NONE


@pytest.mark.parametrize("opened", AWAITED)
async def test_a_savepoint_of_the_caller_undoes_what_was_done_in_it_when_awaited(
    opened: Awaits, runtime: Runtime, database: Database
) -> None:
    async with opened(database.url) as way:
        async with runtime.within(way.caller, ORG) as here:
            await here.events.emit("paid:outer")
            with pytest.raises(Refused):
                await here.by(ANN).instances.start("unknown")
        with pytest.raises(ChangedMyMind):  # noqa: PT012
            async with way.savepoint():
                async with runtime.within(way.caller, ORG) as here:
                    await work_async(here)
                raise ChangedMyMind
        await way.execute(INSERT)
    assert await written(database) == [1, 0, 0, 1, 0]


async def test_a_connection_outside_of_a_transaction_is_refused(
    blocking: SyncRuntime, runtime: Runtime, database: Database
) -> None:
    with (
        psycopg.connect(database.url, autocommit=True) as connection,
        pytest.raises(ValueError, match="begin one around"),
        blocking.within(connection, ORG),
    ):
        pass
    async with await psycopg.AsyncConnection.connect(database.url, autocommit=True) as connection:
        with pytest.raises(ValueError, match="begin one around"):
            async with runtime.within(connection, ORG):
                pass


async def test_a_connection_that_blocks_is_refused_where_it_would_stop_the_loop(
    runtime: Runtime, database: Database
) -> None:
    with psycopg.connect(database.url) as connection, pytest.raises(ValueError, match="sync_runtime"):
        async with runtime.within(connection, ORG):
            pass


async def test_another_object_is_refused_with_its_type(blocking: SyncRuntime, runtime: Runtime) -> None:
    with pytest.raises(ValueError, match=r"found builtins\.str"), blocking.within("a text", ORG):
        pass
    with pytest.raises(ValueError, match=r"found builtins\.str"):
        async with runtime.within("a text", ORG):
            pass


async def test_a_connection_to_await_is_refused_by_the_runtime_that_blocks(
    blocking: SyncRuntime, database: Database
) -> None:
    engine = create_async_engine(with_driver(database.url, "psycopg"))
    async with (
        await psycopg.AsyncConnection.connect(database.url) as connection,
        AsyncSession(engine) as session,
        database.transaction(None) as ours,
    ):
        for caller in (connection, session, ours):
            with pytest.raises(ValueError, match=r"belong to `app\.runtime"), blocking.within(caller, ORG):
                pass
    await engine.dispose()


async def test_a_pipeline_is_refused(blocking: SyncRuntime, database: Database) -> None:
    with (
        psycopg.connect(database.url) as connection,
        connection.pipeline(),
        pytest.raises(ValueError, match="pipeline"),
        blocking.within(connection, ORG),
    ):
        pass


async def test_the_connection_reads_and_acts_as_before(blocking: SyncRuntime, database: Database) -> None:
    standing = "SELECT current_user, current_setting('assent.org_id', true), '{\"a\": 1}'::jsonb AS found"
    with psycopg.connect(database.url, row_factory=psycopg.rows.dict_row) as connection:
        before = connection.execute(standing).fetchone()
        with blocking.within(connection, ORG) as here:
            here.events.emit("paid:9")
        assert connection.execute(standing).fetchone() | {"current_setting": None} == before | {
            "current_setting": None
        }


async def test_other_commands_go_on_while_a_connection_that_blocks_waits_for_a_lock(
    blocking: SyncRuntime, database: Database
) -> None:
    """The loop does not wait for the server: else the one that holds the lock could never let it go."""
    acme = blocking.org(ORG, ANN)
    made = acme.entities.mutate("expense.create", TAXI).entity
    waits = threading.Event()

    def edit() -> None:
        with psycopg.connect(database.url) as connection, blocking.within(connection, ORG, ANN) as here:
            waits.set()
            here.entities.mutate("expense.update", {"total": 3}, made.id)

    with psycopg.connect(database.url) as holder:
        with blocking.within(holder, ORG, ANN) as here:
            here.entities.mutate("expense.update", {"total": 2}, made.id)
        thread = threading.Thread(target=edit)
        thread.start()
        waits.wait(10)
        for _ in range(3):
            assert acme.entities.get(made.id).data["total"] == 1  # the loop is free
        holder.commit()
    thread.join(20)
    assert acme.entities.get(made.id).data["total"] == 3


async def test_threads_have_their_transactions_at_the_same_time(
    blocking: SyncRuntime, database: Database
) -> None:
    together = threading.Barrier(4)

    def run() -> None:
        with psycopg.connect(database.url) as connection, blocking.within(connection, ORG) as here:
            work_for = here.by(ANN)
            together.wait(20)
            work_for.entities.mutate("expense.create", TAXI)
            together.wait(20)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (await written(database))[1] == 4


async def test_an_operation_runs_on_the_callers_connection(
    app: App, blocking: SyncRuntime, database: Database
) -> None:
    @app.operation("orders.book")
    async def book(connection, arguments):
        await connection.execute("RESET ROLE")  # the row is the application's; the step is in its transaction
        await connection.execute("INSERT INTO public.orders VALUES ($1)", arguments["number"])
        row = await connection.fetchrow(
            "SELECT count(*) AS orders, $1::text[] AS names FROM public.orders", ["a"]
        )
        await connection.execute("SET LOCAL ROLE assent_engine")
        return {"orders": row["orders"], "names": row["names"]}

    step = {"id": "book", "type": "system", "operation": {"sdk": "orders.book"}}
    step |= {"input": {"number": "workflow.number"}, "output": {"orders": "result.orders"}}
    ways = [{"from": "book", "event": "completed", "to": "end"}]
    await publish_steps(database, "booking", [step, END], ways)

    def run() -> None:
        with psycopg.connect(database.url) as connection, blocking.within(connection, ORG, ANN) as here:
            view = here.instances.start("booking", {"number": 5})
            assert (view.status, view.context["orders"]) == ("completed", 1)
            connection.rollback()

    with pytest.raises(asyncpg.PostgresError):  # the block's savepoint is gone with the caller's transaction
        await in_thread(run)
    assert (await written(database))[0] == 0


def test_an_interrupt_ends_the_statement_and_leaves_the_connection_usable(database: Database) -> None:
    program = textwrap.dedent("""
        import signal, sys, threading, psycopg, assent
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell began it in the background
        app = assent.App()

        @app.task("slow")
        def slow() -> None: ...

        runtime = app.sync_runtime(sys.argv[1])
        with psycopg.connect(sys.argv[1]) as holder, psycopg.connect(sys.argv[1]) as connection:
            with runtime.within(holder, "acme") as acme:
                acme.tasks.submit("slow", key="one")      # holds the key until it ends
            threading.Timer(1, lambda: signal.raise_signal(signal.SIGINT)).start()
            try:
                with runtime.within(connection, "acme") as acme:
                    acme.tasks.submit("slow", key="one")  # waits for the other
            except KeyboardInterrupt:
                print("interrupted", connection.execute("SELECT 7").fetchone()[0])
    """)
    command = [sys.executable, "-c", program, database.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted 7\n", "", 0)
