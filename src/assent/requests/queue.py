"""The queue of bundles: claimed by a worker, tried again after a failure, given up, and brought back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from assent.model.backoff import backoff, jittered
from assent.model.jobs import JobKey, job_columns
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.requests", "queue.sql")

ATTEMPTS_MAX: Final = 5
RETRY_MIN: Final = timedelta(seconds=5)
RETRY_MAX: Final = timedelta(hours=1)
RETRY_FACTOR: Final = 4
ERROR_CHARACTERS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A bundle that a worker has claimed, as it was sent."""

    org_id: str
    id: UUID
    request_id: UUID
    attempts: int
    """This one included."""
    body: Any

    @property
    def job(self) -> JobKey:
        return self.org_id, self.id, self.attempts

    @property
    def place(self) -> tuple[str, UUID]:
        return self.org_id, self.request_id


async def claim(connection: Connection, worker_id: UUID, limit: int) -> list[ClaimedDelivery]:
    """Claim bundles that are due for a worker, in the order in which they came."""
    return [ClaimedDelivery(**row) for row in await connection.fetch(_SQL.claim_deliveries, limit, worker_id)]


async def claim_suspect(connection: Connection, worker_id: UUID) -> list[ClaimedDelivery]:
    """Claim one bundle that may have killed a worker; none where none is due."""
    return [ClaimedDelivery(**row) for row in await connection.fetch(_SQL.claim_suspect_delivery, worker_id)]


async def hold_if_claimed(
    connection: Connection, worker_id: UUID, deliveries: Sequence[ClaimedDelivery]
) -> list[ClaimedDelivery]:
    """Hold bundles until the end of the transaction; return those that are still this worker's."""
    columns = job_columns(delivery.job for delivery in deliveries)
    held = {row["id"] for row in await connection.fetch(_SQL.hold_if_claimed, worker_id, *columns)}
    return [delivery for delivery in deliveries if delivery.id in held]


async def mark_dead(
    connection: Connection, worker_id: UUID, unreadable: Sequence[tuple[ClaimedDelivery, str]]
) -> None:
    """Make dead letters of bundles that trying again cannot help."""
    if unreadable:
        rows = [_failure(delivery, "dead_letter", error) for delivery, error in unreadable]
        await connection.execute(_SQL.record_failures_if_claimed, rows, worker_id)


async def record_failure(
    connection: Connection, worker_id: UUID, delivery: ClaimedDelivery, error: Exception
) -> str:
    """Write down that an attempt failed; return what follows: it is tried again later, or given up."""
    text = f"{type(error).__name__}: {error}"
    if delivery.attempts >= ATTEMPTS_MAX:
        row = _failure(delivery, "dead_letter", text)
    else:
        wait = jittered(backoff(delivery.attempts, RETRY_MIN, RETRY_MAX, RETRY_FACTOR))
        row = _failure(delivery, "pending", text, wait)
    await connection.execute(_SQL.record_failures_if_claimed, [row], worker_id)
    return "failed" if row["status"] == "pending" else "dead_letters"


def _failure(
    delivery: ClaimedDelivery, status: str, error: str, retry_after: timedelta | None = None
) -> dict[str, Any]:
    return {
        "org_id": delivery.org_id,
        "id": delivery.id,
        "attempt": delivery.attempts,
        "status": status,
        "error": error.replace("\0", "\ufffd")[:ERROR_CHARACTERS_MAX],
        "retry_after_s": retry_after.total_seconds() if retry_after is not None else None,
    }


async def give_back_unknown(connection: Connection, worker_id: UUID, known: Iterable[JobKey]) -> int:
    """Give back what the database records as this worker's and is not among `known`; return how many."""
    given: int = await connection.fetchval(_SQL.give_back_unknown, worker_id, *job_columns(known))
    return given


async def rescue_deliveries(
    connection: Connection, workers: Sequence[UUID], jobs: Sequence[int], limit: int
) -> list[Mapping[str, Any]]:
    """Put back the bundles of workers that are gone; those without attempts left become dead letters."""
    return [
        dict(row)
        for row in await connection.fetch(_SQL.rescue_deliveries, workers, jobs, limit, ATTEMPTS_MAX)
    ]


async def list_open_deliveries(connection: Connection, org_id: str, limit: int) -> list[Mapping[str, Any]]:
    """The bundles that are still to be folded, the oldest first."""
    return [dict(row) for row in await connection.fetch(_SQL.list_open_deliveries, org_id, limit)]


async def dead_deliveries(connection: Connection, org_id: str, limit: int) -> list[Mapping[str, Any]]:
    """The bundles that were given up, newest first."""
    return [dict(row) for row in await connection.fetch(_SQL.list_dead_deliveries, org_id, limit)]


async def revive_deliveries(connection: Connection, org_id: str, delivery_id: UUID | None = None) -> int:
    """Try dead letters again, one or all of the org; answers how many there were."""
    revived: int = await connection.fetchval(_SQL.revive_deliveries, org_id, delivery_id)
    return revived
