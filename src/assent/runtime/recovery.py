"""Batches whose worker died: run again one by one, so that the event which kills workers is found (D26).

Which instance of a batch killed its worker is not known, so none of them has used an attempt by that. An instance that
was run alone when its worker died has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import asyncpg

from assent.model.ids import new_id
from assent.model.keys import InstanceKey
from assent.runtime.batch import BatchItem
from assent.runtime.failures import pause_for
from assent.runtime.worker import BATCH_MAX, EventBatch, Worker, those_free
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

_NOT_YET: Final = datetime.fromisoformat("2000-01-01T00:00:00+00:00")
"""When a note of one began that was split off and was not run yet: before all that were."""


@dataclass
class Recovery(Worker):
    """Takes up what dead workers left."""

    async def process_events(self, limit: int = BATCH_MAX) -> int:
        """Claim a batch and process it; where there is time, also what a dead worker left."""
        handled = await super().process_events(limit)
        return handled if handled >= limit else handled + await self.recover_batches()

    async def recover_batches(self, limit: int = 100) -> int:
        """Split abandoned notes into notes of one, and run those; answers how many instances were in them."""
        async with self.database.transaction(None) as connection:
            notes = await connection.fetch(_SQL.find_abandoned_batches, limit)
        return sum([await self._recover(row) for row in notes])

    async def _recover(self, row: asyncpg.Record) -> int:
        note, places = row["id"], _places(row["org_ids"], row["instance_ids"])
        if len(places) == 1:
            return await self._run_alone(note, *places[0], was_alone=row["started_at"] != _NOT_YET)
        async with self.database.transaction(None) as connection:
            # Whoever comes second has nothing to split any more.
            if await connection.execute(_SQL.forget_batch, note) == "DELETE 1":
                notes = [new_id(self.database.clock.now()) for _ in places]
                orgs, instances = zip(*places, strict=True)
                await connection.execute(_SQL.note_batches_of_one, notes, orgs, instances, _NOT_YET)
        return len(places)

    async def _run_alone(self, note: UUID, org_id: str | None, instance_id: UUID, *, was_alone: bool) -> int:
        counted: list[InstanceKey | None] = []

        async def claim(connection: Connection, now: datetime) -> list[InstanceKey]:
            if not await connection.fetchval(_SQL.hold_batch, note):
                return []  # somebody else is at it
            if not counted:
                counted.append(await self._begin(note, org_id, instance_id, now, was_alone=was_alone))
            place = counted[0]
            found = await those_free([place])(connection, now) if place is not None else []
            if not found:
                await connection.execute(_SQL.forget_batch, note)
            return found

        await self._process_alone(EventBatch(note), claim)
        return 1

    async def _begin(
        self, note: UUID, org_id: str | None, instance_id: UUID, now: datetime, *, was_alone: bool
    ) -> InstanceKey | None:
        """Note that the instance is about to run alone, and count the attempt of a worker that died over it alone.

        Where that was the last attempt, the instance pauses. Committed at once: it counts, should this process die of
        the event too.
        """
        async with self.database.transaction(None) as connection:
            # To the end of the line, before others that may be innocent.
            if await connection.execute(_SQL.touch_batch, note, now) == "UPDATE 0":
                return None
            if org_id is not None and not was_alone:
                return org_id, instance_id
            event = await connection.fetchrow(_SQL.count_lost_attempt, org_id, instance_id)
            if event is None:
                return None
            place = event["org_id"], instance_id
            if event["status"] == "dead":
                await connection.execute(_SQL.lock_instances, [instance_id])
                await pause_for(connection, self.advancing, BatchItem(*place), event["error"], now)
        return place


def _places(org_ids: Sequence[str], instance_ids: Sequence[UUID]) -> list[tuple[str | None, UUID]]:
    """The instances of a note with their orgs, which a worker of an older version did not name."""
    return [(org_ids[n] if org_ids else None, instance_id) for n, instance_id in enumerate(instance_ids)]
