"""Trying things by plain SQL: as the application or as the owner, and what the database says to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import asyncpg
import pytest

from assent.store.connection import Connection
from assent.store.database import Database
from assent.store.roles import ENGINE_ROLE

APPEND_ONLY = "AS001"
NOT_BY_THE_DOOR = "AS002"
STATUS = "AS003"
PUBLISHED = "AS004"
DEFAULT = "AS005"
IDENTITY = "AS006"
LOCKED = "AS007"
VERSION = "AS008"
CONSUMED = "AS009"
NOT_ASKED = "AS010"
NOT_APPROVED = "AS011"
NOT_BEHIND_ITS_GATE = "AS012"
PRIVILEGE = "42501"
CHECK = "23514"
FOREIGN_KEY = "23503"
UNIQUE = "23505"
SERIALIZATION = "40001"

BLOCKED_PIDS = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
"""

WAIT_MAX_S = 90
"""How long a test waits for what must happen: only a hang takes so long, also on a machine with ten times its load."""


@asynccontextmanager
async def refused(
    connection: Connection, sqlstate: str, *, constraint: str | None = None, saying: str = ""
) -> AsyncIterator[None]:
    """What is tried inside is refused, for this reason and no other; the transaction then goes on."""
    with pytest.raises(asyncpg.PostgresError) as caught:
        async with connection.transaction():
            yield
    error = caught.value
    assert (error.sqlstate, error.constraint_name) == (sqlstate, constraint), error
    assert saying in str(error)


async def refusal_of(connection: Connection, attempt: Awaitable[object]) -> asyncpg.PostgresError | None:
    """What the database says against this attempt, or None where it lets it pass."""
    try:
        async with connection.transaction():
            await attempt
    except asyncpg.PostgresError as error:
        return error
    return None


@asynccontextmanager
async def acting_for(
    connection: Connection, org_id: str | None, role: str = ENGINE_ROLE
) -> AsyncIterator[None]:
    """Inside, this transaction of the owner's is a role's, for one org or, with None, for none."""
    enter = "SELECT set_config('role', $1, true), set_config('assent.org_id', $2, true)"
    await connection.execute(enter, role, org_id or "")
    yield
    # Not in a finally: after an error it is the rollback that takes both back.
    await connection.execute(enter, "none", "")


async def check_deferred(connection: Connection) -> None:
    """Have the constraints that wait for the commit checked now."""
    await connection.execute("SET CONSTRAINTS ALL IMMEDIATE")


async def wait_until_blocked(observer: Connection, waiter: Connection) -> None:
    """Return as soon as `waiter`, busy in another task, waits for a lock that somebody holds."""
    pid = waiter.get_server_pid()
    async with asyncio.timeout(WAIT_MAX_S):
        while not await observer.fetchval("SELECT cardinality(pg_blocking_pids($1)) > 0", pid):
            pass


async def wait_until_a_connection_is_blocked(observer: Connection) -> None:
    """Return as soon as any connection to this database waits for a lock."""
    async with asyncio.timeout(WAIT_MAX_S):
        while not await observer.fetchval(BLOCKED_PIDS):
            # A transaction sees the activity as it was when it first looked.
            await observer.execute("SELECT pg_stat_clear_snapshot()")


async def end_listeners(database: Database) -> bool:
    """End the connections that listen, from the server's side; return whether there was one."""
    async with database.transaction(None) as connection:
        return bool(
            await connection.fetchval(
                "SELECT bool_and(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity"
                " WHERE datname = current_database()"
                " AND (query ILIKE 'listen%' OR query LIKE '/* read_server_process */%')"
            )
        )
