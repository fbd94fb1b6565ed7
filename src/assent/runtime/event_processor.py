"""Processing of events by workers: batches of instances, one transaction each.

A batch is noted before it starts and forgotten with its commit. A batch that fails is halved until the one that
fails is alone; only then is an attempt counted (D10), and its event is postponed, tried again, fails its step, or
becomes a dead letter.

A batch whose worker died leaves its note. Its instances are run again one by one before they are claimed with others,
so that the event which kills workers is found (D26). Which instance of a batch killed its worker is not known, so none
of them has used an attempt by that. An instance that was run alone when its worker died has.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg

from assent.engine.apply import EVENT_FAILED
from assent.engine.inputs import Input, Pause
from assent.model.actor import SYSTEM
from assent.model.ids import InstanceKey, new_id
from assent.model.mutation import Refused
from assent.model.problems import error_text, typed_error_text
from assent.model.timing import backoff, jittered
from assent.runtime.advance import Advancing
from assent.runtime.batch import BatchItem, Execution
from assent.runtime.core import Core
from assent.runtime.declared_names import NEWER_CODE_NEEDED
from assent.runtime.errors import InstanceBusy, ReceiptTaken, StepFailed
from assent.runtime.event_inputs import load_events, load_named_events, works_of
from assent.runtime.keyed_events import OrgRotation, route_arrivals
from assent.runtime.watch import Watch, watching
from assent.store.connection import LiveConnection, inline
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.telemetry import hooks

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

RETRY_S_MIN: Final = 1.0
RETRY_S_MAX: Final = 300.0
_RETRIES: Final = timedelta(seconds=RETRY_S_MIN), timedelta(seconds=RETRY_S_MAX)
STALE_RETRY_S: Final = 60.0
"""How long an event waits for its workflow to be compiled again."""

NEWER_CODE_RETRY_S: Final = 2.0
"""How long an event waits for a worker of newer code, before any worker takes it again."""


async def settle_failure(  # noqa: PLR0913, PLR0917
    connection: Connection,
    advancing: Advancing,
    work: BatchItem,
    error: Exception,
    now: datetime,
    watch: Watch,
) -> None:
    """Decide about the one event of a work whose attempt failed. The instance's lock is held."""
    (event,) = work.events.values()
    wait_s = _wait_without_attempt_s(error)
    if wait_s is not None:
        await _postpone(connection, event, error, timedelta(seconds=wait_s))
    elif event["attempts"] + 1 < event["attempts_max"]:
        wait = jittered(backoff(event["attempts"] + 1, *_RETRIES))
        await _record(connection, event, "failed", error, wait)
    else:
        await _abandon(connection, advancing, work, event, error, now, watch)


async def pause_for(  # noqa: PLR0913, PLR0917
    connection: Connection, advancing: Advancing, work: BatchItem, why: str, now: datetime, watch: Watch
) -> None:
    """Pause an instance until an operator has looked at the event that failed."""
    pause = Pause(new_id(now), SYSTEM, why, code=EVENT_FAILED)
    await _advance_alone(connection, advancing, work, pause, now, watch)


def _wait_without_attempt_s(error: Exception) -> float | None:
    """Postpone an event without an attempt: its entity is locked (D28), or its workflow is to be recompiled.

    Or only newer code knows what its step calls: that code runs elsewhere, or ran not long ago.
    """
    if isinstance(error, InstanceBusy):
        return RETRY_S_MIN
    if isinstance(error, Refused) and error.code == "WORKFLOW_COMPILER_STALE":
        return STALE_RETRY_S
    if isinstance(error, Refused) and error.code == NEWER_CODE_NEEDED:
        return jittered(timedelta(seconds=NEWER_CODE_RETRY_S)).total_seconds()
    return None


async def _abandon(  # noqa: PLR0913, PLR0917
    connection: Connection,
    advancing: Advancing,
    work: BatchItem,
    event: Any,
    error: Exception,
    now: datetime,
    watch: Watch,
) -> None:
    """Take the error edge of an event without attempts left; else pause its instance and leave a dead letter."""
    try:
        async with connection.transaction():
            went_on = await _fail_step(connection, advancing, work, error, now, watch)
    except Exception as worse:
        error, went_on = worse, False
        watch.begin([])  # what it had done is rolled back
    if went_on:
        keys = [event["org_id"]], [event["created_at"]], [event["id"]]
        await connection.execute(_SQL.complete_events, *keys, [_text(error)], now)
    else:
        await _record(connection, event, "dead", error, None)
        watch.died(event, _text(error))


async def _fail_step(  # noqa: PLR0913, PLR0917
    connection: Connection,
    advancing: Advancing,
    work: BatchItem,
    error: Exception,
    now: datetime,
    watch: Watch,
) -> bool:
    """Record the failure in the instance; true when the workflow knew what to do about it."""
    if isinstance(error, StepFailed):
        failing = {error.node_id: error.error}
        job = await _advance_alone(connection, advancing, work, work.inputs[0], now, watch, failing)
        return job is not None and job.run.instance.status != "paused"
    # A projection that is behind its steps must not get new ones: it is to be rebuilt first.
    if not isinstance(error, ReceiptTaken):
        await pause_for(connection, advancing, work, _text(error), now, watch)
    return False


async def _advance_alone(  # noqa: PLR0913, PLR0917
    connection: Connection,
    advancing: Advancing,
    work: BatchItem,
    given: Input,
    now: datetime,
    watch: Watch,
    failing: dict[str, Exception] | None = None,
) -> Execution | None:
    birth = work.birth if failing else None
    alone = BatchItem(work.org_id, work.instance_id, [given], birth)
    jobs = await advancing.advance(connection, [alone], now, copies=True, failing=failing, watch=watch)
    return jobs[0] if jobs else None


async def _postpone(connection: Connection, event: Any, error: Exception, wait: timedelta) -> None:
    keys = event["org_id"], event["created_at"], event["id"]
    await connection.execute(_SQL.postpone_event, *keys, _text(error), wait)


async def _record(
    connection: Connection, event: Any, status: str, error: Exception, wait: timedelta | None
) -> None:
    keys = event["org_id"], event["created_at"], event["id"]
    await connection.execute(_SQL.record_failure, *keys, status, _text(error), wait)
    if hooks.metrics is not None:
        hooks.metrics.event_failed(event["event_type"], status)


def _text(error: Exception) -> str:
    return error_text(error) if isinstance(error, Refused) else typed_error_text(error)


BATCH_MAX: Final = 200
ARRIVALS_EVERY: Final = 8
GATHERED_MAX: Final = 10
"""Up to so many instances, a batch sends its writes in one message with COMMIT; more of them are copied."""
_NOT_YET: Final = datetime.fromisoformat("2000-01-01T00:00:00+00:00")
"""The start of a note of one instance that was split off and has not run yet: before all that have."""

Claim = Callable[[Connection, datetime], Awaitable[list[InstanceKey]]]


@dataclass
class EventBatch:
    """What a worker has claimed, and the note that says so."""

    note: UUID
    events_max: int | None = None
    """How many of each instance's events are taken; all, unless something was wrong with them together."""
    places: list[InstanceKey] = field(default_factory=list)
    works: list[BatchItem] = field(default_factory=list)


class EventProcessor:
    """Processes the engine's outbox for one worker; any number of them may run, in any number of processes."""

    def __init__(self, core: Core) -> None:
        self.database = core.database
        self.advancing = core.advancing
        self._triggers = core.triggers
        self._batches = 0
        self._rotation = OrgRotation()
        """Whose turn it is among the orgs in claims of instances."""
        self._arrival_rotation = OrgRotation()
        """The same for events that belong to no instance yet."""

    async def process_events(self, limit: int = BATCH_MAX) -> int:
        """Claim a batch and process it, then batches of dead workers if there is room; return how many events."""
        handled = await self._process_claimed_and_arrived(limit)
        return handled if handled >= limit else handled + await self.recover_batches()

    async def process_named(self, places: Sequence[InstanceKey]) -> int:
        """Process the events of instances that a notification named, without a search; return how many events.

        Instances whose locks are not free are left out: the worker that has them searches again.
        """
        batch = self._batch()
        first = inline(_SQL.try_named, str(batch.note), ",".join(str(each) for _, each in places))
        is_small = len(places) <= GATHERED_MAX

        async def work(connection: Connection) -> int:
            now = self.database.clock.now()
            watch.begin([])
            found = await load_named_events(connection, places)
            batch.places = list(found)
            if not found:
                return 0
            async with self._noted(connection, batch, now):
                batch.works, put_off = await works_of(connection, found)
                await self.advancing.advance(connection, batch.works, now, copies=not is_small, watch=watch)
            return put_off + sum(len(item.events) for item in batch.works)

        try:
            with watching(self.database.clock.now, alone=False) as watch:
                return await self.database.run(work, org_id=None, first=first, gathers=is_small)
        except Exception:
            if not batch.places:
                raise
            # Writes that went with COMMIT failed behind the note; what comes now is noted by itself.
            await self._forget(batch.note)
            return await self._halve(batch.places)

    async def _process_claimed_and_arrived(self, limit: int) -> int:
        handled = await self._process_claimed(limit)
        # Arrivals are few; a full batch goes before them, but not for ever.
        self._batches += 1
        if handled < limit or self._batches % ARRIVALS_EVERY == 0:
            handled += await self.route_arrivals(limit)
        return handled

    async def route_arrivals(self, limit: int = BATCH_MAX) -> int:
        """Route events under a key to the steps that wait for it; keep the others for the first that will (D32)."""

        async def work(connection: Connection) -> int:
            now = self.database.clock.now()
            return await route_arrivals(connection, self._arrival_rotation, self._triggers, limit, now)

        return await self.database.run(work, org_id=None)

    async def _process_claimed(self, limit: int) -> int:
        async def claim(connection: Connection, now: datetime) -> list[InstanceKey]:
            async def of_next_orgs(after: str, floor: datetime) -> list[Any]:
                return await connection.fetch(_SQL.claim_instances, limit, after, floor)

            rows = await self._rotation.claim(of_next_orgs, limit, "instance_id")
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
            watch.begin([])  # of an attempt before this one nothing happened
            batch.works, batch.places = [], await claim(connection, now)
            if not batch.places:
                return 0
            async with self._noted(connection, batch, now):
                batch.works, put_off = await load_events(connection, batch.places, batch.events_max)
                await self.advancing.advance(connection, batch.works, now, copies=True, watch=watch)
            return put_off + sum(len(item.events) for item in batch.works)

        with watching(self.database.clock.now, alone=batch.events_max == 1) as watch:
            first = inline(_SQL.hold_batch_from_the_start, str(batch.note))
            return await self.database.run(work, org_id=None, first=first)

    @asynccontextmanager
    async def _noted(self, connection: Connection, batch: EventBatch, now: datetime) -> AsyncIterator[None]:
        """Note a batch while it runs, by another connection, so that the note is there if this process dies (D26).

        A worker that finds a note whose lock is free knows that the note's worker is gone: the lock was taken when the
        transaction began, before the note is written, and is held until the note is deleted.
        """
        async with self.database.glance() as other:
            orgs, instances = zip(*batch.places, strict=True)
            await other.execute(_SQL.note_batch, batch.note, orgs, instances, now)
        try:
            yield
        except Exception:
            await self._forget(batch.note)
            raise
        live: LiveConnection = connection.live  # type: ignore[union-attr]
        live.end_with(inline(_SQL.forget_batch, str(batch.note)))

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
        """Run one event of one instance by itself: what fails now is this event's own failure."""
        batch.events_max = 1
        try:
            return await self._process(batch, claim)
        except Exception as error:
            if not batch.works:
                raise
            await self._settle(batch.works[0], error)
            return 1  # its turn is over: others may be waiting behind it

    async def _settle(self, attempted: BatchItem, error: Exception) -> None:
        """Record that an attempt failed, unless another worker processed the event in the meantime."""
        (event,) = attempted.events.values()
        watch = Watch(None, None, inline=False)

        async def work(connection: Connection) -> None:
            now = self.database.clock.now()
            watch.begin([])
            places = await those_free([attempted.key])(connection, now)
            works, _ = await load_events(connection, places, 1, due_only=False)
            if works and _is_as_it_was(works[0], event):
                await settle_failure(connection, self.advancing, works[0], error, now, watch)

        await self.database.run(work, org_id=None)
        watch.committed(self.database.clock.now())

    async def recover_batches(self, limit: int = 100) -> int:
        """Split abandoned notes into notes of one, and run those; return how many instances were in them."""
        async with self.database.transaction(None) as connection:
            notes = await connection.fetch(_SQL.find_abandoned_batches, limit)
        return sum([await self._recover(row) for row in notes])

    async def _recover(self, row: asyncpg.Record) -> int:
        note, places = row["id"], list(zip(row["org_ids"], row["instance_ids"], strict=True))
        if len(places) == 1:
            return await self._run_alone(note, *places[0], was_alone=row["started_at"] != _NOT_YET)
        async with self.database.transaction(None) as connection:
            # A second worker deletes no row here, and has nothing left to split.
            if await connection.execute(_SQL.forget_batch, str(note)) == "DELETE 1":
                notes = [new_id(self.database.clock.now()) for _ in places]
                orgs, instances = zip(*places, strict=True)
                await connection.execute(_SQL.note_batches_of_one, notes, orgs, instances, _NOT_YET)
        return len(places)

    async def _run_alone(self, note: UUID, org_id: str, instance_id: UUID, *, was_alone: bool) -> int:
        counted: list[InstanceKey | None] = []

        async def claim(connection: Connection, now: datetime) -> list[InstanceKey]:
            if not await connection.fetchval(_SQL.hold_batch, note):
                return []  # another worker runs it
            if not counted:
                counted.append(await self._begin(note, org_id, instance_id, now, was_alone=was_alone))
            place = counted[0]
            found = await those_free([place])(connection, now) if place is not None else []
            if not found:
                await connection.execute(_SQL.forget_batch, str(note))
            return found

        await self._process_alone(EventBatch(note), claim)
        return 1

    async def _begin(
        self, note: UUID, org_id: str, instance_id: UUID, now: datetime, *, was_alone: bool
    ) -> InstanceKey | None:
        """Note that the instance is about to run alone, and count the attempt of a worker that died over it alone.

        Where that was the last attempt, the instance pauses. Committed at once: it counts, should this process die of
        the event too.
        """
        watch = Watch(None, None, inline=False)
        async with self.database.transaction(None) as connection:
            # To the end of the line, before others that may be innocent.
            if await connection.execute(_SQL.touch_batch, note, now) == "UPDATE 0":
                return None
            if not was_alone:
                return org_id, instance_id
            event = await connection.fetchrow(_SQL.count_lost_attempt, org_id, instance_id)
            if event is None:
                return None
            if event["status"] == "dead":
                await connection.execute(_SQL.lock_instances, [instance_id])
                item = BatchItem(org_id, instance_id)
                await pause_for(connection, self.advancing, item, event["error"], now, watch)
        watch.committed(now)
        return org_id, instance_id

    def _batch(self) -> EventBatch:
        return EventBatch(new_id(self.database.clock.now()))

    async def _forget(self, note: UUID) -> None:
        async with self.database.transaction(None) as connection:
            await connection.execute(_SQL.forget_batch, str(note))


def those_free(places: Sequence[InstanceKey]) -> Claim:
    """Return a claim of those instances whose locks are free; the others are claimed later."""

    async def claim(connection: Connection, now: datetime) -> list[InstanceKey]:
        rows = await connection.fetch(_SQL.try_lock_instances, [instance_id for _, instance_id in places])
        free = {row["id"] for row in rows}
        return [place for place in places if place[1] in free]

    return claim


def _is_as_it_was(work: BatchItem, event: Any) -> bool:
    (found,) = work.events.values()
    return bool(found["id"] == event["id"] and found["attempts"] == event["attempts"])
