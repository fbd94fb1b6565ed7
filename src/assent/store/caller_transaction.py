"""The engine's work inside a transaction that is under way: it commits, or rolls back, with that.

It may be one of asyncpg, of psycopg, or of SQLAlchemy or Django on one of these.

The transaction may be the caller's own. For the time of the block the connection acts for an org and reads JSON our
way; afterwards it is as it was. What our work raises is rolled back to where the block began, and the caller's
transaction is still good.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from inspect import iscoroutinefunction
from typing import Any, Final, TypeVar, Unpack, cast
from uuid import UUID

from assent.store.clock import time_for_sql
from assent.store.commit import CommitProof
from assent.store.connection import FRESH_PLANS, Connection, LiveConnection, forget_json, read_json
from assent.store.database import Database, TransactionOptions
from assent.store.psycopg_connection import PsycopgConnection
from assent.store.queries import load_queries
from assent.store.roles import ENGINE_ROLE

_SQL: Final = load_queries("assent.store", "store.sql")

T = TypeVar("T")
Restore = Callable[[], Awaitable[object]]


@asynccontextmanager
async def caller_transaction(database: Database, caller: Any, org_id: str) -> AsyncIterator[Connection]:
    """Act for an org in the transaction of a connection or session of the caller.

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
        async with _sending_at_once(connection), connection.transaction():  # a savepoint
            (stood,) = await connection.fetch(_SQL.read_standing)
            await connection.execute(
                _SQL.take_stand, ENGINE_ROLE, org_id, time_for_sql(database.clock), FRESH_PLANS
            )
            yield connection
            await connection.execute(_SQL.take_stand, *stood)
    finally:
        if restore is not None:
            await restore()


def _sending_at_once(connection: Connection) -> AbstractAsyncContextManager[None]:
    """Have errors of writes raised inside of the caller's block, where it may catch them."""
    live: LiveConnection | None = getattr(connection, "live", None)
    return live.sending_at_once() if live is not None else nullcontext()


async def _find_driver(caller: Any) -> tuple[Connection, Restore | None]:
    """Return the driver's connection, and what restores its reading of JSON; None where nothing is changed."""
    if hasattr(caller, "is_in_transaction"):
        # asyncpg's metaclass takes every connection for an instance of every class of connections.
        is_ours = isinstance(caller, PsycopgConnection) or issubclass(
            type(getattr(caller, "_con", caller)), LiveConnection
        )
        return caller, None if is_ours else lambda: forget_json(caller)
    if hasattr(caller, "get_raw_connection") or iscoroutinefunction(getattr(caller, "connection", None)):
        return await _find_awaited(caller)
    if hasattr(caller, "pgconn"):
        return await _psycopg(caller), None
    raise _unknown(caller)


def find_blocking(caller: Any) -> Any:
    """Return psycopg's connection of a session or connection that blocks, such as SQLAlchemy's or Django's.

    Called in the caller's thread: Django's `connection` and a scoped session are others in every thread.
    """
    if hasattr(caller, "pgconn") and not iscoroutinefunction(caller.execute):
        return caller
    if hasattr(caller, "ensure_connection"):  # Django's
        caller.ensure_connection()
        return caller.connection
    is_sqlalchemy = hasattr(caller, "exec_driver_sql") or hasattr(caller, "get_bind")
    if is_sqlalchemy and not (
        hasattr(caller, "get_raw_connection") or iscoroutinefunction(caller.connection)
    ):
        outer = caller if hasattr(caller, "exec_driver_sql") else caller.connection()
        # SQLAlchemy begins with the first statement that goes through it.
        outer.exec_driver_sql("SELECT 1")
        return outer.connection.driver_connection
    raise ValueError(
        "Expected a connection of psycopg 3 that blocks, or one of SQLAlchemy or Django on it, "
        f"found {_kind(caller)}. Connections to await belong to `app.runtime(…)`."
    )


async def _find_awaited(caller: Any) -> tuple[Connection, Restore | None]:
    """Return the driver's connection of SQLAlchemy's asynchronous session or connection."""
    # A session has a connection; that of SQLAlchemy has an attribute of this name too, which raises.
    outer = caller if hasattr(caller, "get_raw_connection") else await caller.connection()
    # SQLAlchemy begins with the first statement that goes through it.
    await outer.exec_driver_sql("SELECT 1")
    raw = await outer.get_raw_connection()
    adapted, dialect, driver = raw.dbapi_connection, outer.dialect, raw.driver_connection
    if not hasattr(driver, "is_in_transaction"):
        return await _psycopg(driver), None

    async def restore() -> None:
        await dialect.setup_asyncpg_json_codec(adapted)
        await dialect.setup_asyncpg_jsonb_codec(adapted)

    return driver, restore


async def _psycopg(driver: Any) -> Connection:
    """Return a connection of psycopg as the engine knows connections; raise `ValueError` for another driver's."""
    if not hasattr(driver, "pgconn"):
        raise _unknown(driver)
    connection = PsycopgConnection(driver)
    await connection.begin_if_automatic()
    as_asyncpg: Any = connection
    return cast("Connection", as_asyncpg)


def _unknown(caller: Any) -> ValueError:
    return ValueError(
        "Expected a connection of asyncpg or psycopg 3, or one of SQLAlchemy on one of these, "
        f"found {_kind(caller)}. Those that block, and Django's, belong to `app.sync_runtime(…)`."
    )


def _kind(caller: Any) -> str:
    return f"{type(caller).__module__}.{type(caller).__qualname__}"


class CallerDatabase(Database):
    """The caller's transaction for one org. Each piece of work has a savepoint, so that its failure undoes it alone.

    Nothing is run again here: what loses against others loses the whole transaction, and that is its owner's to repeat.
    Who acts was said when it began.
    """

    def __init__(self, database: Database, connection: Connection, org_id: str) -> None:
        super().__init__(database._pool, database.url, database.settings, database.clock)
        self.connection = connection
        self._org_id = org_id
        self.audit_ids: list[UUID] = []
        """Audit entries that work in it wrote: each is a proof of the commit of the whole."""

    @property
    def is_joined(self) -> bool:
        return True

    @asynccontextmanager
    async def transaction(
        self,
        org_id: str | None,
        *,
        proof: CommitProof | None = None,
        read_only: bool = False,
        **options: Unpack[TransactionOptions],
    ) -> AsyncIterator[Connection]:
        if org_id != self._org_id:
            raise ValueError(
                f"expected work for org {self._org_id!r}, which the transaction is for, found {org_id!r}"
            )
        if options.get("first") is not None:
            raise ValueError("a transaction that is under way has no first statement")
        if read_only:
            yield self.connection  # nothing to undo, so a savepoint would only cost two round trips
            return
        async with self.connection.transaction():
            yield self.connection

    async def run(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        org_id: str | None,
        attempts_max: int | None = None,
        proof: CommitProof | None = None,
        **options: Unpack[TransactionOptions],
    ) -> T:
        async with self.transaction(org_id, **options) as connection:
            result = await work(connection)
        if proof is not None and proof.audit_id is not None:
            self.audit_ids.append(proof.audit_id)
        return result
