"""Timeouts: an instance whose whole time is over gets an event, one for each deadline that it was given."""

from datetime import datetime
from typing import Final

import asyncpg

from assent.model.ids import new_id
from assent.model.mutation import Event
from assent.outbox.emit import emit_events
from assent.runtime.event_inputs import ON_EXPIRED
from assent.store.clock import transaction_time
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.worker.duty import RunResult, Schedule, WorkerContext

_SQL: Final = load_queries("assent.worker", "worker.sql")


class Timeouts:
    """Put an event into the outbox for each running instance that has expired.

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
        emitted = await emit_events(connection, [_event(instance, now) for instance in expired], now)
        return RunResult(emitted, more=len(expired) == self._batch_max)


def _event(instance: asyncpg.Record, now: datetime) -> Event:
    due = instance["expires_at"].isoformat()
    payload = {"cause": f"{instance['id']} {due}", "due": due}
    # No entity version: it is part of the event's key, and a pin that moves must not emit the expiry again.
    return Event(instance["org_id"], new_id(now), ON_EXPIRED, payload, instance["id"])
