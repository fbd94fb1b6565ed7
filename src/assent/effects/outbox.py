"""The effects' rows: into the outbox in the step's own transaction, claimed by a worker, and marked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg

from assent.effects.claimed_effect import ClaimedEffect, NamedSecret
from assent.effects.outcome import EffectResult
from assent.model.effect import Effect
from assent.model.ids import new_id
from assent.model.jobs import JobKey, job_columns
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.effects", "outbox.sql")

Destination = tuple[str, str]
"""An org and a destination."""

BEFORE_ALL: Final[Destination] = ("", "")

CLAIM_IDLE_TIMEOUT_MS: Final = 5_000
"""How long a claim may wait for its client: a worker that is stopped inside of one blocks others no longer."""


@dataclass(frozen=True, slots=True)
class NewEffect:
    """An effect, and the step that wants it."""

    org_id: str
    instance_id: UUID
    step_id: UUID
    step_created_at: datetime
    key_of_step: str
    effect: Effect
    trace_id: str | None = None


async def enqueue(connection: Connection, wanted: Sequence[NewEffect], now: datetime) -> int:
    """Put effects into the outbox, each once (WF-11), and wake the workers when one of them is new."""
    rows = [_row(one, now) for one in wanted]
    # The receipts keep out what was wanted before; within one statement they cannot see each other's twin.
    distinct = {(row["org_id"], row["instance_id"], row["key"]): row for row in rows}
    written: int | None = (
        await connection.fetchval(_SQL.enqueue_effects, list(distinct.values())) if rows else None
    )
    return written or 0


def _row(wanted: NewEffect, now: datetime) -> dict[str, Any]:
    effect = wanted.effect
    return {
        "org_id": wanted.org_id,
        "id": new_id(now),
        "instance_id": wanted.instance_id,
        "step_id": wanted.step_id,
        "step_created_at": wanted.step_created_at,
        "type": effect.type,
        "payload": effect.payload,
        "key": effect.key(wanted.key_of_step),
        "destination": destination_of(effect),
        "awaited": effect.awaited,
        "retry_ambiguous": effect.retry_ambiguous,
        "max_attempts": effect.max_attempts,
        "trace_id": wanted.trace_id,
    }


def destination_of(effect: Effect) -> str:
    """Whoever gets it: a host, a service, a function, or a channel. Only so much is under way to each at a time."""
    payload = effect.payload
    if effect.type == "webhook":
        return _host(payload["url"])
    if effect.type == "integration":
        return (
            f"service {payload['service']}" if "service" in payload else f"operation {payload['operation']}"
        )
    return effect.type


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()[:200] or "nowhere"
    except ValueError:
        return "nowhere"


async def find_destinations(connection: Connection, after: Destination, limit: int) -> list[Destination]:
    """Return where effects wait, in order, from a place on."""
    await _prepare(connection)
    rows = await connection.fetch(_SQL.find_destinations, *after, limit)
    return [(row["org_id"], row["destination"]) for row in rows]


async def claim(  # noqa: PLR0913 - the limits are what a claim is about
    connection: Connection,
    worker_id: UUID,
    places: Sequence[Destination],
    limit: int,
    per_destination_max: int,
    *,
    suspects: bool = False,
) -> list[ClaimedEffect]:
    """Claim effects that are due for a worker, fairly, and no more for a destination than it may have under way."""
    if not places:
        return []
    await connection.execute(_SQL.lock_claims)
    orgs, destinations = zip(*places, strict=True)
    rows = await connection.fetch(
        _SQL.claim_effects, orgs, destinations, limit, per_destination_max, worker_id, suspects
    )
    return [_claimed(row) for row in rows]


async def claim_suspect(
    connection: Connection, worker_id: UUID, per_destination_max: int
) -> list[ClaimedEffect]:
    """Claim one effect that may have killed a worker; none where none is due."""
    place = await connection.fetchrow(_SQL.find_suspect_place)
    places = [(place["org_id"], place["destination"])] if place is not None else []
    return await claim(connection, worker_id, places, 1, per_destination_max, suspects=True)


async def clear_suspects(connection: Connection, worker_id: UUID, effects: Iterable[JobKey]) -> set[UUID]:
    """Record that these have been under way for a while without harm; return of which that is written."""
    rows = await connection.fetch(_SQL.clear_suspects_if_claimed, worker_id, *job_columns(effects))
    return {row["id"] for row in rows}


async def give_back_unknown(connection: Connection, worker_id: UUID, known: Iterable[JobKey]) -> int:
    """Give back what the database records as this worker's and is not among `known`; return how many."""
    given: int = await connection.fetchval(_SQL.give_back_unknown, worker_id, *job_columns(known))
    return given


async def rescue_effects(
    connection: Connection, workers: Sequence[UUID], jobs: Sequence[int], limit: int
) -> list[asyncpg.Record]:
    """Put back the effects of workers that are gone, or give up those that must not be sent twice."""
    return await connection.fetch(_SQL.rescue_effects, workers, jobs, limit)


async def _prepare(connection: Connection) -> None:
    await connection.execute(_SQL.prepare_claim, str(CLAIM_IDLE_TIMEOUT_MS))


def _claimed(row: asyncpg.Record) -> ClaimedEffect:
    named = [
        NamedSecret(one["name"], one["value"], tuple(one["hosts"])) for one in row["named_secrets"] or ()
    ]
    secrets = {"secrets": tuple(row["secrets"]), "named_secrets": {one.name: one for one in named}}
    return ClaimedEffect(**dict(row) | secrets)


async def settle(
    connection: Connection, worker_id: UUID, marks: Sequence[EffectResult]
) -> tuple[set[UUID], datetime | None]:
    """Write down what became of attempts; return which effects still were this worker's to settle, and the time."""
    await _prepare(connection)
    rows = await connection.fetch(_SQL.settle_effects, [_mark_row(mark) for mark in marks], worker_id)
    return {row["id"] for row in rows}, rows[0]["now"] if rows else None


def _mark_row(mark: EffectResult) -> dict[str, Any]:
    effect = mark.effect
    return {
        "org_id": effect.org_id,
        "created_at": effect.created_at,
        "id": effect.id,
        "attempts": effect.attempts,
        "status": mark.status,
        "retry_after_s": mark.retry_after.total_seconds() if mark.retry_after is not None else None,
        "error": mark.error,
        "ambiguous": mark.is_ambiguous,
        "evidence": mark.evidence,
    }


async def dead_letters(
    connection: Connection, org_id: str, destination: str | None, limit: int
) -> list[Mapping[str, Any]]:
    """The effects that were given up, newest first."""
    rows = await connection.fetch(_SQL.list_dead_effects, org_id, destination, limit)
    return [dict(row) for row in rows]


async def revive(
    connection: Connection, org_id: str, effect_id: UUID | None = None, destination: str | None = None
) -> int:
    """Try dead letters again; answers how many there were."""
    revived: int = await connection.fetchval(_SQL.revive_effects, org_id, effect_id, destination)
    return revived


async def was_awaited(connection: Connection, org_id: str, effect_id: UUID) -> bool | None:
    """Whether a dead letter was awaited; none when there is no such dead letter."""
    awaited: bool | None = await connection.fetchval(_SQL.find_dead_effect, org_id, effect_id)
    return awaited
