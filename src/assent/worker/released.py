"""Released: what a worker claimed and never finished goes back into its queue."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg

from assent.evidence.ending import fail_requests
from assent.kernel.answers import answer_event
from assent.kernel.outbox import emit_events
from assent.model.graph import Outcome
from assent.model.mutation import Event
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.tasks.claim import release_lost
from assent.worker.duty import Done, Pace, Workplace
from assent.worker.plans import look_up_by_index

_SQL: Final = load_queries("assent.worker", "released.sql")

LOST: Final = "EFFECT_LOST"
"""The code of an awaited effect whose worker died over it, when it may not be sent again."""


class Released:
    """Puts events, effects and tasks back whose lease is over; those without attempts left become dead letters.

    One that kills every worker which touches it thus ends where a person looks at it.
    """

    name = "released"

    def __init__(self, place: Workplace) -> None:
        options = place.options
        self.pace = Pace(options.released_interval_ms / 1000, pause_s=options.sweep_pause_ms / 1000)
        self._database = place.database
        self._batch_max = options.released_batch_max
        self._lease = timedelta(milliseconds=options.released_lease_ms)

    async def run_once(self) -> Done:
        async with self._database.transaction(None) as connection:
            await look_up_by_index(connection)
            (events,) = await connection.fetch(_SQL.release_events, self._batch_max, self._lease)
            effects = await connection.fetch(_SQL.release_effects, self._batch_max, self._lease)
            dead = [effect for effect in effects if effect["status"] == "dead_letter"]
            await self._tell(connection, [effect for effect in dead if effect["awaited"]])
            tasks = await release_lost(connection, self._batch_max, self._database.clock.now())
            dead_tasks = [task for task in tasks if task["status"] == "dead"]
        parts = {
            "events": events["released"],
            "effects": len(effects) - len(dead),
            "tasks": len(tasks) - len(dead_tasks),
            "dead_letters": events["dead"] + len(dead) + len(dead_tasks),
        }
        full = self._batch_max in (events["released"] + events["dead"], len(effects), len(tasks))
        return Done(sum(parts.values()), more=full, parts=parts)

    async def _tell(self, connection: Connection, effects: Sequence[asyncpg.Record]) -> None:
        """Steps that await what was given up go on by their error edge."""
        now = self._database.clock.now()
        calls = [(e["org_id"], e["request_id"], f"{LOST}: {e['error']}") for e in effects if e["request_id"]]
        answers = [effect for effect in effects if effect["request_id"] is None]
        await emit_events(connection, [_lost(dict(effect), now) for effect in answers], now)
        await fail_requests(connection, calls, now)


def _lost(effect: dict[str, Any], now: datetime) -> Event:
    return answer_event(effect, Outcome.ERROR, {"code": LOST, "message": effect["error"]}, now)
