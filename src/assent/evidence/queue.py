"""The queue of bundles: claimed by a worker, tried again after a failure, given up, and brought back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from assent.model.backoff import backoff, jittered
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.evidence", "queue.sql")

ATTEMPTS_MAX: Final = 5
RETRY_MIN: Final = timedelta(seconds=5)
RETRY_MAX: Final = timedelta(hours=1)
RETRY_FACTOR: Final = 4
ERROR_CHARACTERS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class Claimed:
    """A bundle in the hands of a worker, as it was sent."""

    org_id: str
    id: UUID
    request_id: UUID
    attempts: int
    """Before this one."""
    body: Any

    @property
    def place(self) -> tuple[str, UUID]:
        return self.org_id, self.request_id


async def claim(connection: Connection, limit: int, now: datetime) -> list[Claimed]:
    """Bundles that are due, in the order in which they came."""
    return [Claimed(**row) for row in await connection.fetch(_SQL.claim_deliveries, limit, now)]


async def claim_again(connection: Connection, delivery: Claimed) -> list[Claimed]:
    """The same bundle alone, if it is still to be had."""
    row = await connection.fetchrow(_SQL.claim_delivery, delivery.org_id, delivery.id)
    return [Claimed(**row)] if row is not None else []


async def give_up(connection: Connection, unreadable: Sequence[tuple[Claimed, str]]) -> None:
    """Make dead letters of bundles that trying again cannot help."""
    if unreadable:
        rows = [_failure(delivery, "dead_letter", error) for delivery, error in unreadable]
        await connection.execute(_SQL.record_failures, rows)


async def record_failure(connection: Connection, delivery: Claimed, error: Exception, now: datetime) -> str:
    """Write down that an attempt failed: it is tried again later, or given up; answers which."""
    text = f"{type(error).__name__}: {error}"
    if delivery.attempts + 1 >= ATTEMPTS_MAX:
        row = _failure(delivery, "dead_letter", text)
    else:
        next_try_at = now + jittered(backoff(delivery.attempts + 1, RETRY_MIN, RETRY_MAX, RETRY_FACTOR))
        row = _failure(delivery, "pending", text, next_try_at)
    await connection.execute(_SQL.record_failures, [row])
    return "failed" if row["status"] == "pending" else "dead_letters"


def _failure(
    delivery: Claimed, status: str, error: str, next_try_at: datetime | None = None
) -> dict[str, Any]:
    kept = error.replace("\0", "�")[:ERROR_CHARACTERS_MAX]
    place = {"org_id": delivery.org_id, "id": delivery.id}
    return place | {"status": status, "error": kept, "next_try_at": next_try_at}


async def list_open_deliveries(connection: Connection, org_id: str, limit: int) -> list[Mapping[str, Any]]:
    """The bundles that are still to be folded, the oldest first."""
    return [dict(row) for row in await connection.fetch(_SQL.list_open_deliveries, org_id, limit)]


async def dead_deliveries(connection: Connection, org_id: str, limit: int) -> list[Mapping[str, Any]]:
    """The bundles that were given up, newest first."""
    return [dict(row) for row in await connection.fetch(_SQL.list_dead_deliveries, org_id, limit)]


async def revive_deliveries(
    connection: Connection, org_id: str, now: datetime, delivery_id: UUID | None = None
) -> int:
    """Try dead letters again, one or all of the org; answers how many there were."""
    revived: int = await connection.fetchval(_SQL.revive_deliveries, org_id, delivery_id, now)
    return revived
