"""The queue of jobs: claimed by a worker, settled, given back where they did not run, rescued where it died."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg

from assent.jobs.job import AttemptResult, Claimed, JobKey, JobKind, Succeeded, job_columns
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.jobs", "jobs.sql")

LANES_MAX: Final = 500
"""How many lanes one claim looks at; the next goes on from there."""

CLAIM_IDLE_TIMEOUT_MS: Final = 5_000
"""How long a claim may wait for its client: a worker that is stopped inside of one blocks others no longer."""

Lane = tuple[str, str, int]
"""An org, a lane of it, and a priority."""

JobRow = asyncpg.Record
"""A job that was just claimed: first the columns of `ClaimedJob`, in its order."""

BEFORE_ALL: Final[Lane] = ("", "", -1)


@dataclass
class JobQueue:
    """The jobs of one kind as one worker claims them, and how far it has come around their lanes."""

    kind: JobKind
    worker_id: UUID
    running_per_lane_max: int | None = None
    """How many jobs of one lane may run at a time, in all orgs and workers together."""
    lanes: Collection[str] | None = None
    """What the worker can run; other lanes are left to other workers."""
    lease_min: timedelta = timedelta()
    """How long the worker's lease has to last when it claims."""
    renew_lease: Callable[[Connection], Awaitable[None]] | None = None
    """Renews it in the transaction of a claim, where it does not."""
    has_suspects: bool = False
    """Whether the last claim has seen that a suspect is due."""
    _after: Lane = BEFORE_ALL

    @property
    def has_gone_around(self) -> bool:
        """Whether the last claim has looked at the last of the lanes."""
        return self._after == BEFORE_ALL

    async def claim(self, connection: Connection, limit: int) -> list[JobRow]:
        """Claim jobs that are due, fairly between orgs."""
        return await self.claim_of(connection, await self._find_lanes(connection), limit)

    async def claim_suspect(self, connection: Connection) -> list[JobRow]:
        """Claim one job that may have killed a worker; none where none is due."""
        names = list(self.lanes) if self.lanes is not None else None
        lane = await connection.fetchrow(_SQL.find_suspect_lane, self.kind, names)
        return await self.claim_of(connection, [tuple(lane)] if lane else [], 1, suspects=True)

    async def claim_of(
        self, connection: Connection, lanes: Sequence[Lane], limit: int, *, suspects: bool = False
    ) -> list[JobRow]:
        """Claim jobs of these lanes that are due, under the worker's lease; suspects, or those that are none."""
        if not lanes:
            return []
        # More than its share, for others may have less; and still bounded, however many lanes there are.
        per_lane = max(1, min(limit, 2 * limit // len(lanes) + 1))
        most = self.running_per_lane_max
        if most is not None:
            # A claim that counts how many run in a lane must know of every claim before it.
            await connection.execute(_SQL.lock_claims, self.kind)
            per_lane = limit
        orgs, names, priorities = zip(*lanes, strict=True)
        which = (self.kind, orgs, names, priorities, limit, per_lane, most, self.worker_id, suspects)
        rows = await connection.fetch(_SQL.claim_jobs, *which, self.lease_min)
        if rows and not rows[0]["is_covered"] and self.renew_lease is not None:
            await self.renew_lease(connection)
        return rows

    async def _find_lanes(self, connection: Connection) -> list[Lane]:
        rows = await connection.fetch(_SQL.find_lanes, self.kind, *self._after, LANES_MAX)
        last = rows[-1] if len(rows) == LANES_MAX else None
        self._after = (last["org_id"], last["lane"], last["priority"]) if last is not None else BEFORE_ALL
        self.has_suspects = bool(rows) and rows[0]["has_suspects"]
        due = [row for row in rows if row["is_due"] and (self.lanes is None or row["lane"] in self.lanes)]
        return [(row["org_id"], row["lane"], row["priority"]) for row in due]

    async def clear_suspects(self, connection: Connection, jobs: Iterable[JobKey]) -> set[UUID]:
        """Record that these have run for a while without harm; return of which that is written."""
        rows = await connection.fetch(_SQL.clear_suspects_if_claimed, self.worker_id, *job_columns(jobs))
        return {row["id"] for row in rows}

    async def find_taken(self, connection: Connection, jobs: Iterable[JobKey]) -> set[UUID]:
        """Return which of these are not this worker's any more."""
        rows = await connection.fetch(_SQL.find_taken, self.worker_id, *job_columns(jobs))
        return {row["id"] for row in rows}

    async def give_back_unknown(self, connection: Connection, known: Iterable[JobKey]) -> int:
        """Return jobs to the queue that are recorded as this worker's and are not among `known`; return how many."""
        columns = job_columns(known)
        given: int = await connection.fetchval(_SQL.give_back_unknown, self.kind, self.worker_id, *columns)
        return given


async def prepare_claim(connection: Connection) -> None:
    """Set how the statements of a claim are planned, and how long its transaction may stand idle."""
    await connection.execute(_SQL.prepare_claim, str(CLAIM_IDLE_TIMEOUT_MS))


async def hold_if_claimed(connection: Connection, worker_id: UUID, jobs: Iterable[JobKey]) -> set[UUID]:
    """Lock jobs until the end of the transaction; return which of them are still this worker's."""
    rows = await connection.fetch(_SQL.hold_jobs_if_claimed, worker_id, *job_columns(jobs))
    return {row["id"] for row in rows}


async def settle_if_claimed(
    connection: Connection, worker_id: UUID, results: Sequence[AttemptResult[Claimed]]
) -> tuple[list[AttemptResult[Claimed]], datetime | None]:
    """Write the outcomes of attempts; return those of jobs that still were this worker's, and the time."""
    # In order: two transactions that settle and cancel the same jobs wait for each other, and never in a circle.
    in_order = sorted(results, key=lambda result: (result.claimed.org_id, result.claimed.id))
    rows = await connection.fetch(
        _SQL.settle_jobs_if_claimed, [_row(result) for result in in_order], worker_id
    )
    written = {row["id"] for row in rows}
    settled = [result for result in results if result.claimed.id in written]
    return settled, rows[0]["now"] if rows else None


async def settle_if_open(
    connection: Connection, worker_id: UUID, results: Sequence[AttemptResult[Claimed]]
) -> tuple[list[AttemptResult[Claimed]], datetime | None]:
    """Write successes of jobs that were taken from this worker meanwhile; return those of jobs that were still open."""
    rows = await connection.fetch(_SQL.settle_jobs_if_open, [_row(result) for result in results], worker_id)
    written = {row["id"] for row in rows}
    settled = [result for result in results if result.claimed.id in written]
    return settled, rows[0]["now"] if rows else None


def _row(result: AttemptResult[Claimed]) -> dict[str, Any]:
    claimed, outcome = result.claimed, result.outcome
    row: dict[str, Any] = {
        "org_id": claimed.org_id,
        "id": claimed.id,
        "attempt": claimed.attempt,
        "status": result.status,
        "retry_after_s": result.retry_after.total_seconds() if result.retry_after is not None else None,
        "output": result.output,
    }
    if isinstance(outcome, Succeeded):
        return row | {"outcome": "done"}
    return row | {
        "outcome": "failed",
        "code": outcome.code,
        "error": result.error,
        "ambiguous": outcome.ambiguous,
    }


async def rescue_jobs(
    connection: Connection, workers: Sequence[UUID], jobs: Sequence[int], limit: int
) -> list[asyncpg.Record]:
    """Return jobs of workers whose lease expired to the queue; those that must not run again are dead."""
    return await connection.fetch(_SQL.rescue_jobs, workers, jobs, limit)


async def cancel_if_open(
    connection: Connection, org_id: str, job_id: UUID, kind: JobKind
) -> Mapping[str, Any] | None:
    """Cancel a job that has not ended; return its origin, or None where it has ended or does not exist."""
    row = await connection.fetchrow(_SQL.cancel_job_if_open, org_id, job_id, kind)
    return dict(row) if row is not None else None
