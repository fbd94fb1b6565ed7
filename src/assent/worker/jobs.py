"""What the duties of jobs have in common: one transaction hands in what ended and claims what is due, under the lease.

A batch costs the same few statements whatever its size. A worker that dies leaves claims behind; once its lease is
over, `rescue` returns them to the queue.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Generic
from uuid import UUID

from assent.jobs.job import AttemptResult, Claimed, JobKey, JobKind
from assent.jobs.queue import JobQueue, JobRow, prepare_claim
from assent.store.database import Connection
from assent.worker.duty import WorkerContext


class JobDuty(Generic[Claimed]):
    """Claims and settles jobs of one kind; the duty of that kind runs them."""

    kind: JobKind

    def __init__(
        self,
        context: WorkerContext,
        *,
        lanes: Collection[str] | None = None,
        running_per_lane_max: int | None = None,
    ) -> None:
        self._database = context.database
        length = timedelta(milliseconds=context.options.lease_ms)
        self._jobs = context.lease.jobs(self._compare, length)
        self._queue = JobQueue(
            *(self.kind, self._jobs.worker_id, running_per_lane_max, lanes),
            *(self._jobs.lease_min, self._jobs.renew_lease),
        )

    async def _load(self, connection: Connection, jobs: Sequence[JobRow]) -> list[Claimed]:
        """Return claimed jobs with what is needed to run them."""
        raise NotImplementedError

    async def _settle(
        self, connection: Connection, results: Sequence[AttemptResult[Claimed]]
    ) -> datetime | None:
        """Write the outcomes of attempts whose jobs are still this worker's, and notify the steps that wait.

        Return the time, if any was written.
        """
        raise NotImplementedError

    async def _exchange(
        self, results: Sequence[AttemptResult[Claimed]], room: int
    ) -> tuple[list[Claimed], datetime | None]:
        """Hand in what ended, and claim what is due, in one transaction.

        Return what was claimed, and the time of what was written.
        """
        harmless = self._jobs.harmless
        if not (results or room or harmless):
            return [], None

        async def work(connection: Connection) -> tuple[list[Claimed], set[UUID], datetime | None]:
            await prepare_claim(connection)
            now = await self._settle(connection, results) if results else None
            cleared = await self._queue.clear_suspects(connection, harmless) if harmless else set()
            claimed = await self._claim(connection, room) if room else []
            return claimed, cleared, now

        async with self._jobs.claiming():
            claimed, cleared, now = await self._database.run(work, org_id=None)
            for job in claimed:
                self._jobs.begin(job.job, job.losses)
        self._jobs.clear(cleared)
        self._jobs.end(result.claimed.job for result in results)
        return claimed, now

    async def _claim(self, connection: Connection, room: int) -> list[Claimed]:
        """Claim what is due, under the worker's lease, and load it."""
        return await self._load(connection, await self._choose(connection, room))

    async def _choose(self, connection: Connection, room: int) -> list[JobRow]:
        """Claim what is due, and one suspect where none is on probation."""
        claimed = await self._queue.claim(connection, room)
        if self._queue.has_suspects and self._jobs.may_start_suspect(has_room=len(claimed) < room):
            claimed += await self._queue.claim_suspect(connection)
        return claimed

    async def _compare(self, connection: Connection, known: frozenset[JobKey]) -> None:
        """Return jobs to the queue that are recorded as this worker's and are not under way."""
        await self._queue.give_back_unknown(connection, known)
