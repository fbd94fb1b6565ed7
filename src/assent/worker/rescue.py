"""Rescue: jobs of workers whose lease is over go back to their queues."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg

from assent.effects.outbox import rescue_effects
from assent.model.graph import Outcome
from assent.model.mutation import Event
from assent.outbox.completions import completion_event
from assent.outbox.emit import emit_events
from assent.requests.close import fail_requests
from assent.requests.queue import rescue_deliveries
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.tasks.claim import rescue_tasks
from assent.worker.duty import RunResult, Schedule, WorkerContext
from assent.worker.plans import look_up_by_index

_SQL: Final = load_queries("assent.worker", "lease.sql")

LOST: Final = "EFFECT_LOST"
"""The code of an awaited effect whose worker died over it, when it may not be sent again."""


class Rescue:
    """Puts back the tasks, effects and results of workers that are gone; those without attempts left are dead.

    A job that kills every worker which touches it ends where a person looks at it, and costs the jobs beside it
    nothing: which of them killed the worker is found out by starting them one by one.
    """

    name = "rescue"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(options.rescue_interval_ms / 1000, pause_s=options.sweep_pause_ms / 1000)
        self._database = place.database
        self._batch_max = options.rescue_batch_max

    async def run_once(self) -> RunResult:
        async with self._database.transaction(None) as connection:
            await look_up_by_index(connection)
            gone = await connection.fetch(_SQL.lock_expired_leases, self._batch_max)
            workers, jobs = [row["worker_id"] for row in gone], [row["lost_jobs"] for row in gone]
            tasks = await rescue_tasks(connection, workers, jobs, self._batch_max)
            effects = await rescue_effects(connection, workers, jobs, self._batch_max)
            await _tell(connection, [row for row in effects if row["awaited"] and _is_dead(row)])
            results = await rescue_deliveries(connection, workers, jobs, self._batch_max)
            await connection.execute(_SQL.end_leases_if_unused, workers)
        rescued = {"tasks": tasks, "effects": effects, "results": results}
        parts = {kind: sum(not _is_dead(row) for row in rows) for kind, rows in rescued.items()}
        parts["dead_letters"] = sum(_is_dead(row) for rows in rescued.values() for row in rows)
        more = any(len(rows) == self._batch_max for rows in (gone, *rescued.values()))
        return RunResult(sum(parts.values()), more=more, parts=parts)


def _is_dead(row: Any) -> bool:
    return row["status"] in ("dead", "dead_letter")


async def _tell(connection: Connection, effects: Sequence[asyncpg.Record]) -> None:
    """Have the steps go on by their error edge that await what was given up."""
    if effects:
        now = effects[0]["now"]
        calls = [(e["org_id"], e["request_id"], f"{LOST}: {e['error']}") for e in effects if e["request_id"]]
        answers = [effect for effect in effects if effect["request_id"] is None]
        await emit_events(connection, [_lost(dict(effect), now) for effect in answers], now)
        await fail_requests(connection, calls, now)


def _lost(effect: dict[str, Any], now: datetime) -> Event:
    return completion_event(effect, Outcome.ERROR, {"code": LOST, "message": effect["error"]}, now)
