"""The end of a transaction: committed, rolled back, or unknown.

After COMMIT was sent, a lost connection says nothing about the outcome. The outcome is then looked up over a new
connection: the transaction names an audit entry that it wrote, and the entry exists if, and only if, it was committed.
A caller gets `OutcomeUnknown` only where no entry was named, or where the database cannot be asked in time.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import asyncpg

from assent.store.connection import Connection, connect
from assent.store.errors import OutcomeUnknown, RolledBack, StoreError
from assent.store.failures import CONNECTION_LOST
from assent.store.queries import load_queries
from assent.store.settings import Settings

_log = logging.getLogger(__name__)
_SQL: Final = load_queries("assent.store", "store.sql")

GRACE_S: Final = 0.25
"""How long a COMMIT that is still running may go on before its server process is ended."""
PAUSE_S: Final = 0.05

_NO_PROOF: Final = frozenset({"40003"})
"""Statement completion unknown: the one error of a living server that proves nothing."""


@dataclass(slots=True)
class CommitProof:
    """The audit entry that a transaction writes: it exists if, and only if, the transaction was committed.

    The work of a transaction names it. An entry that a savepoint may roll back is no proof.
    """

    audit_id: UUID | None = None
    org_id: str | None = None
    """The org of the entry, where it is not the org for which the transaction began."""


class LostCommit(Exception):
    """A COMMIT without an answer; never leaves the store."""

    def __init__(self, server_pid: int, began_s: float, cause: Exception) -> None:
        super().__init__(str(cause))
        self.server_pid = server_pid
        self.began_s = began_s
        """When the transaction began, by the monotonic clock of this process."""
        self.cause = cause


async def commit(
    connection: Connection, transaction: asyncpg.transaction.Transaction, began_s: float
) -> None:
    """Commit; raise `LostCommit` for an error that does not prove a rollback, and close the connection.

    What was put goes in one message with COMMIT. Where it fails, COMMIT is not run, and the transaction is still open.
    """
    server_pid = connection.get_server_pid()
    try:
        await transaction.commit()
    except Exception as error:
        if proves_rollback(error) or (error.__cause__ is not None and proves_rollback(error.__cause__)):
            await _leave(connection)
            raise
        _close(connection)
        raise LostCommit(server_pid, began_s, error) from error
    except BaseException:
        _close(
            connection
        )  # the caller was cancelled at COMMIT: the next user of the connection must not be in it
        raise


async def _leave(connection: Connection) -> None:
    """Roll back a transaction that failed before its COMMIT."""
    try:
        if connection.is_in_transaction():
            await connection.execute("ROLLBACK")
    except CONNECTION_LOST:
        _close(connection)


async def roll_back(connection: Connection, transaction: asyncpg.transaction.Transaction) -> None:
    """Roll back; a connection on which that fails is closed, which rolls back too."""
    try:
        await transaction.rollback()
    except CONNECTION_LOST:
        _close(connection)


@contextlib.asynccontextmanager
async def outage_after_goodbye(connection: Connection) -> AsyncIterator[None]:
    """Raise `StoreError` where the server said goodbye between two statements.

    asyncpg calls the next statement a mistake of its caller then: the error has arrived, the end of the connection has
    not. Nothing was sent.
    """
    try:
        yield
    except asyncpg.InternalClientError as error:
        if type(error) is not asyncpg.InternalClientError:
            raise  # its subclasses say what they mean
        _close(connection)
        raise StoreError(f"The connection was ended by the server: {error}") from error


def _close(connection: Connection) -> None:
    """Close a connection without a word to the server; one that broke is not the pool's any more."""
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()


def proves_rollback(error: BaseException) -> bool:
    """Return whether an error in answer to COMMIT says that the server rolled back and goes on.

    A server that ends meanwhile (FATAL, PANIC) may have committed before.
    """
    if isinstance(error, RolledBack):
        return True
    if not isinstance(error, asyncpg.PostgresError):
        return False
    state: str = error.sqlstate or ""
    severity = getattr(error, "severity_en", None) or getattr(error, "severity", None)
    return severity == "ERROR" and not state.startswith("08") and state not in _NO_PROOF


@dataclass(frozen=True, slots=True)
class Lookup:
    """Finding out over new connections whether a transaction was committed."""

    url: str
    settings: Settings
    org_id: str
    audit_id: UUID
    lost: LostCommit

    async def was_committed(self) -> bool | None:
        """Return whether the transaction was committed; None where the database cannot be asked in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.outcome_lookup_timeout_ms / 1000):
                while True:
                    with contextlib.suppress(StoreError, *CONNECTION_LOST):
                        return await self._ask()
                    await asyncio.sleep(PAUSE_S)
        return None

    async def _ask(self) -> bool:
        connection = await connect(self.url, self.settings)
        try:
            grace_until_s = time.monotonic() + GRACE_S
            while not await self._entry_exists(connection):
                # The order matters: the server process is seen to have ended, then the entry is looked for again.
                if await self._has_ended(connection, end_it=time.monotonic() >= grace_until_s):
                    return await self._entry_exists(connection)
                await asyncio.sleep(PAUSE_S)
            return True
        finally:
            connection.terminate()

    async def _entry_exists(self, connection: Connection) -> bool:
        return bool(await connection.fetchval(_SQL.find_audit_entry, self.org_id, self.audit_id))

    async def _has_ended(self, connection: Connection, *, end_it: bool) -> bool:
        """Return whether the server process of the lost COMMIT has ended; end it, where it takes too long."""
        if self.settings.is_pooled(self.url) or self.settings.prepared_statements_max == 0:
            return False  # a pooler such as PgBouncer sits between: the process that ran COMMIT is not known
        age_s = time.monotonic() - self.lost.began_s
        found = await connection.fetchval(_SQL.find_server_process, self.lost.server_pid, age_s, end_it)
        return found is None


async def resolve(
    lost: LostCommit, url: str, settings: Settings, org_id: str | None, audit_id: UUID | None
) -> None:
    """Return if a transaction whose COMMIT got no answer was committed; else raise its outcome."""
    if org_id is None or audit_id is None:
        raise OutcomeUnknown() from lost.cause
    committed = await Lookup(url, settings, org_id, audit_id, lost).was_committed()
    about = {"org_id": org_id, "audit_id": str(audit_id), "error": str(lost.cause)}
    if committed is None:
        _log.error("the outcome of a transaction is unknown", extra=about)
        raise OutcomeUnknown(org_id, audit_id) from lost.cause
    if not committed:
        raise RolledBack("The connection was lost at COMMIT, and nothing was changed") from lost.cause
    _log.warning("the answer to COMMIT was lost; the transaction is committed", extra=about)
