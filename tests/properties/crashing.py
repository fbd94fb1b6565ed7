"""A database whose client dies at a chosen statement: before it is sent, and with everything that was not committed.

BEGIN, savepoints, COPY and COMMIT are statements too. To die is to raise `Crash`, which nothing of ours catches; or
to have the server end the connection, which is an error like any other.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from assent.store.connection import Connection
from assent.store.database import Database

_SENDING = frozenset({"execute", "executemany", "fetch", "fetchrow", "fetchval", "copy_records_to_table"})


class Crash(BaseException):
    """The process is gone."""


class CrashingDatabase(Database):
    """Counts statements, and dies at the one that it is told."""

    def arm(self, at: int | None, *, by_server: bool = False) -> None:
        """Die at this statement, counted from now; with None, only count."""
        self.sent = 0
        self.at = at
        self.by_server = by_server

    @property
    def has_died(self) -> bool:
        return self.at is not None and self.sent >= self.at

    async def count(self, connection: Connection) -> None:
        self.sent += 1
        if self.sent != self.at:
            return
        if not self.by_server:
            raise Crash
        await _terminate(self.url, connection)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        async with super()._connection() as connection:
            yield _Counted(connection, self)  # type: ignore[misc]


class _Counted:
    """A connection that asks before each statement."""

    def __init__(self, connection: Connection, database: CrashingDatabase) -> None:
        self._connection = connection
        self._database = database

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name not in _SENDING:
            return found

        async def counted(*arguments: Any, **named: Any) -> Any:
            await self._database.count(self._connection)
            return await found(*arguments, **named)

        return counted

    def transaction(self, **options: Any) -> "_CountedTransaction":
        return _CountedTransaction(self._connection, self._database, options)


class _CountedTransaction:
    """A transaction, or a savepoint, that asks before BEGIN and before COMMIT."""

    def __init__(self, connection: Connection, database: CrashingDatabase, options: dict[str, Any]) -> None:
        self._connection = connection
        self._database = database
        self._transaction = connection.transaction(**options)

    async def start(self) -> None:
        await self._database.count(self._connection)
        await self._transaction.start()

    async def commit(self) -> None:
        await self._database.count(self._connection)
        await self._transaction.commit()

    async def rollback(self) -> None:
        await _roll_back(self._transaction)

    async def __aenter__(self) -> None:
        await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            await self.rollback()
            return
        try:
            await self.commit()
        except BaseException:
            await self.rollback()
            raise


async def _roll_back(transaction: Any) -> None:
    # Where the server has ended the connection, it has ended the transaction too.
    with suppress(asyncpg.InterfaceError, asyncpg.PostgresConnectionError):
        await transaction.rollback()


async def _terminate(url: str, connection: Connection) -> None:
    """Have the server end a connection, and wait until it is gone."""
    executioner = await asyncpg.connect(url)
    try:
        pid = connection.get_server_pid()
        await executioner.execute("SELECT pg_terminate_backend($1, 5000)", pid)
    finally:
        await executioner.close()
    async with asyncio.timeout(10):
        while not connection.is_closed():  # noqa: ASYNC110 - the loop reads the end of the connection meanwhile
            await asyncio.sleep(0)
