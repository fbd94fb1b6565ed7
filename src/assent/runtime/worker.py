"""What background workers do with events: batches of instances, one transaction each.

A batch is noted before it starts and forgotten with its commit. A batch that fails is halved until the one that
fails is alone; only then is an attempt counted (D10). A batch whose worker died leaves its note, and nobody claims its
instances before they were run again one by one (`assent.runtime.recovery`).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.model.ids import new_id
from assent.model.keys import InstanceKey
from assent.runtime.advance import Advancing
from assent.runtime.batch import BatchItem
from assent.runtime.failures import settle_failure
from assent.runtime.keyed_events import route_arrivals
from assent.runtime.open_events import load_events
from assent.runtime.rotation import OrgRotation
from assent.runtime.watch import watching
from assent.store.database import Connection, Database
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

BATCH_MAX: Final = 200
ARRIVALS_EVERY: Final = 8

Claim = Callable[[Connection, datetime], Awaitable[list[InstanceKey]]]


@dataclass
class EventBatch:
    """What a worker has claimed, and the note that says so."""

    note: UUID
    events_max: int | None = None
    """How many of each instance's events are taken; all, unless something was wrong with them together."""
    places: list[InstanceKey] = field(default_factory=list)
    works: list[BatchItem] = field(default_factory=list)


@dataclass
class Worker:
    """Processes the engine's outbox. As many as you like, in as many processes as you like."""

    database: Database
    advancing: Advancing
    _batches: int = 0
    _turns: OrgRotation = field(default_factory=OrgRotation, init=False)
    """Which org's turn it is in claims of instances."""
    _arrival_turns: OrgRotation = field(default_factory=OrgRotation, init=False)
    """The same for events that are of no instance yet."""

    async def process_events(self, limit: int = BATCH_MAX) -> int:
        """Claim a batch and process it; returns how many events were handled."""
        handled = await self._process_claimed(limit)
        # Arrivals are few; a full batch goes before them, but not for ever.
        self._batches += 1
        if handled < limit or self._batches % ARRIVALS_EVERY == 0:
            handled += await self.route_arrivals(limit)
        return handled

    async def route_arrivals(self, limit: int = BATCH_MAX) -> int:
        """Events under a key: to every step that waits for it, else kept for the first that will (D32)."""

        async def work(connection: Connection) -> int:
            return await route_arrivals(connection, self._arrival_turns, limit, self.database.clock.now())

        return await self.database.run(work, org_id=None)

    async def _process_claimed(self, limit: int) -> int:
        async def claim(connection: Connection, now: datetime) -> list[InstanceKey]:
            async def of_next_orgs(after: str) -> list[Any]:
                return await connection.fetch(_SQL.claim_instances, limit, after)

            rows = await self._turns.claim(of_next_orgs, limit, "instance_id")
            return [(row["org_id"], row["instance_id"]) for row in rows]

        batch = self._batch()
        try:
            return await self._process(batch, claim)
        except Exception:
            if not batch.places:
                raise
            return await self._halve(batch.places)

    async def _process(self, batch: EventBatch, claim: Claim) -> int:
        async def work(connection: Connection) -> int:
            now = self.database.clock.now()
            if watch is not None:
                watch.begin([])  # of an attempt before this one nothing happened
            batch.works, batch.places = [], await claim(connection, now)
            if not batch.places:
                return 0
            async with self._noted(connection, batch, now):
                batch.works, put_off = await load_events(connection, batch.places, batch.events_max)
                await self.advancing.advance(connection, batch.works, now, as_owner=True, watch=watch)
            return put_off + sum(len(item.events) for item in batch.works)

        with watching(self.database.clock.now, alone=batch.events_max == 1) as watch:
            return await self.database.run(work, org_id=None)

    @asynccontextmanager
    async def _noted(self, connection: Connection, batch: EventBatch, now: datetime) -> AsyncIterator[None]:
        """Note a batch while it runs, by another connection, so that the note is there if this process dies (D26).

        Whoever sees a note whose lock is free knows that its worker is gone: the lock is taken before the note is
        there, and held until the note is gone.
        """
        await connection.fetchval(_SQL.hold_batch, batch.note)
        async with self.database.transaction(None) as other:
            orgs, instances = zip(*batch.places, strict=True)
            await other.execute(_SQL.note_batch, batch.note, orgs, instances, now)
        try:
            yield
        except Exception:
            await self._forget(batch.note)
            raise
        await connection.execute(_SQL.forget_batch, batch.note)

    async def _halve(self, places: Sequence[InstanceKey]) -> int:
        if len(places) == 1:
            return await self._process_alone(self._batch(), those_free(places))
        handled = 0
        middle = len(places) // 2
        for half in (places[:middle], places[middle:]):
            try:
                handled += await self._process(self._batch(), those_free(half))
            except Exception:
                handled += await self._halve(half)
        return handled

    async def _process_alone(self, batch: EventBatch, claim: Claim) -> int:
        """One instance by itself, and one event of it: what fails now is this event's own failure."""
        batch.events_max = 1
        try:
            return await self._process(batch, claim)
        except Exception as error:
            if not batch.works:
                raise
            await self._settle(batch.works[0], error)
            return 1  # its turn is over: others may be waiting behind it

    async def _settle(self, attempted: BatchItem, error: Exception) -> None:
        """Write down that an attempt failed, unless somebody else was at the event in the meantime."""
        (event,) = attempted.events.values()

        async def work(connection: Connection) -> None:
            now = self.database.clock.now()
            places = await those_free([attempted.key])(connection, now)
            works, _ = await load_events(connection, places, 1, due_only=False)
            if works and _is_as_it_was(works[0], event):
                await settle_failure(connection, self.advancing, works[0], error, now)

        await self.database.run(work, org_id=None)

    def _batch(self) -> EventBatch:
        return EventBatch(new_id(self.database.clock.now()))

    async def _forget(self, note: UUID) -> None:
        async with self.database.transaction(None) as connection:
            await connection.execute(_SQL.forget_batch, note)


def those_free(places: Sequence[InstanceKey]) -> Claim:
    """The lock of each instance that nobody is busy with; the others' turn comes again."""

    async def claim(connection: Connection, now: datetime) -> list[InstanceKey]:
        rows = await connection.fetch(_SQL.try_lock_instances, [instance_id for _, instance_id in places])
        free = {row["id"] for row in rows}
        return [place for place in places if place[1] in free]

    return claim


def _is_as_it_was(work: BatchItem, event: Any) -> bool:
    (found,) = work.events.values()
    return bool(found["id"] == event["id"] and found["attempts"] == event["attempts"])
