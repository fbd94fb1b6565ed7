"""A task as its function sees it while it runs: who it is, and how to write together with its completion."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from uuid import UUID

from assent.store.database import Connection, Database
from assent.tasks.claimed import Claimed
from assent.tasks.errors import ClaimLost
from assent.tasks.settle import hold_if_claimed


class Task:
    """One attempt at a task."""

    def __init__(
        self, claimed: Claimed, worker_id: UUID, database: Database, open_until: AsyncExitStack
    ) -> None:
        self._claimed = claimed
        self._worker_id = worker_id
        self._database = database
        self._open_until = open_until
        self._connection: Connection | None = None

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
        another worker; and from here to the end of the function nobody can do either.
        """
        if self._connection is None:
            opened = self._database.transaction(self.org_id)
            connection = await self._open_until.enter_async_context(opened)
            if not await hold_if_claimed(connection, self._claimed, self._worker_id):
                raise ClaimLost(f"task {self.id} is not ours any more: it was cancelled, or taken over")
            self._connection = connection
        async with (
            self._connection.transaction()
        ):  # a savepoint: what is caught outside undoes no more than this
            yield self._connection

    @property
    def connection(self) -> Connection | None:
        """The transaction that the task's completion is to be part of, if its function has opened one."""
        return self._connection
