"""The runtime in the transaction of an application that has rows of its own: all of it, or nothing."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from assent.model.mutation import Command, Refused
from assent.runtime import Runtime
from assent.store.database import Connection, Database
from tests.runtime.flows import ANN, END, ORG, publish, rows

TAXI = Command(ORG, "expense.create", ANN, {"title": "Taxi", "total": 1})
WAIT = {"id": "paid", "type": "wait", "key": "paid:7"}
WAYS = [{"from": "paid", "event": "completed", "to": "end"}]


@pytest.fixture
async def caller(database: Database) -> AsyncIterator[Connection]:
    """A connection of an application that knows nothing of us."""
    connection = await asyncpg.connect(database.url)
    await connection.execute("CREATE TABLE public.orders (id integer)")
    yield connection
    await connection.close()


async def work(here: Runtime) -> None:
    """One of each kind."""
    await here.kernel.mutate(TAXI)
    await here.start(ORG, "orders", ANN)
    assert await here.emit(ORG, "paid:7", cause="the bank")


async def written(database: Database) -> list[int]:
    tables = ("entities", "workflow_instances", "workflow_outbox_receipts")
    return [len(await rows(database, table)) for table in tables]


async def orders(caller: Connection) -> int:
    return int(await caller.fetchval("SELECT count(*) FROM public.orders"))


async def test_all_of_it_commits_with_the_callers_rows(
    runtime: Runtime, database: Database, caller: Connection
) -> None:
    await publish(database, "orders", [WAIT, END], WAYS)
    async with caller.transaction():
        await caller.execute("INSERT INTO public.orders VALUES (1)")
        async with runtime.inside(caller, ORG) as here:
            await work(here)
            assert await written(database) == [0, 0, 0]  # nobody else sees it yet
    assert await orders(caller) == 1
    assert (await written(database))[:2] == [1, 1]


async def test_none_of_it_stays_when_the_caller_rolls_back(
    runtime: Runtime, database: Database, caller: Connection
) -> None:
    await publish(database, "orders", [WAIT, END], WAYS)

    async def work_and_fail() -> None:
        async with caller.transaction():
            await caller.execute("INSERT INTO public.orders VALUES (1)")
            async with runtime.inside(caller, ORG) as here:
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
        async with runtime.inside(caller, ORG) as here:
            await here.kernel.mutate(TAXI)
            with pytest.raises(Refused):
                await here.start(ORG, "unknown", ANN)
        await caller.execute("INSERT INTO public.orders VALUES (1)")
    assert await orders(caller) == 1
    assert (await written(database))[:2] == [1, 0]


async def test_another_org_is_not_for_this_block(runtime: Runtime, caller: Connection) -> None:
    async with caller.transaction(), runtime.inside(caller, ORG) as here:
        with pytest.raises(ValueError, match="found 'globex'"):
            await here.emit("globex", "paid:7")


async def test_sessions_and_connections_of_sqlalchemy_take_it_along(
    runtime: Runtime, database: Database, caller: Connection
) -> None:
    await publish(database, "orders", [WAIT, END], WAYS)
    engine = create_async_engine(database.url.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(text("INSERT INTO public.orders VALUES (1)"))
        async with runtime.inside(session, ORG) as here:
            await work(here)
        await session.rollback()
    async with engine.begin() as connection, runtime.inside(connection, ORG) as here:
        await work(here)
    await engine.dispose()
    assert await orders(caller) == 0
    assert (await written(database))[:2] == [1, 1]
