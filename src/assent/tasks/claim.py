"""Claims of tasks: taken by a worker that can run them, given back where they did not run, rescued where it died."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from assent.model.jobs import JobKey, job_columns
from assent.outbox.emit import emit_events
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.outcome import LOST
from assent.tasks.settle import failure_event

_SQL: Final = load_queries("assent.tasks", "tasks.sql")

PLACES_MAX: Final = 500
"""At how many places one claim looks; the next goes on from there."""

CLAIM_IDLE_TIMEOUT_MS: Final = 5_000
"""How long a claim may wait for its client: a worker that is stopped inside of one blocks others no longer."""

TaskLane = tuple[str, str, int]
"""An org, a type and a priority."""

BEFORE_ALL: Final[TaskLane] = ("", "", -1)


@dataclass
class TaskClaims:
    """How a worker claims tasks, and how far it has come around the places where they wait."""

    types: Collection[str]
    """What the worker can run; other tasks are left to others."""
    worker_id: UUID
    _after: TaskLane = BEFORE_ALL

    @property
    def has_gone_around(self) -> bool:
        return self._after == BEFORE_ALL

    async def claim(self, connection: Connection, limit: int) -> list[ClaimedTask]:
        """Claim tasks that are due, fairly between orgs."""
        return await self._claim(connection, await self._find_places(connection), limit, suspects=False)

    async def claim_suspect(self, connection: Connection) -> list[ClaimedTask]:
        """Claim one task that may have killed a worker; none where none is due."""
        place = await connection.fetchrow(_SQL.find_suspect_place, list(self.types))
        return await self._claim(connection, [tuple(place)] if place else [], 1, suspects=True)

    async def _claim(
        self, connection: Connection, places: Sequence[TaskLane], limit: int, *, suspects: bool
    ) -> list[ClaimedTask]:
        if not places:
            return []
        # More than its share, for others may have less; and still bounded, however many places there are.
        per_place = max(1, min(limit, 2 * limit // len(places) + 1))
        orgs, types, priorities = zip(*places, strict=True)
        rows = await connection.fetch(
            _SQL.claim_tasks, orgs, types, priorities, limit, per_place, self.worker_id, suspects
        )
        return [ClaimedTask(*row) for row in rows]

    async def _find_places(self, connection: Connection) -> list[TaskLane]:
        rows = await connection.fetch(_SQL.find_places, *self._after, PLACES_MAX)
        last = rows[-1] if len(rows) == PLACES_MAX else None
        self._after = (last["org_id"], last["type"], last["priority"]) if last is not None else BEFORE_ALL
        due = [row for row in rows if row["type"] in self.types and row["is_due"]]
        return [(row["org_id"], row["type"], row["priority"]) for row in due]

    async def clear_suspects(self, connection: Connection, tasks: Iterable[JobKey]) -> set[UUID]:
        """Record that these have run for a while without harm; return of which that is written."""
        rows = await connection.fetch(_SQL.clear_suspects_if_claimed, self.worker_id, *job_columns(tasks))
        return {row["id"] for row in rows}

    async def find_taken(self, connection: Connection, tasks: Iterable[JobKey]) -> set[UUID]:
        """Return which of these are not this worker's any more."""
        rows = await connection.fetch(_SQL.find_taken, self.worker_id, *job_columns(tasks))
        return {row["id"] for row in rows}

    async def give_back_unknown(self, connection: Connection, known: Iterable[JobKey]) -> int:
        """Give back what the database records as this worker's and is not among `known`; return how many."""
        given: int = await connection.fetchval(_SQL.give_back_unknown, self.worker_id, *job_columns(known))
        return given


async def prepare_claim(connection: Connection) -> None:
    """Set how the statements of a claim are planned, and how long its transaction may stand idle."""
    await connection.execute(_SQL.prepare_claim, str(CLAIM_IDLE_TIMEOUT_MS))


async def rescue_tasks(
    connection: Connection, workers: Sequence[UUID], jobs: Sequence[int], limit: int
) -> list[Any]:
    """Put back the tasks of workers that are gone, and tell the steps that wait for those that are dead by that."""
    rescued = await connection.fetch(_SQL.rescue_tasks, workers, jobs, limit)
    dead = [dict(row) for row in rescued if row["status"] == "dead" and row["awaited"]]
    if dead:
        now = dead[0]["now"]
        await emit_events(connection, [failure_event(row, LOST, row["error"], now) for row in dead], now)
    return list(rescued)
