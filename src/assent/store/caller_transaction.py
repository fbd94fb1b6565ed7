"""The engine's work inside a transaction that is under way: it commits, or rolls back, with that.

The transaction may be the caller's own. For the time of the block the connection acts for an org and reads JSON our
way; afterwards it is as it was. What our work raises is rolled back to where the block began, and the caller's
transaction is still good.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar
from uuid import UUID

from assent.model.actor import By
from assent.store.clock import time_for_sql
from assent.store.commit import CommitProof
from assent.store.connection import FRESH_PLANS, Connection, LiveConnection, forget_json, read_json
from assent.store.database import Database, Isolation, Plans
from assent.store.queries import load_queries
from assent.store.roles import ENGINE_ROLE

_SQL: Final = load_queries("assent.store", "store.sql")

T = TypeVar("T")
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
    async def transaction(  # noqa: PLR0913
        self,
        org_id: str | None,
        *,
        isolation: Isolation = "read_committed",
        plans: Plans = "fresh",
        by: By | None = None,
        proof: CommitProof | None = None,
        read_only: bool = False,
    ) -> AsyncIterator[Connection]:
        if org_id != self._org_id:
            raise ValueError(
                f"expected work for org {self._org_id!r}, which the transaction is for, found {org_id!r}"
            )
        if read_only:
            yield self.connection  # nothing to undo, so a savepoint would only cost two round trips
            return
        async with self.connection.transaction():
            yield self.connection

    async def run(  # noqa: PLR0913
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        org_id: str | None,
        attempts_max: int | None = None,
        isolation: Isolation = "read_committed",
        plans: Plans = "fresh",
        by: By | None = None,
        proof: CommitProof | None = None,
    ) -> T:
        async with self.transaction(org_id) as connection:
            result = await work(connection)
        if proof is not None and proof.audit_id is not None:
            self.audit_ids.append(proof.audit_id)
        return result
