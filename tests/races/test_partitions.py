"""Rows that move out of a default partition while others work on them, staged with real locks."""

import asyncio
from datetime import timedelta

import pytest

from assent.store.clock import MovedClock
from assent.store.database import Connection, Database
from tests.plain_sql import wait_until_blocked
from tests.rows import insert_event

FIND = "SELECT count(*) FROM assent.workflow_events_outbox WHERE org_id = 'acme' AND id = $1"
CHANGE = """
WITH changed AS (
  UPDATE assent.workflow_events_outbox SET error = 'seen' WHERE org_id = 'acme' AND id = $1 RETURNING 1
)
SELECT count(*) FROM changed
"""


@pytest.mark.parametrize("statement", [FIND, CHANGE], ids=["find", "change"])
async def test_statement_that_waited_for_a_move_finds_the_row_where_it_went(
    database: Database, clock: MovedClock, statement: str
) -> None:
    """It must not plan with the partitions of before: a statement that finds no row leaves its event undone."""
    clock.advance(timedelta(days=400))  # a month that no worker has prepared
    async with database.transaction(None) as connection:
        event = await insert_event(connection, created_at=clock.now())
        table = await connection.fetchval(FIND.replace("count(*)", "tableoid::regclass::text"), event["id"])
        assert table.endswith("_default")

    async def look(waiter: "asyncio.Future[Connection]") -> int:
        async with database.transaction(None) as connection:
            waiter.set_result(connection)
            found: int = await connection.fetchval(statement, event["id"])
            return found

    async with database.transaction(None) as observer:
        async with database.transaction(None) as connection:
            assert await connection.fetchval("SELECT assent.ensure_partitions()") > 0
            waiter: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
            looking = asyncio.create_task(look(waiter))
            await wait_until_blocked(observer, await waiter)
        assert await looking == 1
