"""Timers and timeouts: a step whose time has come, and an instance whose whole time is over, get an event.

So does an instance of whose documents one is not valid any more.

The resume scheduler of the engine. What is due before the next poll is armed: the duty runs again at that moment, and
not at the poll after it. Nothing is noted for that: the first worker claims the step, and after a restart the first run
arms what is due.
"""

from datetime import datetime
from typing import Final

import asyncpg

from assent.documents.requirements import expire_requirements
from assent.model.ids import new_id
from assent.model.mutation import Event
from assent.outbox.events import count_emitted, emit_events
from assent.runtime.event_inputs import ON_EXPIRED, ON_TIMER
from assent.store.clock import transaction_time
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.worker.duty import RunResult, Schedule, WorkerContext, look_up_by_index

_SQL: Final = load_queries("assent.worker", "worker.sql")


ARMED_S: Final = 0.5
"""How much further ahead than its interval a run looks for the next time: an interval varies."""


class Timers:
    """Take the time off steps that are due and put an event into the outbox for each, in one transaction."""

    name = "timers"

    def __init__(self, place: WorkerContext) -> None:
        self.pace = Schedule(place.options.timers_interval_ms / 1000)
        self._database = place.database
        self._batch_max = place.options.timers_batch_max

    async def run_once(self) -> RunResult:
        return await self._database.run(self._emit, org_id=None)

    async def _emit(self, connection: Connection) -> RunResult:
        await look_up_by_index(connection)
        due = await connection.fetch(_SQL.claim_due_steps, self._batch_max)
        if due:
            now = await transaction_time(connection)
            await emit_events(connection, [_wake_up(step, now) for step in due], now)
        if len(due) == self._batch_max:
            return RunResult(len(due), more=True)
        next_s = await connection.fetchval(_SQL.find_next_due_step, self.pace.interval_s + ARMED_S)
        return RunResult(len(due), again_in_s=next_s)


def _wake_up(step: asyncpg.Record, now: datetime) -> Event:
    # The time is part of the cause: a step that is given another time later fires again.
    payload = {"cause": str(step["id"]), "step": str(step["id"]), "due": step["resume_at"].isoformat()}
    return Event(step["org_id"], new_id(now), ON_TIMER, payload, step["instance_id"], step["entity_version"])


class Timeouts:
    """Put an event into the outbox for each running instance that has expired, one for each deadline that it had.

    The instance's row is left alone, it changes in one place only; the event itself is the mark that the
    expiry was emitted, and its receipt keeps two workers from emitting it twice.
    """

    name = "timeouts"

    def __init__(self, place: WorkerContext) -> None:
        self.pace = Schedule(place.options.timeouts_interval_ms / 1000)
        self._database = place.database
        self._batch_max = place.options.timeouts_batch_max

    async def run_once(self) -> RunResult:
        return await self._database.run(self._emit, org_id=None)

    async def _emit(self, connection: Connection) -> RunResult:
        expired = await connection.fetch(_SQL.find_expired_instances, self._batch_max)
        now = await transaction_time(connection)
        emitted = await count_emitted(connection, [_expiry(instance, now) for instance in expired], now)
        if len(expired) == self._batch_max:
            return RunResult(emitted, more=True)
        next_s = await connection.fetchval(_SQL.find_next_expiry, self.pace.interval_s + ARMED_S)
        return RunResult(emitted, again_in_s=next_s)


def _expiry(instance: asyncpg.Record, now: datetime) -> Event:
    due = instance["expires_at"].isoformat()
    payload = {"cause": f"{instance['id']} {due}", "due": due}
    # No entity version: it is part of the event's key, and a pin that moves must not emit the expiry again.
    return Event(instance["org_id"], new_id(now), ON_EXPIRED, payload, instance["id"])


class Validity:
    """Let verified documents lapse whose last valid day is over, and wake the instances that require them."""

    name = "validity"

    def __init__(self, place: WorkerContext) -> None:
        self.pace = Schedule(place.options.validity_interval_ms / 1000)
        self._database = place.database
        self._batch_max = place.options.validity_batch_max

    async def run_once(self) -> RunResult:
        count = await self._database.run(self._expire, org_id=None)
        return RunResult(count, more=count == self._batch_max)

    async def _expire(self, connection: Connection) -> int:
        await look_up_by_index(connection)
        return await expire_requirements(connection, self._batch_max, await transaction_time(connection))
