"""The effects' rows: into the outbox in the step's own transaction, out of it into a worker's hands, and marked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg

from assent.effects.claimed import Claimed, NamedSecret
from assent.effects.outcome import Mark
from assent.model.effect import Effect
from assent.model.ids import new_id
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.effects", "outbox.sql")

Place = tuple[str, str]
"""An org and a destination."""

BEFORE_ALL: Final[Place] = ("", "")


@dataclass(frozen=True, slots=True)
class Wanted:
    """An effect, and the step that wants it."""

    org_id: str
    instance_id: UUID
    step_id: UUID
    step_created_at: datetime
    key_of_step: str
    effect: Effect
    trace_id: str | None = None


async def enqueue(connection: Connection, wanted: Sequence[Wanted], now: datetime) -> int:
    """Put effects into the outbox, each once (WF-11), and wake the workers when one of them is new."""
    rows = [_row(one, now) for one in wanted]
    # The receipts keep out what was wanted before; within one statement they cannot see each other's twin.
    distinct = {(row["org_id"], row["instance_id"], row["key"]): row for row in rows}
    written: int | None = (
        await connection.fetchval(_SQL.enqueue_effects, list(distinct.values())) if rows else None
    )
    return written or 0


def _row(wanted: Wanted, now: datetime) -> dict[str, Any]:
    effect = wanted.effect
    return {
        "org_id": wanted.org_id,
        "id": new_id(now),
        "created_at": now,
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


async def find_destinations(connection: Connection, after: Place, limit: int) -> list[Place]:
    """Where effects wait, in order, from a place on."""
    await connection.execute(_SQL.keep_plans)
    rows = await connection.fetch(_SQL.find_destinations, *after, limit)
    return [(row["org_id"], row["destination"]) for row in rows]


async def claim(
    connection: Connection, places: Sequence[Place], limit: int, per_destination_max: int, now: datetime
) -> list[Claimed]:
    """Take effects that are due into a worker's hands, fairly, and no more for a destination than it may have."""
    if not places:
        return []
    await connection.execute(_SQL.lock_claims)
    orgs, destinations = zip(*places, strict=True)
    rows = await connection.fetch(_SQL.claim_effects, orgs, destinations, limit, per_destination_max, now)
    return [_claimed(row) for row in rows]


def _claimed(row: asyncpg.Record) -> Claimed:
    named = [
        NamedSecret(one["name"], one["value"], tuple(one["hosts"])) for one in row["named_secrets"] or ()
    ]
    secrets = {"secrets": tuple(row["secrets"]), "named_secrets": {one.name: one for one in named}}
    return Claimed(**dict(row) | secrets)


async def settle(connection: Connection, marks: Sequence[Mark]) -> set[UUID]:
    """Write down what became of attempts; answers which effects it was written of: others were faster elsewhere."""
    await connection.execute(_SQL.keep_plans)
    rows = await connection.fetch(_SQL.settle_effects, [_mark_row(mark) for mark in marks])
    return {row["id"] for row in rows}


def _mark_row(mark: Mark) -> dict[str, Any]:
    effect = mark.effect
    return {
        "org_id": effect.org_id,
        "created_at": effect.created_at,
        "id": effect.id,
        "attempts": effect.attempts,
        "status": mark.status,
        "next_retry_at": mark.next_retry_at,
        "completed_at": mark.at if mark.status == "completed" else None,
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
