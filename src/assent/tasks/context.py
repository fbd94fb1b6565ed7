"""A task as its function sees it while it runs: who it is, and how to write together with its completion."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime
from uuid import UUID

from assent.jobs.queue import hold_if_claimed
from assent.store.database import Connection, Database
from assent.store.errors import PoolBusy
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.errors import ClaimLost


class TaskContext:
    """One attempt at a task."""

    def __init__(
        self,
        claimed: ClaimedTask,
        worker_id: UUID,
        database: Database,
        turns: asyncio.Semaphore,
        open_until: AsyncExitStack,
    ) -> None:
        self._claimed = claimed
        self._worker_id = worker_id
        self._database = database
        self._turns = turns
        self._open_until = open_until
        self._opening = asyncio.Lock()
        self._connection: Connection | None = None
        self.limit: asyncio.Timeout | None = None
        """The time of the attempt; waiting for a connection is no part of it."""

    @property
    def id(self) -> UUID:
        return self._claimed.id

    @property
    def type(self) -> str:
        return self._claimed.type

    @property
    def org_id(self) -> str:
        return self._claimed.org_id

    @property
    def partition_id(self) -> str | None:
        return self._claimed.partition_id

    @property
    def attempt(self) -> int:
        """Which one this is, from 1."""
        return self._claimed.attempt

    @property
    def is_last_attempt(self) -> bool:
        return self._claimed.attempt >= self._claimed.attempts_max

    @property
    def submitted_by(self) -> str:
        return self._claimed.submitted_by

    @property
    def submitted_at(self) -> datetime:
        return self._claimed.created_at

    @property
    def key(self) -> str:
        """The same at every attempt: pass it on where the other side takes an idempotency key."""
        return str(self._claimed.id)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Write to the database together with the task's completion: both happen when the function returns, or neither.

        Acts for the task's org, under row security. Raises `ClaimLost` where the task was cancelled or given to
        another worker; and from here to the end of the function neither can happen.
        """
        async with self._opening:
            if self._connection is None:
                self._connection = await self._begin()
        async with (
            self._connection.transaction()
        ):  # a savepoint: what is caught outside undoes no more than this
            yield self._connection

    async def _begin(self) -> Connection:
        """Wait for a turn, however long it takes: a pool that is busy is not the task's failure."""
        with self._time_stopped():
            await self._open_until.enter_async_context(self._turns)
            connection = await self._open()
        if not await hold_if_claimed(connection, self._worker_id, [self._claimed.job]):
            raise ClaimLost(f"task {self.id} is not ours any more: it was cancelled, or taken over")
        return connection

    async def _open(self) -> Connection:
        while True:
            try:
                return await self._open_until.enter_async_context(self._database.transaction(self.org_id))
            except PoolBusy:
                continue  # it has waited for as long as `pool_wait_timeout_ms` says

    @contextmanager
    def _time_stopped(self) -> Iterator[None]:
        limit, loop = self.limit, asyncio.get_running_loop()
        if limit is None or (when_s := limit.when()) is None:
            yield
            return
        left_s = when_s - loop.time()
        limit.reschedule(None)
        try:
            yield
        finally:
            limit.reschedule(loop.time() + left_s)

    @property
    def connection(self) -> Connection | None:
        """The transaction that the task's completion is to be part of, if its function has opened one."""
        return self._connection
