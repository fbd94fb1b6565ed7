"""Inside the caller's own transaction: with the caller's rows or not at all, and nothing of ours stays behind."""

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from assent.model.mutation import Command, Rejection
from assent.store.caller_transaction import caller_transaction
from tests.world import ANN

ORDERS = "CREATE TABLE public.orders (id integer, note jsonb)"
COUNT = (
    "SELECT (SELECT count(*) FROM public.orders),"
    " (SELECT count(*) FROM assent.entities WHERE org_id = 'acme')"
)
STANDING = "SELECT current_user::text, coalesce(current_setting('assent.org_id', true), '')"


@pytest.fixture
async def caller(database):
    """A connection of an application that knows nothing of us."""
    connection = await asyncpg.connect(database.url)
    await connection.execute(ORDERS)
    yield connection
    await connection.close()


TAXI = Command("acme", "expense.create", ANN, {"title": "Taxi", "total": 1})


async def book(database, kernel, caller, number):
    """The application's own row and our entity."""
    await caller.execute("INSERT INTO public.orders VALUES ($1, $2)", number, '{"paid": true}')
    async with caller_transaction(database, caller, "acme") as connection:
        return await kernel.mutate_in(connection, [TAXI])


async def test_both_commit_together(database, kernel, caller):
    async with caller.transaction():
        await book(database, kernel, caller, 1)
    assert tuple(await caller.fetchrow(COUNT)) == (1, 1)


async def test_both_roll_back_together(database, kernel, caller):
    async def book_and_fail():
        async with caller.transaction():
            await book(database, kernel, caller, 1)
            raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError, match="changed my mind"):
        await book_and_fail()
    assert tuple(await caller.fetchrow(COUNT)) == (0, 0)


async def test_the_caller_is_who_it_was_and_reads_json_as_before(database, kernel, caller):
    async with caller.transaction():
        before = tuple(await caller.fetchrow(STANDING))
        await book(database, kernel, caller, 1)
        assert tuple(await caller.fetchrow(STANDING)) == before
        assert await caller.fetchval("SELECT note FROM public.orders") == '{"paid": true}'


async def test_what_fails_inside_leaves_the_callers_transaction_good(database, kernel, caller):
    async with caller.transaction():
        await caller.execute("INSERT INTO public.orders VALUES (1, NULL)")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with caller_transaction(database, caller, "acme") as connection:
                await connection.execute("DELETE FROM assent.entities")
        await caller.execute("INSERT INTO public.orders VALUES (2, NULL)")
    assert tuple(await caller.fetchrow(COUNT)) == (2, 0)


async def test_it_acts_for_one_org_only(database, kernel, caller):
    async with caller.transaction():
        await book(database, kernel, caller, 1)
        async with caller_transaction(database, caller, "globex") as connection:
            assert await connection.fetchval("SELECT count(*) FROM assent.entities") == 0


async def test_outside_a_transaction_it_is_refused(database, caller):
    with pytest.raises(ValueError, match="found one outside"):
        async with caller_transaction(database, caller, "acme"):
            pass


async def test_a_session_of_sqlalchemy_takes_us_along(database, kernel, caller):
    engine = create_async_engine(database.url.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(text("INSERT INTO public.orders VALUES (1, '{\"paid\": true}')"))
        async with caller_transaction(database, session, "acme") as connection:
            (made,) = await kernel.mutate_in(connection, [TAXI])
        assert not isinstance(made, Rejection)
        note = await session.scalar(text("SELECT note FROM public.orders"))
    assert tuple(await caller.fetchrow(COUNT)) == (1, 1)
    assert note == {"paid": True}
    async with AsyncSession(engine) as session, session.begin():
        async with caller_transaction(database, session, "acme") as connection:
            await kernel.mutate_in(connection, [TAXI])
        await session.rollback()
    assert tuple(await caller.fetchrow(COUNT)) == (1, 1)
    await engine.dispose()
