"""Health: what an operator asks first. Is everything processed, how fast, what is stuck, what is dead?

An instance is stuck that runs, and yet has nothing that could ever move it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from pydantic_settings import SettingsConfigDict

from assent.operations.queues import COUNTED_MAX, IncidentCount, Queue, count_open_incidents, look_at_queues
from assent.store.database import Connection, Database
from assent.store.environment import EnvironmentSettings, number
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.operations", "operations.sql")


@dataclass(frozen=True, slots=True)
class StuckInstance:
    """An instance that is stuck."""

    org_id: str
    instance_id: UUID
    workflow_id: str
    entity_type: str | None
    entity_id: UUID | None
    current_nodes: tuple[str, ...]
    still_since: datetime

    @property
    def fields(self) -> dict[str, object]:
        """For a log line."""
        return {
            "org_id": self.org_id,
            "instance_id": str(self.instance_id),
            "workflow_id": self.workflow_id,
            "current_nodes": list(self.current_nodes),
            "still_since": self.still_since.isoformat(),
        }


async def find_stuck(
    connection: Connection,
    org_id: str | None,
    older_than: timedelta,
    limit: int = 100,
    partition_id: str | None = None,
) -> list[StuckInstance]:
    """Running instances, of one org or of all, that have no event to process, no step that waits, and no news."""
    rows = await connection.fetch(_SQL.find_stuck_instances, org_id, older_than, limit, partition_id)
    return [StuckInstance(**dict(row) | {"current_nodes": tuple(row["current_nodes"])}) for row in rows]


LATEST_EVENTS_MAX: Final = 10_000
"""Of the events of the last hour, no more are looked at."""
_LAST_HOUR: Final = timedelta(hours=1)
_EVENTS_JUDGED_MIN: Final = 20
"""Of fewer, one in twenty is none: the first that waited for a worker to start would be a finding for an hour."""
_FINDINGS_MAX: Final = 100
_DAY_MS: Final = 86_400_000


class HealthLimits(EnvironmentSettings):
    """Beyond these something is wrong; `pending_age_max_ms` is the variable `ASSENT_HEALTH_PENDING_AGE_MAX_MS`."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_HEALTH_")

    pending_age_max_ms: int = number(60_000, 1, 30 * _DAY_MS)
    """How long an event, an effect or a timer may have been due."""
    latency_p95_max_ms: int = number(30_000, 1, 30 * _DAY_MS)
    stuck_after_ms: int = number(900_000, 1_000, 30 * _DAY_MS)
    dead_letters_recent_ms: int = number(_DAY_MS, 0, 3_650 * _DAY_MS)
    """How old a dead letter may be to be news: they are never deleted, and old ones are known."""

    @property
    def stuck_after(self) -> timedelta:
        return timedelta(milliseconds=self.stuck_after_ms)


@dataclass(frozen=True, slots=True)
class Latency:
    """From an event's transaction to the end of its processing, over the latest events of the last hour."""

    events: int
    p50_s: float | None
    p95_s: float | None


@dataclass(frozen=True, slots=True)
class DeadLetters:
    queue: str
    kind: str
    number: int
    recent: int


@dataclass(frozen=True, slots=True)
class Health:
    at: datetime
    queues: tuple[Queue, ...]
    latency: Latency
    stuck: tuple[StuckInstance, ...]
    dead_letters: tuple[DeadLetters, ...]
    incidents: tuple[IncidentCount, ...]
    """Instances that an error paused, by code and definition."""
    problems: tuple[str, ...]
    """What is wrong, in words; nothing when all is well."""

    @property
    def is_healthy(self) -> bool:
        return not self.problems

    @property
    def status(self) -> Literal["ok", "degraded"]:
        return "ok" if self.is_healthy else "degraded"


async def health(
    database: Database,
    org_id: str | None = None,
    limits: HealthLimits | None = None,
    *,
    partition_id: str | None = None,
) -> Health:
    """Return how it goes, for everybody, for one org, or for one partition of an org."""
    limits, now = limits or HealthLimits.defaults(), database.clock.now()
    async with database.transaction(org_id, isolation="repeatable_read", read_only=True) as connection:
        # Before the queues, which are looked at by plans of their own.
        stuck = await find_stuck(connection, org_id, limits.stuck_after, _FINDINGS_MAX, partition_id)
        queues = await look_at_queues(connection, now, partition_id)
        incidents = await count_open_incidents(connection, partition_id)
        latency = await _latency(connection, now, org_id, partition_id)
        dead = await _dead_letters(connection, now, limits, partition_id)
    problems = (
        *(*_late(queues, limits), *_slow(latency, limits), *_standing(stuck)),
        *(*_paused(incidents, now), *_given_up(dead)),
    )
    return Health(now, tuple(queues), latency, tuple(stuck), tuple(dead), tuple(incidents), problems)


async def _latency(
    connection: Connection, now: datetime, org_id: str | None, partition_id: str | None
) -> Latency:
    of = LATEST_EVENTS_MAX, partition_id, org_id
    (row,) = await connection.fetch(_SQL.look_at_latency, now - _LAST_HOUR, *of)
    return Latency(**dict(row))


async def _dead_letters(
    connection: Connection, now: datetime, limits: HealthLimits, partition_id: str | None
) -> list[DeadLetters]:
    since = now - timedelta(milliseconds=limits.dead_letters_recent_ms)
    rows = await connection.fetch(_SQL.count_dead_letters, since, COUNTED_MAX, partition_id)
    return [DeadLetters(**dict(row)) for row in rows]


def _late(queues: Sequence[Queue], limits: HealthLimits) -> Iterator[str]:
    for queue in queues:
        # People take the time that they take.
        if queue.name != "people" and queue.oldest_s * 1000 > limits.pending_age_max_ms:
            yield f"{queue.name}: {queue.pending:,} wait, the oldest for {queue.oldest_s:,.0f} s; is a worker running?"


def _slow(latency: Latency, limits: HealthLimits) -> Iterator[str]:
    if latency.events < _EVENTS_JUDGED_MIN or latency.p95_s is None:
        return
    if latency.p95_s * 1000 > limits.latency_p95_max_ms:
        yield f"one event in twenty takes longer than {latency.p95_s:,.1f} s; add workers"


def _standing(stuck: Sequence[StuckInstance]) -> Iterator[str]:
    if stuck:
        found = f"{len(stuck)}" if len(stuck) < _FINDINGS_MAX else f"{_FINDINGS_MAX} or more"
        yield f"stuck: {found} instances, the first of them {stuck[0].instance_id}"


def _paused(incidents: Sequence[IncidentCount], now: datetime) -> Iterator[str]:
    for each in incidents:
        age_s = (now - each.oldest_at).total_seconds() if each.oldest_at is not None else 0.0
        yield (
            f"incidents: {each.number:,} paused with {each.code} in {each.definition}, the oldest for {age_s:,.0f} s; "
            "run `assent incidents`"
        )


def _given_up(dead: Sequence[DeadLetters]) -> Iterator[str]:
    for letters in dead:
        if letters.recent:
            yield f"dead letters: {letters.recent:,} recent {letters.queue} of kind {letters.kind}"
