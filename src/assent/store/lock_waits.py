"""Transactions that need strong locks: each waits for a lock for a moment only, and is run again after a pause.

PostgreSQL queues every later reader and writer of a table behind a request for an exclusive lock that waits. Without a
short limit, one long report would hold up all traffic of the table for as long as it runs. Between two attempts the
traffic goes on, and the log says which sessions are in the way.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import asyncpg

from assent.store.commit import LostCommit, commit, roll_back
from assent.store.connection import Connection, connect
from assent.store.errors import OutcomeUnknown, StoreError
from assent.store.queries import load_queries
from assent.store.settings import Settings

T = TypeVar("T")

LOCK_NOT_AVAILABLE: Final = "55P03"
LOST_THE_LOCK: Final = frozenset({LOCK_NOT_AVAILABLE, "40P01"})
"""The lock timeout was over, or PostgreSQL ended a deadlock; either proves a rollback."""

PAUSES_MAX: Final = 5
"""Pauses grow from one lock timeout to this many."""

ATTEMPTS_TO_LOOK_MAX: Final = 3
"""So many attempts are made before giving up without a name: on a busy machine the look may come too late."""

_SQL: Final = load_queries("assent.store", "store.sql")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BlockingSession:
    """A session that holds, or waits earlier for, a lock that is needed."""

    pid: int
    user: str | None
    application: str | None
    state: str | None
    open_s: float | None
    """Since when its transaction is open."""
    query: str | None
    lock: str | None
    """What it holds of what is needed, such as `AccessShareLock on assent.audit_log`."""

    def __str__(self) -> str:
        if self.pid == 0:
            return f"a prepared transaction ({self.lock})"
        who = ", ".join(part for part in (self.user, self.application, self.state) if part)
        since = "" if self.open_s is None else f", in a transaction for {self.open_s:.0f} s"
        holds = f" holds {self.lock}" if self.lock else " is ahead in the queue"
        return f"pid {self.pid} ({who}{since}){holds}: {' '.join((self.query or '').split())}"


@dataclass(frozen=True, slots=True)
class LockWait:
    """An attempt that gave up its place in the queue."""

    what: str
    attempt: int
    waited_s: float
    """Since the first attempt."""
    blockers: Sequence[BlockingSession]

    def __str__(self) -> str:
        names = "\n  ".join(str(blocker) for blocker in self.blockers) or "sessions that are gone by now"
        return f"{self.what} waits for a lock, {self.waited_s:.0f} s by now, because of\n  {names}"


OnWait = Callable[[LockWait], None]


def log_wait(wait: LockWait) -> None:
    blockers = [str(blocker) for blocker in wait.blockers]
    _log.warning("waiting for a lock", extra={"what": wait.what, "s": wait.waited_s, "blockers": blockers})


async def run_with_short_lock_waits(  # noqa: PLR0913
    what: str,
    connection: Connection,
    work: Callable[[], Awaitable[T]],
    *,
    url: str,
    settings: Settings,
    on_wait: OnWait = log_wait,
) -> T:
    """Run `work` in a transaction of `connection` until it gets its locks; raise `StoreError` when it took too long.

    The work may run more than once: an attempt that does not get a lock in `migration_lock_timeout_ms` is rolled back.
    Attempts go on for `migration_wait_max_ms`.
    """
    timeout_s = settings.migration_lock_timeout_ms / 1000
    started_s, attempt = time.monotonic(), 0
    while True:
        attempt += 1
        blockers: list[BlockingSession] = []
        try:
            async with _transaction(connection, settings):
                pid = await connection.fetchval(
                    _SQL.limit_lock_waits, f"{settings.migration_lock_timeout_ms}ms"
                )
                async with _watching(pid, url, settings, timeout_s / 4, blockers):
                    return await work()
        except asyncpg.PostgresError as error:
            if error.sqlstate not in LOST_THE_LOCK:
                raise
            wait = LockWait(what, attempt, time.monotonic() - started_s, tuple(blockers))
            too_long = wait.waited_s > settings.migration_wait_max_ms / 1000
            if too_long and (blockers or attempt >= ATTEMPTS_TO_LOOK_MAX):
                raise StoreError(
                    f"{wait}\nNothing of it was changed. End these sessions or wait for them, then run it again; "
                    "ASSENT_MIGRATION_WAIT_MAX_MS says how long it waits"
                ) from error
            on_wait(wait)
        await asyncio.sleep(timeout_s * min(attempt, PAUSES_MAX))


@asynccontextmanager
async def _transaction(connection: Connection, settings: Settings) -> AsyncIterator[None]:
    """Open a transaction whose COMMIT has a deadline, also where its statements have none.

    Raise `OutcomeUnknown` where the answer to COMMIT is lost: the work that runs here is safe to run again.
    """
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    except BaseException:
        await roll_back(connection, transaction)
        raise
    try:
        async with asyncio.timeout(settings.statement_deadline_s):
            await commit(connection, transaction, time.monotonic())
    except (LostCommit, TimeoutError) as error:
        raise OutcomeUnknown() from error


@asynccontextmanager
async def _watching(
    pid: int, url: str, settings: Settings, interval_s: float, found: list[BlockingSession]
) -> AsyncIterator[None]:
    """Inside, note from a connection of its own which sessions keep a process of the server waiting."""
    task = asyncio.create_task(_watch(pid, url, settings, interval_s, found))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("cannot look for who holds a lock", exc_info=error)


async def _watch(
    pid: int, url: str, settings: Settings, interval_s: float, found: list[BlockingSession]
) -> None:
    await asyncio.sleep(interval_s)
    connection = await connect(url, settings)
    try:
        while True:
            if rows := await connection.fetch(_SQL.list_blockers, pid):
                found[:] = [BlockingSession(**dict(row)) for row in rows]
            await asyncio.sleep(interval_s)
    finally:
        await connection.close()
