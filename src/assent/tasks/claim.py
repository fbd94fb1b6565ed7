"""Tasks on their way into a worker's hands and, where it ends or dies, out of them again."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from assent.kernel.outbox import emit_events
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.tasks.claimed import Claimed
from assent.tasks.outcome import LOST
from assent.tasks.settle import failure_event

_SQL: Final = load_queries("assent.tasks", "tasks.sql")

PLACES_MAX: Final = 500
"""At how many places one claim looks; the next goes on from there."""

Place = tuple[str, str, int]
"""An org, a type and a priority."""

BEFORE_ALL: Final[Place] = ("", "", -1)


@dataclass
class Claims:
    """A worker's hold on tasks, and how far it has come around the places where they wait."""

    types: Collection[str]
    """What the worker can run; other tasks are left to others."""
    lease: timedelta
    worker_id: UUID = field(default_factory=uuid4)
    leased_until: datetime | None = None
    _after: Place = BEFORE_ALL

    @property
    def has_gone_around(self) -> bool:
        return self._after == BEFORE_ALL

    async def claim(self, connection: Connection, limit: int, now: datetime) -> list[Claimed]:
        """Take tasks that are due, fairly, together with the lease that they are held under."""
        places = await self._find_places(connection, now)
        if not places:
            return []
        await connection.execute(_SQL.lock_claims)
        # More than its share, for others may have less; and still bounded, however many places there are.
        per_place = max(1, min(limit, 2 * limit // len(places) + 1))
        orgs, types, priorities = zip(*places, strict=True)
        rows = await connection.fetch(
            _SQL.claim_tasks, orgs, types, priorities, limit, per_place, now, self.worker_id
        )
        return [Claimed(*row) for row in rows]

    async def _find_places(self, connection: Connection, now: datetime) -> list[Place]:
        rows = await connection.fetch(_SQL.find_places, *self._after, PLACES_MAX)
        last = rows[-1] if len(rows) == PLACES_MAX else None
        self._after = (last["org_id"], last["type"], last["priority"]) if last is not None else BEFORE_ALL
        due = [row for row in rows if row["type"] in self.types and row["run_at"] <= now]
        return [(row["org_id"], row["type"], row["priority"]) for row in due]

    def wants_renewal(self, now: datetime) -> bool:
        """A third of it is gone: there are two more tries before it is over."""
        return self.leased_until is None or self.leased_until - now < self.lease * 2 / 3

    async def renew(self, connection: Connection, now: datetime) -> None:
        """Be taken for alive for another lease: one row, however many tasks there are. `leased_until` says so after."""
        await connection.execute(_SQL.keep_lease, self.worker_id, now + self.lease)

    async def find_taken(self, connection: Connection, tasks: Sequence[Claimed]) -> set[UUID]:
        """Which of these are not ours any more."""
        rows = await connection.fetch(_SQL.find_taken, self.worker_id, *_columns(tasks))
        return {row["id"] for row in rows}

    async def give_back(self, connection: Connection, tasks: Sequence[Claimed]) -> int:
        """Give tasks back whose attempts were broken off, and leave if that was all."""
        given: int = (
            await connection.fetchval(_SQL.give_back_if_claimed, self.worker_id, *_columns(tasks))
            if tasks
            else 0
        )
        await connection.execute(_SQL.end_lease, self.worker_id)
        return given


def _columns(tasks: Sequence[Claimed]) -> tuple[list[str], list[UUID], list[int]]:
    return [task.org_id for task in tasks], [task.id for task in tasks], [task.attempt for task in tasks]


async def keep_plans(connection: Connection) -> None:
    await connection.execute(_SQL.keep_plans)


async def release_lost(connection: Connection, limit: int, now: datetime) -> list[Any]:
    """Put back what workers had that are gone, and tell the steps that wait for what is dead by that."""
    gone = [row["worker_id"] for row in await connection.fetch(_SQL.find_gone_workers, now, limit)]
    if not gone:
        return []
    released = await connection.fetch(_SQL.release_tasks, gone, limit, now)
    dead = [dict(row) for row in released if row["status"] == "dead" and row["awaited"]]
    if dead:
        await emit_events(connection, [failure_event(row, LOST, row["error"], now) for row in dead], now)
    await connection.execute(_SQL.forget_workers, gone)
    return list(released)
