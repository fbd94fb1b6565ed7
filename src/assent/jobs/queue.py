"""The queue of jobs: claimed by a worker, settled, given back where they did not run, rescued where it died."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg

from assent.jobs.job import AttemptResult, Claimed, JobKey, JobKind, Succeeded, Suspended, job_columns
from assent.store.claim_floor import BEGINNING, ClaimFloor
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
    has_busy_lanes: bool = False
    """Whether the last claim has passed over lanes in which another claim was being made."""
    _after: Lane = BEFORE_ALL
    _floor: ClaimFloor = field(default_factory=ClaimFloor)

    @property
    def has_gone_around(self) -> bool:
        """Whether the last claim has looked at the last of the lanes."""
        return self._after == BEFORE_ALL

    async def claim(self, connection: Connection, limit: int) -> list[JobRow]:
        """Claim jobs that are due, fairly between orgs."""
        lanes = await self._find_lanes(connection)
        return await self.claim_of(connection, lanes, limit, floor=self._floor.time)

    async def claim_one_each(
        self, connection: Connection, limit: int, without: Collection[str]
    ) -> list[JobRow]:
        """Claim one job that is due for each org that is not among these, so far as the limit goes."""
        lanes = [lane for lane in await self._find_lanes(connection) if lane[0] not in without]
        orgs = {org_id for org_id, _, _ in lanes}
        return await self.claim_of(connection, lanes, min(limit, len(orgs)), floor=self._floor.time)

    async def claim_suspect(self, connection: Connection) -> list[JobRow]:
        """Claim one job that may have killed a worker; none where none is due."""
        names = list(self.lanes) if self.lanes is not None else None
        lane = await connection.fetchrow(_SQL.find_suspect_lane, self.kind, names)
        return await self.claim_of(connection, [tuple(lane)] if lane else [], 1, suspects=True)

    async def claim_of(
        self,
        connection: Connection,
        lanes: Sequence[Lane],
        limit: int,
        *,
        suspects: bool = False,
        floor: datetime = BEGINNING,
    ) -> list[JobRow]:
        """Claim jobs of these lanes that are due, under the worker's lease; suspects, or those that are none."""
        # More than its share, for others may have less; and still bounded, however many lanes there are.
        per_lane = max(1, min(limit, 2 * limit // max(1, len(lanes)) + 1))
        most, self.has_busy_lanes = self.running_per_lane_max, False
        if most is not None and lanes:
            lanes, per_lane = await self._lock_lanes(connection, lanes, most, limit), limit
        if not lanes:
            return []
        orgs, names, priorities = zip(*lanes, strict=True)
        which = (self.kind, orgs, names, priorities, limit, per_lane, most, self.worker_id, suspects)
        rows = await connection.fetch(_SQL.claim_jobs, *which, self.lease_min, floor)
        if rows and not rows[0]["is_covered"] and self.renew_lease is not None:
            await self.renew_lease(connection)
        return rows

    async def _lock_lanes(
        self, connection: Connection, lanes: Sequence[Lane], most: int, limit: int
    ) -> list[Lane]:
        """Return those of the lanes that no other claim can claim from until this one is committed.

        How many run in a lane is counted by the statement after this one: it sees every claim before it.
        """
        names = [lane for _, lane, _ in lanes]
        (row,) = await connection.fetch(_SQL.lock_lanes, self.kind, names, most, limit)
        held = frozenset(row["held"])
        self.has_busy_lanes = len(held) < min(limit, row["open"])
        return [lane for lane in lanes if lane[1] in held]

    async def _find_lanes(self, connection: Connection) -> list[Lane]:
        return _in_turn(await self._floor.look(lambda floor: self._find_due(connection, floor)))

    async def _find_due(
        self, connection: Connection, floor: datetime
    ) -> tuple[Sequence[JobRow], datetime | None]:
        """Return the next lanes with jobs that are due, and when the first was, where these are all lanes."""
        began_at = self._after
        rows = await connection.fetch(_SQL.find_lanes, self.kind, *began_at, LANES_MAX, floor)
        last = rows[-1] if len(rows) == LANES_MAX else None
        self._after = (last["org_id"], last["lane"], last["priority"]) if last is not None else BEFORE_ALL
        self.has_suspects = bool(rows) and rows[0]["has_suspects"]
        due = [row for row in rows if row["is_due"] and (self.lanes is None or row["lane"] in self.lanes)]
        are_all = last is None and began_at == BEFORE_ALL
        return due, min((row["run_at"] for row in due), default=None) if are_all else None

    async def clear_suspects(self, connection: Connection, jobs: Iterable[JobKey]) -> set[UUID]:
        """Record that these have run for a while without harm; return of which that is written."""
        rows = await connection.fetch(_SQL.clear_suspects_if_claimed, self.worker_id, *job_columns(jobs))
        return {row["id"] for row in rows}

    async def find_taken(self, connection: Connection, jobs: Iterable[JobKey]) -> set[JobKey]:
        """Return which of these are not this worker's any more."""
        rows = await connection.fetch(_SQL.find_taken, self.worker_id, *job_columns(jobs))
        return {(row["org_id"], row["id"], row["attempt"]) for row in rows}

    async def leave(self, connection: Connection, jobs: Iterable[JobKey], wait: timedelta) -> None:
        """Return jobs to the queue that were claimed and that this worker cannot run; others take them after a wait."""
        await connection.execute(_SQL.leave_jobs_if_claimed, self.worker_id, *job_columns(jobs), wait)

    async def give_back_unknown(self, connection: Connection, known: Iterable[JobKey]) -> int:
        """Return jobs to the queue that are recorded as this worker's and are not among `known`; return how many."""
        columns = job_columns(known)
        given: int = await connection.fetchval(_SQL.give_back_unknown, self.kind, self.worker_id, *columns)
        return given


def _in_turn(rows: Iterable[JobRow]) -> list[Lane]:
    """Return lanes in the order in which they are claimed from: of every org one before any org's second."""
    turns: Counter[str] = Counter()
    lanes: list[tuple[int, datetime, Lane]] = []
    for row in sorted(rows, key=lambda row: (-row["priority"], row["run_at"])):
        turns[row["org_id"]] += 1
        lanes.append((turns[row["org_id"]], row["run_at"], (row["org_id"], row["lane"], row["priority"])))
    return [lane for _, _, lane in sorted(lanes)]


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
    # By the attempt too: a worker whose lease was over may have two attempts at one job, of which it has one.
    written = {(row["id"], row["attempt"]) for row in rows}
    settled = [result for result in results if (result.claimed.id, result.claimed.attempt) in written]
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
    if isinstance(outcome, Suspended):
        return row | {"outcome": outcome.status}
    if isinstance(outcome, Succeeded):
        return row | {"outcome": "done"}
    return row | {
        "outcome": "failed",
        "code": outcome.code,
        "error": result.error,
        "ambiguous": outcome.ambiguous,
        "error_type": outcome.error_type,
        "stack_trace": outcome.stack_trace,
        "retryable": not outcome.permanent,
    }


async def rescue_jobs(
    connection: Connection, workers: Sequence[UUID], jobs: Sequence[int], limit: int
) -> list[asyncpg.Record]:
    """Return jobs of workers whose lease expired to the queue; those that must not run again are dead."""
    return await connection.fetch(_SQL.rescue_jobs, workers, jobs, limit)
