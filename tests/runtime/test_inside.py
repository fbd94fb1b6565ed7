"""The runtime in the transaction of an application that has rows of its own: all of it, or nothing."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from assent.model.mutation import Refused
from assent.runtime import OrgRuntime, Runtime
from assent.store.database import Connection, Database
from tests.authored import END
from tests.world import ANN, ORG, publish_steps, rows

TAXI = {"title": "Taxi", "total": 1}
WAIT = {"id": "paid", "type": "wait", "key": "paid:7"}
WAYS = [{"from": "paid", "event": "completed", "to": "end"}]


@pytest.fixture
async def caller(database: Database) -> AsyncIterator[Connection]:
    """A connection of an application that knows nothing of us."""
    connection = await asyncpg.connect(database.url)
    await connection.execute("CREATE TABLE public.orders (id integer)")
    yield connection
    await connection.close()


async def work(here: OrgRuntime) -> None:
    """One of each kind."""
    await here.by(ANN).entities.mutate("expense.create", TAXI)
    await here.by(ANN).instances.start("orders")
    assert await here.events.emit("paid:7", cause="the bank")


async def written(database: Database) -> list[int]:
    tables = ("entities", "workflow_instances", "workflow_outbox_receipts")
    return [len(await rows(database, table)) for table in tables]


async def orders(caller: Connection) -> int:
    return int(await caller.fetchval("SELECT count(*) FROM public.orders"))


async def test_all_of_it_commits_with_the_callers_rows(
    runtime: Runtime, database: Database, caller: Connection
) -> None:
    await publish_steps(database, "orders", [WAIT, END], WAYS)
    async with caller.transaction():
        await caller.execute("INSERT INTO public.orders VALUES (1)")
        async with runtime.within(caller, ORG) as here:
            await work(here)
            assert await written(database) == [0, 0, 0]  # nobody else sees it yet
    assert await orders(caller) == 1
    assert (await written(database))[:2] == [1, 1]


async def test_none_of_it_stays_when_the_caller_rolls_back(
    runtime: Runtime, database: Database, caller: Connection
) -> None:
    await publish_steps(database, "orders", [WAIT, END], WAYS)

    async def work_and_fail() -> None:
        async with caller.transaction():
            await caller.execute("INSERT INTO public.orders VALUES (1)")
            async with runtime.within(caller, ORG) as here:
                await work(here)
            raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError, match="changed my mind"):
        await work_and_fail()
    assert await orders(caller) == 0
    assert await written(database) == [0, 0, 0]


async def test_what_is_refused_undoes_itself_alone(
    runtime: Runtime, database: Database, caller: Connection
) -> None:
    async with caller.transaction():
        async with runtime.within(caller, ORG) as here:
            await here.by(ANN).entities.mutate("expense.create", TAXI)
            with pytest.raises(Refused):
                await here.by(ANN).instances.start("unknown")
        await caller.execute("INSERT INTO public.orders VALUES (1)")
    assert await orders(caller) == 1
    assert (await written(database))[:2] == [1, 0]


async def test_another_org_is_not_for_this_block(runtime: Runtime, caller: Connection) -> None:
    async with caller.transaction(), runtime.within(caller, ORG) as here:
        elsewhere = Runtime(here.scope.core).org("globex")
        with pytest.raises(ValueError, match="found 'globex'"):
            await elsewhere.events.emit("paid:7")


async def test_every_part_works_on_the_callers_transaction(runtime: Runtime, caller: Connection) -> None:
    async with caller.transaction(), runtime.within(caller, ORG) as here:
        core = here.scope.core
        databases = [
            core.database,
            core.kernel.database,
            core.advancing.means.kernel.database,
            core.advancing.loader.kernel.database,
        ]
        assert all(database is core.database for database in databases)
        assert core.database.is_joined


async def test_connection_of_ours_reads_json_as_before(runtime: Runtime, database: Database) -> None:
    async with database.transaction(ORG) as connection:
        async with runtime.within(connection, ORG) as here:
            assert await here.events.emit("paid:7")
        assert await connection.fetchval("SELECT '{}'::jsonb") == {}


async def test_sessions_and_connections_of_sqlalchemy_take_it_along(
    runtime: Runtime, database: Database, caller: Connection
) -> None:
    await publish_steps(database, "orders", [WAIT, END], WAYS)
    engine = create_async_engine(database.url.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(text("INSERT INTO public.orders VALUES (1)"))
        async with runtime.within(session, ORG) as here:
            await work(here)
        await session.rollback()
    async with engine.begin() as connection, runtime.within(connection, ORG) as here:
        await work(here)
    await engine.dispose()
    assert await orders(caller) == 0
    assert (await written(database))[:2] == [1, 1]
