"""The proxy itself: what passes, and what each fault does to a connection and to its transaction."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.faults.proxy import COMMIT, Fault, Moment, Proxy

pytestmark = pytest.mark.without_twin("the proxy is about connections, not about orgs")

TABLE = "CREATE TABLE public.marks (what text NOT NULL)"
INSERT = "INSERT INTO public.marks (what) VALUES ($1)"
CLIENT_WAIT_S = 0.2


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    direct = await asyncpg.connect(database_url)
    await direct.execute(TABLE)
    await direct.close()
    async with Proxy.before(database_url) as proxy:
        yield proxy


async def marks(database_url: str) -> list[str]:
    direct = await asyncpg.connect(database_url)
    try:
        return [row["what"] for row in await direct.fetch("SELECT what FROM public.marks ORDER BY what")]
    finally:
        await direct.close()


async def write(proxy: Proxy, what: str) -> None:
    connection = await asyncpg.connect(proxy.url)
    try:
        patience = asyncio.timeout(CLIENT_WAIT_S if what == "frozen" else None)
        async with patience, connection.transaction():
            await connection.execute(INSERT, what)
    finally:
        connection.terminate()


async def test_statements_and_large_answers_pass_unchanged(proxy: Proxy) -> None:
    connection = await asyncpg.connect(proxy.url)
    rows = await connection.fetch("SELECT n, repeat('x', 1000) AS wide FROM generate_series(1, 5000) n")
    assert [row["n"] for row in rows] == list(range(1, 5001))
    records = [(str(n),) for n in range(3000)]
    await connection.copy_records_to_table("marks", schema_name="public", records=records)
    assert await connection.fetchval("SELECT count(*) FROM public.marks") == 3000
    await connection.close()


@pytest.mark.parametrize(("moment", "kept"), [("before", []), ("after", ["cut"])])
async def test_cut_decides_about_the_commit_and_tells_the_client_nothing(
    proxy: Proxy, database_url: str, moment: Moment, kept: list[str]
) -> None:
    fault = proxy.arm(Fault(COMMIT, moment=moment))
    with pytest.raises((ConnectionError, asyncpg.PostgresConnectionError)):
        await write(proxy, "cut")
    assert fault.struck
    assert await marks(database_url) == kept


@pytest.mark.parametrize(("moment", "kept"), [("before", []), ("after", ["frozen"])])
async def test_frozen_link_says_nothing_and_stays_open(
    proxy: Proxy, database_url: str, moment: Moment, kept: list[str]
) -> None:
    fault = proxy.arm(Fault(COMMIT, moment=moment, action="freeze"))
    with pytest.raises(TimeoutError):
        await write(proxy, "frozen")
    assert fault.struck
    assert proxy.links == 1, "the server's side of a frozen link outlives its client"
    assert await marks(database_url) == kept


async def test_link_that_was_held_goes_on(proxy: Proxy, database_url: str) -> None:
    fault = proxy.arm(Fault(COMMIT, moment="before", action="hold"))
    writing = asyncio.create_task(write(proxy, "held"))
    await fault.wait()
    assert await marks(database_url) == []
    fault.release()
    await writing
    assert await marks(database_url) == ["held"]


async def test_only_the_chosen_one_of_several_commits_is_cut(proxy: Proxy, database_url: str) -> None:
    proxy.arm(Fault(COMMIT, nth=2, moment="before"))
    await write(proxy, "a")
    with pytest.raises((ConnectionError, asyncpg.PostgresConnectionError)):
        await write(proxy, "b")
    await write(proxy, "c")
    assert await marks(database_url) == ["a", "c"]
    assert proxy.statements[COMMIT] == 3


async def test_prepared_statement_is_found_by_its_name(proxy: Proxy, database_url: str) -> None:
    connection = await asyncpg.connect(proxy.url)
    insert = await connection.prepare(f"/* insert_mark */ {INSERT}")
    await insert.fetch("first")
    fault = proxy.arm(Fault("insert_mark"))
    with pytest.raises((ConnectionError, asyncpg.PostgresConnectionError)):
        await insert.fetch("second")
    assert fault.struck
    assert await marks(database_url) == ["first", "second"]
    connection.terminate()


async def test_frozen_links_leave_new_ones_alone_and_thaw(proxy: Proxy, database_url: str) -> None:
    first = await asyncpg.connect(proxy.url)
    proxy.freeze()
    asking = asyncio.create_task(first.fetchval("SELECT 1"))
    await write(proxy, "new")
    assert not asking.done()
    assert proxy.thaw() == 1
    assert await asking == 1
    await first.close()
    assert await marks(database_url) == ["new"]


async def test_refused_and_admitted(proxy: Proxy) -> None:
    proxy.refuse()
    with pytest.raises((OSError, asyncpg.PostgresConnectionError)):
        await asyncpg.connect(proxy.url)
    proxy.admit()
    await (await asyncpg.connect(proxy.url)).close()


async def test_cancel_request_reaches_the_server(proxy: Proxy) -> None:
    connection = await asyncpg.connect(proxy.url)
    with pytest.raises(TimeoutError):
        await connection.fetchval("SELECT pg_sleep(60)", timeout=CLIENT_WAIT_S)
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()
