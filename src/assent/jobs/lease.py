"""A worker's lease, and the jobs that it has under way.

A worker has one row in `worker_leases`, for its tasks, effects and results alike. It renews the row while it has
something under way; `rescue` gives the jobs of a worker whose lease is over to others. The database's clock says when
that is, the monotonic clock of the process when to renew.

The answer to a claim may be lost: the jobs are then recorded as claimed by a worker that does not know of them. So at
each renewal, and after each claim that failed, what is recorded is compared with what is under way, and the rest is
given back.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from assent.jobs.job import JobKey
from assent.store.database import Connection, Database
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.jobs", "leases.sql")

PROBATION_S: Final = 1.0
PROBATION_FACTOR: Final = 4
"""How long a suspect runs before another may start: longer after each worker that was lost with it."""
SUSPECTS_INTERVAL_S: Final = 0.2
"""How often a busy worker looks for suspects; one that has room looks each time that it claims."""

Compare = Callable[[Connection, frozenset[JobKey]], Awaitable[object]]
"""Gives back the jobs that the database records as this worker's and that are not among these."""


class Lease:
    """The lease of one worker process; all its duties share it."""

    def __init__(self) -> None:
        self.worker_id: Final[UUID] = uuid4()
        self.renewals = 0
        self._renewed_s: float | None = None
        self._kinds: list[Jobs] = []

    def jobs(self, compare: Compare, length: timedelta) -> "Jobs":
        """Return the jobs of one duty, which are claimed under this lease."""
        jobs = Jobs(self, compare, length)
        self._kinds.append(jobs)
        return jobs

    @property
    def under_way(self) -> frozenset[JobKey]:
        """The jobs of all kinds; their ids are never the same."""
        return frozenset().union(*(jobs._under_way for jobs in self._kinds))

    def wants_renewal(self, length: timedelta) -> bool:
        """Return whether a third of it is gone: there are two more tries before it is over."""
        if self._renewed_s is None:
            return any(jobs.is_held for jobs in self._kinds)
        is_old = time.monotonic() - self._renewed_s >= length.total_seconds() / 3
        return is_old and any(jobs.is_held for jobs in self._kinds)

    async def renew(self, database: Database, length: timedelta) -> None:
        """Be taken for alive for another length of time: one row, however many jobs there are."""
        former, self._renewed_s = self._renewed_s, time.monotonic()
        try:
            async with database.transaction(None) as connection:
                await connection.execute(_SQL.renew_lease, self.worker_id, length)
        except BaseException:
            self._renewed_s = former
            raise
        self.renewals += 1

    async def renew_within(self, connection: Connection, length: timedelta) -> None:
        """Renew the lease in the transaction of a claim, which holds it. Claims of other duties go on beside it."""
        await connection.execute(_SQL.renew_lease, self.worker_id, length)
        self._renewed_s = time.monotonic()

    async def end(self, database: Database) -> None:
        """Leave, if this worker has no job any more."""
        async with database.transaction(None) as connection:
            if await connection.fetchval(_SQL.lock_lease, self.worker_id):
                await connection.execute(_SQL.end_leases_if_unused, [self.worker_id])


@dataclass
class Jobs:
    """The jobs of one kind that a worker has under way, and those whose end is not written yet."""

    lease: Lease
    _compare: Compare
    _length: timedelta
    _under_way: set[JobKey] = field(default_factory=set)
    _suspects: dict[JobKey, float] = field(default_factory=dict)
    """Suspect → until when it is on probation, by the monotonic clock."""
    _looked_s: float = 0.0
    _claiming: int = 0
    _comparing: int = 0
    _compared: int = 0
    """At which renewal of the lease they were last compared with what the database records."""
    _unsure: bool = False

    @property
    def worker_id(self) -> UUID:
        return self.lease.worker_id

    @property
    def is_held(self) -> bool:
        return bool(self._under_way or self._unsure)

    @property
    def may_claim(self) -> bool:
        """Whether jobs may be claimed: not while what is recorded has to be compared with what is under way."""
        # Also while another lane still compares: what is claimed now is not among what it knows to be under way.
        return not (self._wants_comparison or self._comparing)

    @property
    def _wants_comparison(self) -> bool:
        return self._unsure or self._compared != self.lease.renewals

    async def keep(self, database: Database) -> None:
        """Renew the lease where it is time, and compare what is recorded with what is under way."""
        if self.lease.wants_renewal(self._length):
            await self.lease.renew(database, self._length)
        # A claim that is being made is recorded before it is known here; the last one to end leaves room for this.
        if self._wants_comparison and not self._claiming:
            await self.compare(database)

    async def compare(self, database: Database) -> None:
        """Give back what the database records as this worker's and is not under way."""
        renewals, known = self.lease.renewals, self.lease.under_way
        self._comparing += 1
        try:
            await database.run(lambda connection: self._compare(connection, known), org_id=None)
        finally:
            self._comparing -= 1
        self._compared, self._unsure = renewals, False

    @asynccontextmanager
    async def claiming(self) -> AsyncIterator[None]:
        """Around a claim: whatever it fails with, it may have been committed."""
        self._claiming += 1
        try:
            yield
        except BaseException:
            self.doubt()
            raise
        finally:
            self._claiming -= 1

    def doubt(self) -> None:
        """Have the next run compare what is recorded with what is under way."""
        self._unsure = True

    @property
    def lease_min(self) -> timedelta:
        """How long the lease has to last when jobs are claimed under it: there is still a try to renew it."""
        return self._length / 3

    async def renew_lease(self, connection: Connection) -> None:
        """Renew the worker's lease in the transaction of a claim."""
        await self.lease.renew_within(connection, self._length)

    def begin(self, key: JobKey, losses: int = 0) -> None:
        """Note a job that was claimed; one that a worker was lost with is on probation first."""
        self._under_way.add(key)
        if losses:
            probation_s = PROBATION_S * PROBATION_FACTOR ** min(losses - 1, 10)
            self._suspects[key] = time.monotonic() + probation_s

    def end(self, keys: Iterable[JobKey]) -> None:
        """Forget jobs whose end is written, or that are not this worker's any more."""
        for key in keys:
            self._under_way.discard(key)
            self._suspects.pop(key, None)

    def may_start_suspect(self, *, has_room: bool) -> bool:
        """Return whether a suspect may start beside what is under way, and it is time to look for one."""
        now_s = time.monotonic()
        on_probation = any(until_s > now_s for until_s in self._suspects.values())
        if on_probation or not (has_room or now_s - self._looked_s >= SUSPECTS_INTERVAL_S):
            return False
        self._looked_s = now_s
        return True

    @property
    def harmless(self) -> list[JobKey]:
        """The suspects whose probation is over: it is to be written that they are none."""
        now_s = time.monotonic()
        return [key for key, until_s in self._suspects.items() if until_s <= now_s]

    def clear(self, written: Container[UUID]) -> None:
        """Note of which jobs it is written that they are no suspects."""
        self._suspects = {key: until_s for key, until_s in self._suspects.items() if key[1] not in written}
