"""Retention: ended instances are deleted when their org's policy says so.

The policy is the setting `retention_days` of the org; without it everything stays. Entities, versions, audit,
approval requests and decisions stay in any case: they are evidence about the entity.
"""

from typing import Final

from assent.store.queries import load_queries
from assent.worker.duty import RunResult, Schedule, WorkerContext

_SQL: Final = load_queries("assent.worker", "worker.sql")


class Retention:
    """Deletes ended instances with their steps, receipts and outbox rows, some instances at a time."""

    name = "retention"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(options.retention_interval_ms / 1000, pause_s=options.sweep_pause_ms / 1000)
        self._database = place.database
        self._instances_max = options.retention_instances_max

    async def run_once(self) -> RunResult:
        async with self._database.transaction(None) as connection:
            (deleted,) = await connection.fetch(_SQL.delete_ended_instances, self._instances_max)
        full = deleted["instances"] == self._instances_max
        return RunResult(deleted["instances"], more=full, parts=dict(deleted))
