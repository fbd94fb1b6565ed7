"""What background workers do with events: batches of instances, one transaction each.

A batch is noted before it starts and forgotten with its commit. A batch that fails is halved until the one that
fails is alone; only then is an attempt counted. A batch whose worker died leaves its note, and is run again one by
one (D10, D26).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from assent.kernel.outbox import emit_events
from assent.model.ids import new_id
from assent.model.mutation import ON_EVENT, Event
from assent.runtime.advance import Advancing
from assent.runtime.commands import add_events
from assent.runtime.errors import InstanceBusy, StepFailed
from assent.runtime.work import Work
from assent.store.database import Connection, Database
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

BATCH_MAX: Final = 200
RETRY_S_MIN: Final = 1.0
RETRY_S_MAX: Final = 300.0
ABANDONED_AFTER_S: Final = 30.0
"""A note is older than this when its worker is gone, or between its claim and its lock for a very long time."""

ARRIVALS_EVERY: Final = 8

Place = tuple[str, UUID]


@dataclass
class Batch:
    """What a worker has claimed, and the note that says so."""

    note: UUID
    places: list[Place] = field(default_factory=list)


@dataclass
class Worker:
    """Processes the engine's outbox. As many as you like, in as many processes as you like."""

    database: Database
    advancing: Advancing
    _batches: int = 0

    async def process_events(self, limit: int = BATCH_MAX) -> int:
        """Claim a batch and process it; returns how many events were handled."""
        batch = Batch(new_id(self.database.clock.now()))
        try:
            handled = await self._process_batch(batch, limit)
        except Exception:
            if not batch.places:
                raise
            handled = await self._halve(batch.places)
            await self._forget(batch.note)
        # Arrivals are few; a full batch goes before them, but not for ever.
        self._batches += 1
        if handled < limit or self._batches % ARRIVALS_EVERY == 0:
            handled += await self.route_arrivals(limit)
        return handled

    async def _process_batch(self, batch: Batch, limit: int) -> int:
        async def work(connection: Connection) -> int:
            now = self.database.clock.now()
            rows = await connection.fetch(_SQL.claim_instances, limit, now)
            batch.places = [(row["org_id"], row["instance_id"]) for row in rows]
            if not batch.places:
                return 0
            await self._note(connection, batch, now)
            works = await self._load_events(connection, batch.places, now)
            await self.advancing.advance(connection, works, now, as_owner=True)
            await connection.execute(_SQL.forget_batch, batch.note)
            return sum(len(item.events) for item in works)

        return await self.database.run(work, org_id=None)

    async def _note(self, connection: Connection, batch: Batch, now: datetime) -> None:
        """Written by another connection, so that it is there if this one's process dies (D26)."""
        await connection.fetchval(_SQL.hold_batch, batch.note)
        async with self.database.transaction(None) as other:
            await other.execute(_SQL.note_batch, batch.note, [place[1] for place in batch.places], now)

    async def _process(self, places: Sequence[Place]) -> int:
        async def work(connection: Connection) -> int:
            works = await self._lock(connection, places)
            if works:
                await self.advancing.advance(connection, works, self.database.clock.now(), as_owner=True)
            return sum(len(item.events) for item in works)

        return await self.database.run(work, org_id=None)

    async def _lock(
        self, connection: Connection, places: Sequence[Place], *, due_only: bool = True
    ) -> list[Work]:
        """The works of those instances that nobody is busy with; the others' turn comes again."""
        ids = [instance_id for _, instance_id in places]
        free = {row["id"] for row in await connection.fetch(_SQL.try_lock_instances, ids)}
        locked = [place for place in places if place[1] in free]
        now = self.database.clock.now() if due_only else None
        return await self._load_events(connection, locked, now) if locked else []

    async def _load_events(
        self, connection: Connection, places: Sequence[Place], now: datetime | None
    ) -> list[Work]:
        """The open events of locked instances, in order. One that must wait makes those behind it wait too."""
        orgs, ids = [org for org, _ in places], [instance_id for _, instance_id in places]
        by_place: dict[Place, list[Any]] = {}
        for row in await connection.fetch(_SQL.load_open_events, orgs, ids):
            by_place.setdefault((row["org_id"], row["instance_id"]), []).append(row)
        return [
            add_events(Work(*place), events)
            for place, events in by_place.items()
            if now is None or _is_due(events[0], now)
        ]

    async def _halve(self, places: Sequence[Place]) -> int:
        if len(places) == 1:
            return await self._process_alone(places[0])
        handled = 0
        middle = len(places) // 2
        for half in (places[:middle], places[middle:]):
            try:
                handled += await self._process(half)
            except Exception:
                handled += await self._halve(half)
        return handled

    async def _process_alone(self, place: Place, *, due_only: bool = True) -> int:
        """One instance by itself: what fails now is its own failure, and counts as an attempt."""

        async def work(connection: Connection) -> int:
            works = await self._lock(connection, [place], due_only=due_only)
            if works:
                await self.advancing.advance(connection, works, self.database.clock.now(), as_owner=True)
            return sum(len(item.events) for item in works)

        try:
            return await self.database.run(work, org_id=None)
        except InstanceBusy as busy:
            await self._come_back(place, busy)
            return 0
        except Exception as error:
            await self._record_failure(place, error)
            return 0

    async def _come_back(self, place: Place, busy: InstanceBusy) -> None:
        """Somebody else's turn: the event waits a moment, and no attempt is counted (D28)."""

        async def work(connection: Connection) -> None:
            works = await self._lock(connection, [place])
            for event in list(works[0].events.values())[:1] if works else []:
                soon = self.database.clock.now() + timedelta(seconds=RETRY_S_MIN)
                await connection.execute(
                    _SQL.postpone_event, event["org_id"], event["created_at"], event["id"], str(busy), soon
                )

        await self.database.run(work, org_id=None)

    async def _record_failure(self, place: Place, error: Exception) -> None:
        async def work(connection: Connection) -> None:
            works = await self._lock(connection, [place], due_only=False)
            if not works or not works[0].events:
                return
            event = next(iter(works[0].events.values()))
            if event["attempts"] + 1 >= event["max_attempts"]:
                await self._give_up(connection, works[0], event, error)
                return
            delay = min(RETRY_S_MAX, RETRY_S_MIN * 2 ** event["attempts"]) * random.uniform(0.8, 1.2)  # noqa: S311
            again_at = self.database.clock.now() + timedelta(seconds=delay)
            await _record(connection, event, "failed", error, again_at)

        await self.database.run(work, org_id=None)

    async def _give_up(self, connection: Connection, work: Work, event: Any, error: Exception) -> None:
        """The attempts are used up: the step is recorded as failed, and the event is a dead letter (D10)."""
        if isinstance(error, StepFailed):
            first = next(given for given in work.inputs if given.id == event["id"])
            alone = Work(work.org_id, work.instance_id, [first], work.birth)
            failing: dict[str, Exception] = {error.node_id: error.error}
            now = self.database.clock.now()
            try:
                async with connection.transaction():
                    await self.advancing.advance(connection, [alone], now, as_owner=True, failing=failing)
            except Exception as worse:
                error = worse
        await _record(connection, event, "dead_letter", error, None)

    async def _forget(self, note: UUID) -> None:
        async with self.database.transaction(None) as connection:
            await connection.execute(_SQL.forget_batch, note)

    async def route_arrivals(self, limit: int = BATCH_MAX) -> int:
        """Events under a key: to every step that waits for it, else kept for the first that will (D32)."""

        async def work(connection: Connection) -> int:
            now = self.database.clock.now()
            arrivals = await connection.fetch(_SQL.claim_arrivals, limit, now)
            if not arrivals:
                return 0
            orgs = [row["org_id"] for row in arrivals]
            keys = [row["payload_json"]["key"] for row in arrivals]
            await connection.execute(_SQL.lock_event_keys, orgs, keys)
            waits: dict[tuple[str, str], list[Any]] = {}
            for row in await connection.fetch(_SQL.find_waits, orgs, keys):
                waits.setdefault((row["org_id"], row["event_key"]), []).append(row)
            found = [(row, waits.get((row["org_id"], row["payload_json"]["key"]), [])) for row in arrivals]
            events = [_told(row, wait, now) for row, waiting in found for wait in waiting]
            await emit_events(connection, events, now)
            kept = [_kept(row) for row, waiting in found if not waiting]
            if kept:
                await connection.execute(_SQL.keep_events, kept)
            created, ids = [row["created_at"] for row in arrivals], [row["id"] for row in arrivals]
            await connection.execute(_SQL.complete_events, orgs, created, ids, [None] * len(ids), now)
            return len(arrivals)

        return await self.database.run(work, org_id=None)

    async def recover_batches(self, limit: int = 100) -> int:
        """Batches whose worker died: split into notes of one; those that died alone count an attempt."""
        now = self.database.clock.now()
        async with self.database.transaction(None) as connection:
            before = now - timedelta(seconds=ABANDONED_AFTER_S)
            notes = await connection.fetch(_SQL.find_abandoned_batches, before, limit)
        return sum([await self._recover(row["id"], row["instance_ids"]) for row in notes])

    async def _recover(self, note: UUID, instance_ids: list[UUID]) -> int:
        async with self.database.transaction(None) as connection:
            if not await connection.fetchval(_SQL.hold_batch, note):
                return 0  # its worker is alive after all
            now = self.database.clock.now()
            if len(instance_ids) > 1:
                for instance_id in instance_ids:
                    await connection.execute(_SQL.note_batch, new_id(now), [instance_id], _LONG_AGO)
                await connection.execute(_SQL.forget_batch, note)
                return len(instance_ids)
            rows = await connection.fetch(_SQL.count_lost_attempt, instance_ids[0])
        for row in rows[:1]:
            await self._process_alone((row["org_id"], row["instance_id"]), due_only=False)
        await self._forget(note)
        return len(rows)


_LONG_AGO: Final = datetime.fromisoformat("2000-01-01T00:00:00+00:00")


def _is_due(event: Any, now: datetime) -> bool:
    return event["next_retry_at"] is None or event["next_retry_at"] <= now


async def _record(
    connection: Connection, event: Any, status: str, error: Exception, again_at: datetime | None
) -> None:
    text = f"{type(error).__name__}: {error}"[:2_000]
    await connection.execute(
        _SQL.record_failure, event["org_id"], event["created_at"], event["id"], status, text, again_at
    )


def _told(arrival: Any, wait: Any, now: datetime) -> Event:
    payload = arrival["payload_json"]
    told = {"cause": str(arrival["id"]), "step": str(wait["step_id"]), "key": payload["key"]}
    told |= {name: payload[name] for name in ("data", "outcome") if name in payload}
    return Event(
        arrival["org_id"],
        new_id(now),
        ON_EVENT,
        told,
        wait["instance_id"],
        wait["entity_version"],
        arrival["trace_id"],
    )


def _kept(arrival: Any) -> dict[str, Any]:
    payload = arrival["payload_json"]
    return {
        "org_id": arrival["org_id"],
        "id": arrival["id"],
        "event_key": payload["key"],
        "payload": payload,
        "created_at": arrival["created_at"],
    }
