"""Prune: receipts of instances that ended long ago, finished rows of both outboxes and finished tasks are deleted.

So are events that no instance has waited for in a long time, and those that are too many under one key.
Dead letters and the keys of tasks are kept for ever, and so is everything of an instance that has not ended.
"""

from typing import Final

from assent.store.queries import load_queries
from assent.worker.duty import RunResult, Schedule, WorkerContext
from assent.worker.plans import look_up_by_index

_SQL: Final = load_queries("assent.worker", "worker.sql")


class Prune:
    """Deletes what is not needed any more, a batch of each kind in a transaction of its own."""

    name = "prune"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(options.prune_interval_ms / 1000, pause_s=options.sweep_pause_ms / 1000)
        self._database = place.database
        self._after_days = options.prune_after_days
        self._instances_max = options.prune_instances_max
        self._rows_max = options.prune_rows_max
        self._kept_days = options.prune_kept_events_after_days
        self._kept_max = options.prune_kept_events_per_key_max

    async def run_once(self) -> RunResult:
        async with self._database.transaction(None) as connection:
            (receipts,) = await connection.fetch(_SQL.prune_receipts, self._after_days, self._instances_max)
        events = await self._prune(_SQL.prune_events, self._after_days)
        effects = await self._prune(_SQL.prune_effects, self._after_days)
        tasks = await self._prune(_SQL.prune_tasks, self._after_days)
        kept = await self._prune(_SQL.prune_kept_events, self._kept_days)
        surplus = await self._prune(_SQL.prune_surplus_events, self._kept_max)
        parts = {
            "step_receipts": receipts["step_receipts"],
            "outbox_receipts": receipts["outbox_receipts"],
            "events": events,
            "effects": effects,
            "tasks": tasks,
            "kept_events": kept + surplus,
        }
        counts = (events, effects, tasks, kept, surplus)
        full = receipts["instances"] == self._instances_max or self._rows_max in counts
        return RunResult(sum(parts.values()), more=full, parts=parts)

    async def _prune(self, sql: str, limit: int) -> int:
        async with self._database.transaction(None) as connection:
            await look_up_by_index(connection)
            count: int = await connection.fetchval(sql, limit, self._rows_max)
        return count
