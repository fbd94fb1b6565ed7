"""Plans that are kept: for commands, for some seconds, and never for searches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from assent.store.caller_transaction import caller_transaction
from assent.store.connection import Connection
from assent.store.database import Database, Plans
from assent.store.settings import Settings

FIND = "SELECT count(*) FROM public.parts WHERE org_id = $1 AND id = $2"
GROW = "INSERT INTO public.parts SELECT 'acme', n FROM generate_series(2, 20000) AS n"
READ = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'parts'"


@asynccontextmanager
async def one_connection(url: str, plans_kept_ms: int) -> AsyncIterator[Database]:
    database = await Database.open(
        url, settings=Settings(pool_connections_max=1, plans_kept_ms=plans_kept_ms)
    )
    try:
        async with database.transaction(None) as connection:
            await connection.execute("""
              CREATE TABLE public.parts (org_id text, id int, PRIMARY KEY (org_id, id)) WITH (autovacuum_enabled = off);
              INSERT INTO public.parts VALUES ('acme', 1); ANALYZE public.parts;
              GRANT SELECT ON public.parts TO assent_engine
            """)
        yield database
    finally:
        await database.close()


async def read_for_one(database: Database, plans: Plans) -> int:
    """How many rows were read to find one."""
    async with database.transaction("acme", plans=plans) as connection:
        before = await connection.fetchval(READ)
        await connection.fetchval(FIND, "acme", 1)
        return int(await connection.fetchval(READ) - before)


async def grow(database: Database) -> None:
    async with database.transaction(None) as connection:
        await connection.execute(GROW)


async def executions(connection: Connection) -> tuple[int, int]:
    """By kept plans, and by plans of their own."""
    sql = "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement = $1"
    generic, custom = await connection.fetchrow(sql, FIND)  # type: ignore[misc]
    return generic, custom


async def test_plans_are_made_anew_unless_they_are_to_be_kept(database_url: str) -> None:
    async with one_connection(database_url, 60_000) as database:
        for plans in ("fresh", "kept", "kept", "fresh"):
            await read_for_one(database, plans)  # type: ignore[arg-type]
        async with database.transaction(None) as connection:
            assert await executions(connection) == (2, 2)


async def test_kept_plan_of_a_small_table_reads_all_of_it_when_it_has_grown(database_url: str) -> None:
    """Why plans are not kept for ever."""
    async with one_connection(database_url, 60_000) as database:
        assert await read_for_one(database, "kept") == 1
        await grow(database)
        assert await read_for_one(database, "kept") == 20_000
        assert await read_for_one(database, "fresh") == 1


async def test_plans_are_renewed_when_their_time_is_over(database_url: str) -> None:
    async with one_connection(database_url, 0) as database:
        assert await read_for_one(database, "kept") == 1
        await grow(database)
        assert await read_for_one(database, "kept") == 1


async def test_plans_are_renewed_once_in_their_time(database_url: str) -> None:
    seen: list[str] = []
    async with one_connection(database_url, 60_000) as database:
        with database.observe(lambda query: seen.append(query.query)):
            for _ in range(3):
                await read_for_one(database, "kept")
    assert sum("DISCARD PLANS" in statement for statement in seen) == 1


@pytest.mark.parametrize("mode", ["auto", "force_generic_plan"])
async def test_guest_plans_anew_and_leaves_the_callers_way_as_it_was(database: Database, mode: str) -> None:
    show = "SELECT current_setting('plan_cache_mode')"
    async with database.transaction(None) as caller:
        await caller.execute(f"SET LOCAL plan_cache_mode = {mode}")
        async with caller_transaction(database, caller, "acme") as connection:
            assert await connection.fetchval(show) == "force_custom_plan"
        assert await caller.fetchval(show) == mode
