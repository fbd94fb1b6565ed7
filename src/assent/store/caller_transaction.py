"""The engine's work inside the caller's transaction: it commits, or rolls back, with the caller's own rows.

For the time of the block the connection acts for an org and reads JSON our way; afterwards it is as it was. What our
work raises is rolled back to where the block began, and the caller's transaction is still good.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from assent.store.clock import time_for_sql
from assent.store.connect import FRESH_PLANS, Connection, forget_json, read_json
from assent.store.connection import LiveConnection
from assent.store.database import Database
from assent.store.queries import load_queries
from assent.store.roles import ENGINE_ROLE

_SQL: Final = load_queries("assent.store", "store.sql")

Restore = Callable[[], Awaitable[object]]


@asynccontextmanager
async def caller_transaction(database: Database, caller: Any, org_id: str) -> AsyncIterator[Connection]:
    """Act for an org in the transaction of an asyncpg connection, or of SQLAlchemy's session or connection on asyncpg.

    The caller's role must be allowed to become the engine's role; the role that migrated is. A connection of ours, such
    as a task or an action gets, is taken too.
    """
    connection, restore = await _find_driver(caller)
    if not connection.is_in_transaction():
        raise ValueError(
            "Expected a connection in a transaction, found one outside; begin one around the call."
        )
    if restore is not None:
        await read_json(connection)
    try:
        async with connection.transaction():  # a savepoint
            (stood,) = await connection.fetch(_SQL.read_standing)
            await connection.execute(
                _SQL.take_stand, ENGINE_ROLE, org_id, time_for_sql(database.clock), FRESH_PLANS
            )
            yield connection
            await connection.execute(_SQL.take_stand, *stood)
    finally:
        if restore is not None:
            await restore()


async def _find_driver(caller: Any) -> tuple[Connection, Restore | None]:
    """Return asyncpg's connection, and what restores its reading of JSON; None for a connection of ours."""
    if hasattr(caller, "is_in_transaction"):
        # asyncpg's metaclass takes every connection for an instance of every class of connections.
        is_ours = issubclass(type(getattr(caller, "_con", caller)), LiveConnection)
        return caller, None if is_ours else lambda: forget_json(caller)
    # A session has a connection; that of SQLAlchemy has an attribute of this name too, which raises.
    outer = caller if hasattr(caller, "get_raw_connection") else await caller.connection()
    # SQLAlchemy begins with the first statement that goes through it.
    await outer.exec_driver_sql("SELECT 1")
    raw = await outer.get_raw_connection()
    adapted, dialect = raw.dbapi_connection, outer.dialect

    async def restore() -> None:
        await dialect.setup_asyncpg_json_codec(adapted)
        await dialect.setup_asyncpg_jsonb_codec(adapted)

    return raw.driver_connection, restore
