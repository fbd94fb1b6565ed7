"""The effects' rows: queued in the step's own transaction, loaded for the worker, and shown by their step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from assent.effects.claimed_effect import ClaimedEffect, NamedSecret
from assent.jobs.job import JOB_COLUMNS, LANE_CHARACTERS_MAX
from assent.jobs.queue import JobRow
from assent.model.ids import new_id
from assent.model.job import Effect
from assent.store.connection import put
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.effects", "effects.sql")

Evidence = tuple[str, UUID, Mapping[str, Any]]
"""An org, an effect, and what its step shows of it."""


@dataclass(frozen=True, slots=True)
class NewEffect:
    """An effect, and the step that wants it; none for a message of ours."""

    org_id: str
    instance_id: UUID | None
    step_id: UUID | None
    step_created_at: datetime | None
    key_of_step: str
    """Of what wants it, where that is no step."""
    effect: Effect
    trace_id: str | None = None


async def enqueue(connection: Connection, wanted: Sequence[NewEffect], now: datetime) -> None:
    """Queue effects, each once (WF-11), and wake the workers when one of them is new."""
    if rows := _rows(wanted, now):
        await put(connection, _SQL.enqueue_effects, rows)


async def count_enqueued(connection: Connection, wanted: Sequence[NewEffect], now: datetime) -> int:
    """Queue effects, and return how many were new."""
    rows = _rows(wanted, now)
    written: int | None = await connection.fetchval(_SQL.enqueue_effects, rows) if rows else None
    return written or 0


def _rows(wanted: Sequence[NewEffect], now: datetime) -> list[dict[str, Any]]:
    rows = [_row(one, now) for one in wanted]
    # The receipts keep out what was wanted before; within one statement they cannot see each other's twin.
    return list({(row["org_id"], row["instance_id"], row["key"]): row for row in rows}.values())


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
        "attempts_max": effect.attempts_max,
        "trace_id": wanted.trace_id,
    }


def destination_of(effect: Effect) -> str:
    """Return the receiver: a host, a service, a function, or a channel. Only so much is under way to each at a time."""
    payload = effect.payload
    if effect.type == "webhook":
        return _host(payload["url"])
    if effect.type == "integration":
        name = (
            f"service {payload['service']}" if "service" in payload else f"operation {payload['operation']}"
        )
        return name[:LANE_CHARACTERS_MAX]
    return effect.type


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()[:LANE_CHARACTERS_MAX] or "nowhere"
    except ValueError:
        return "nowhere"


async def load_effects(connection: Connection, jobs: Sequence[JobRow]) -> list[ClaimedEffect]:
    """Return claimed jobs with what is needed to send them."""
    if not jobs:
        return []
    orgs, ids = [job["org_id"] for job in jobs], [job["id"] for job in jobs]
    rows = await connection.fetch(_SQL.read_effects, orgs, ids)
    return [_claimed([*job[:JOB_COLUMNS], *row]) for job, row in zip(jobs, rows, strict=True)]


def _claimed(values: list[Any]) -> ClaimedEffect:
    secrets, named, upload = values[-3:]
    values[-3:] = tuple(secrets), _named(named), upload
    return ClaimedEffect(*values)


def _named(secrets: Sequence[Mapping[str, Any]] | None) -> dict[str, NamedSecret]:
    found = [NamedSecret(one["name"], one["value"], tuple(one["hosts"])) for one in secrets or ()]
    return {one.name: one for one in found}


async def show_evidence(connection: Connection, shown: Sequence[Evidence]) -> None:
    """Have steps show how their effects ended."""
    if shown:
        orgs, ids, evidence = zip(*shown, strict=True)
        await connection.execute(_SQL.show_evidence, orgs, ids, list(evidence))


async def find_requests(connection: Connection, jobs: Sequence[tuple[str, UUID]]) -> dict[UUID, UUID]:
    """Return the outside requests that effects take to their parties, by effect."""
    orgs, ids = zip(*jobs, strict=True)
    return {
        row["id"]: row["request_id"]
        for row in await connection.fetch(_SQL.find_requests_of_effects, orgs, ids)
    }


EFFECTS_SHOWN_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class EffectAttempt:
    """One attempt to send an effect, and its result."""

    attempt: int
    outcome: str
    code: str | None
    error: str | None
    ambiguous: bool
    """Whether it may have had its effect although it failed."""
    answer: Any
    """What the receiver answered; None for readers who may not see that."""
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class EffectItem:
    """An effect of an instance: where it stands, and every attempt."""

    id: UUID
    type: str
    destination: str
    step_id: UUID
    node_id: str | None
    step: str | None
    """The name of its node."""
    status: str
    awaited: bool
    """Whether its step waits for the answer."""
    attempts: int
    attempts_max: int
    next_at: datetime | None
    """When it is tried next; None if it has ended, or is being sent."""
    created_at: datetime
    ended_at: datetime | None
    tried: Sequence[EffectAttempt]


async def effects_of_instance(
    connection: Connection,
    org_id: str,
    instance_id: UUID,
    node_names: Mapping[str, str],
    *,
    with_answers: bool,
) -> list[EffectItem]:
    """Return the newest effects of an instance with their attempts, with or without what receivers answered."""
    rows = await connection.fetch(_SQL.list_effects_of_instance, org_id, instance_id, EFFECTS_SHOWN_MAX)
    return [_effect_item(dict(row), node_names, with_answers) for row in rows]


def _effect_item(row: dict[str, Any], node_names: Mapping[str, str], with_answers: bool) -> EffectItem:
    tried = [
        EffectAttempt(
            **{
                **one,
                "answer": one["answer"] if with_answers else None,
                "started_at": datetime.fromisoformat(one["started_at"]),
                "ended_at": datetime.fromisoformat(one["ended_at"]),
            }
        )
        for one in row.pop("tried")
    ]
    if row.pop("resolved"):
        row["status"] = "resolved"
    return EffectItem(**row, step=node_names.get(row["node_id"] or "", row["node_id"]), tried=tried)
