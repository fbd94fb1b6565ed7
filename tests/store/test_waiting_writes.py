"""Writes that wait for the next message: in which order they come, what undoes them, and who hears of their errors."""

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from assent.store.caller_transaction import caller_transaction
from assent.store.connection import GATHERED_CHARACTERS_MAX, put, send_unsent
from assent.store.database import Connection, Database
from assent.store.queries import load_queries
from tests.faults.proxy import Proxy
from tests.postgres import SETTINGS

KEEP = load_queries("assent.runtime", "runtime.sql").keep_events
KEPT = "SELECT event_key FROM assent.workflow_kept_events ORDER BY event_key"
AT = datetime(2026, 3, 2, tzinfo=UTC)
HOSTILE = [
    "it's",
    "'); COMMIT; DROP SCHEMA assent CASCADE; --",
    '"quoted" \\ and \\\\ {braces, commas}',
    "$1 $$ $a$ :name %s",
    "/* put */ ;\nCOMMIT",
    "NULL",
    "é 漢 \U0001f600",
    " ",
]


class TakenBefore(Exception):
    pass


def explain(error: asyncpg.PostgresError) -> Exception | None:
    return TakenBefore(error.detail) if error.sqlstate == "AS014" else None


async def keep(connection: Connection, key: str, payload: Any = None) -> None:
    row = {"org_id": "acme", "id": uuid4(), "event_key": key, "payload": payload or {}, "created_at": AT}
    await put(connection, KEEP, [row])


async def fail(connection: Connection, detail: str = "") -> None:
    await put(connection, "/* fail */ SELECT assent.fail('AS014', 'no', $1::text)", detail, explain=explain)


async def kept(database: Database) -> list[str]:
    async with database.transaction("acme") as connection:
        return [row["event_key"] for row in await connection.fetch(KEPT)]


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    async with Proxy.before(database_url) as proxy:
        yield proxy


@pytest.fixture(params=[100, 0], ids=["prepared", "behind a pooler"])
async def far(proxy: Proxy, clock: Any, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """One connection by way of the proxy, which may keep prepared statements or not."""
    settings = SETTINGS.replace(
        pool_connections_max=1, plans_kept_ms=3_600_000, prepared_statements_max=request.param
    )
    database = await Database.open(proxy.url, settings=settings, clock=clock)
    async with database.transaction("acme", plans="kept") as connection:
        await connection.fetchval("SELECT 1")  # plans are renewed once
    proxy.clear()
    yield database
    await database.close()


async def test_a_transaction_that_only_writes_is_one_message(far: Database, proxy: Proxy) -> None:
    for number in range(2):  # the second time statements are prepared
        proxy.clear()
        async with far.transaction("acme", plans="kept") as connection:
            await keep(connection, f"a{number}")
            await keep(connection, f"b{number}")
            assert proxy.round_trips == 0
        assert proxy.round_trips == 1
        assert proxy.order == ["enter_org", "keep_events", "keep_events", "COMMIT"]
    assert await kept(far) == ["a0", "a1", "b0", "b1"]


async def test_a_read_sees_what_was_put_before_it(far: Database) -> None:
    async with far.transaction("acme", plans="kept") as connection:
        await keep(connection, "first")
        assert await connection.fetchval("SELECT count(*) FROM assent.workflow_kept_events") == 1
        await keep(connection, "second")
        assert len(await connection.fetch(KEPT)) == 2


async def test_a_large_write_goes_by_itself_and_in_its_place(far: Database, proxy: Proxy) -> None:
    async with far.transaction("acme", plans="kept") as connection:
        await keep(connection, "a")
        await keep(connection, "b", {"text": "x" * GATHERED_CHARACTERS_MAX})
        assert proxy.order == ["enter_org", "keep_events", "keep_events"]
        await keep(connection, "c")
    assert await kept(far) == ["a", "b", "c"]


async def test_without_kept_plans_nothing_waits(far: Database, proxy: Proxy) -> None:
    async with far.transaction("acme") as connection:
        await keep(connection, "at once")
        assert "keep_events" in proxy.order


@pytest.mark.parametrize("text", HOSTILE)
async def test_every_text_arrives_as_it_is(far: Database, text: str) -> None:
    async with far.transaction("acme", plans="kept") as connection:
        await keep(connection, f"key {text}", {"text": text, text: [text, None, 1.5]})
    async with far.transaction("acme") as connection:
        (row,) = await connection.fetch("SELECT event_key, payload FROM assent.workflow_kept_events")
    assert row["event_key"] == f"key {text}"
    assert row["payload"] == {"text": text, text: [text, None, 1.5]}


async def test_arrays_times_and_nothing_arrive_as_they_are(far: Database) -> None:
    values = ([*HOSTILE, None, ""], [UUID(int=7)], [AT, None], AT, 7, True, None)
    types = ("text[]", "uuid[]", "timestamptz[]", "timestamptz", "integer", "boolean", "text")
    async with far.transaction(None, plans="kept") as connection:
        columns = ", ".join(f"c{place} {name}" for place, name in enumerate(types, 1))
        await connection.execute(f"CREATE TEMP TABLE given ({columns}) ON COMMIT DROP")
        places = ", ".join(f"${place}::{name}" for place, name in enumerate(types, 1))
        give = f"/* give */ INSERT INTO given VALUES ({places})"  # noqa: S608 - names of types
        await put(connection, give, *values)
        assert tuple(await connection.fetchrow("SELECT * FROM given") or ()) == values


async def test_what_fails_at_commit_changes_nothing_and_is_explained(far: Database) -> None:
    async def write() -> None:
        async with far.transaction("acme", plans="kept") as connection:
            await keep(connection, "never")
            await fail(connection, "step 7")
            await keep(connection, "never either")

    for _ in range(2):  # the connection is as good as before
        with pytest.raises(TakenBefore, match="step 7"):
            await write()
    async with far.transaction("acme", plans="kept") as connection:
        await keep(connection, "afterwards")
    assert await kept(far) == ["afterwards"]


async def test_an_error_is_raised_by_the_next_statement_and_not_run_past(far: Database) -> None:
    async def write() -> None:
        async with far.transaction("acme", plans="kept") as connection:
            await fail(connection)
            with pytest.raises(TakenBefore):
                await connection.fetchval("SELECT 1")
            await connection.fetchval("SELECT 1")

    with pytest.raises(asyncpg.InFailedSQLTransactionError):
        await write()


async def test_what_was_put_is_sent_before_code_that_catches_errors(far: Database) -> None:
    async with far.transaction("acme", plans="kept") as connection:
        await keep(connection, "sent")
        await send_unsent(connection)
        with pytest.raises(asyncpg.UndefinedTableError):
            async with connection.transaction():
                await connection.execute("SELECT * FROM missing")
    assert await kept(far) == ["sent"]


async def test_a_savepoint_undoes_what_was_put_in_it_and_nothing_else(far: Database) -> None:
    async with far.transaction("acme", plans="kept") as connection:
        with suppress(KeyError):
            async with connection.transaction():
                await keep(connection, "inside, before anything was sent")
                raise KeyError
        await keep(connection, "before")
        with suppress(KeyError):
            async with connection.transaction():
                await keep(connection, "inside")
                raise KeyError
        with suppress(KeyError):
            async with connection.transaction():
                await keep(connection, "inside, and sent")
                await connection.fetchval("SELECT 1")
                await keep(connection, "inside, and not sent")
                raise KeyError
        async with connection.transaction():
            await keep(connection, "kept")
        await keep(connection, "after")
    assert await kept(far) == ["after", "before", "kept"]


async def test_what_is_undone_before_it_was_sent_costs_nothing(far: Database, proxy: Proxy) -> None:
    with suppress(KeyError):
        async with far.transaction("acme", plans="kept") as connection:
            with suppress(KeyError):
                async with connection.transaction():
                    await keep(connection, "inside")
                    raise KeyError
            raise KeyError
    assert proxy.order == []


async def test_an_error_before_a_savepoint_is_not_one_of_the_savepoint(far: Database) -> None:
    entered = []

    async def write() -> None:
        async with far.transaction("acme", plans="kept") as connection:
            await fail(connection)
            async with connection.transaction():
                entered.append(connection)

    with pytest.raises(TakenBefore):
        await write()
    assert entered == []


async def test_no_statement_runs_where_the_transaction_could_not_begin(far: Database) -> None:
    """The first message holds BEGIN and what confines to the org; where it fails as a whole, nothing else is sent."""

    async def write() -> None:
        async with far.transaction("acme", plans="kept") as connection:
            await put(connection, "/* broken */ SELEC $1::text", "x")
            with pytest.raises(asyncpg.PostgresSyntaxError):
                await connection.fetch(KEPT)
            await connection.fetchval("SELECT current_user")

    with pytest.raises(asyncpg.InterfaceError):
        await write()
    assert await kept(far) == []


async def test_in_the_callers_own_transaction_an_error_belongs_to_the_block(far: Database) -> None:
    async with far.transaction("acme", plans="kept") as connection:
        with pytest.raises(TakenBefore):
            async with caller_transaction(far, connection, "acme") as inner:
                await fail(inner)
        await keep(connection, "still good")
    assert await kept(far) == ["still good"]
