"""Compact: the output of steps that ended long ago shrinks to what a rebuild of the instance needs.

A step keeps for ever when and how it ended, which actor ended it, and which way the token went. How a condition was
evaluated and what a call returned is dropped.
"""

from typing import Final

from assent.store.queries import load_queries
from assent.worker.duty import RunResult, Schedule, WorkerContext
from assent.worker.plans import look_up_by_index

_SQL: Final = load_queries("assent.worker", "worker.sql")

KEPT_KEYS: Final = (
    "n",
    "entered",
    "outcome",
    "chosen_edge_ids",
    "set",
    "status",
    "tokens",
    "entity_version",
    "command",
    "incident",
    "to",
    "again",
    "absorbed",
    "authority",
    "principal",
    "contributes",
    "contributors",
    "consumed",
    "on_behalf_of",
    "reason",
    "skipped_by",
    "amended_by",
)
"""What `assent.engine.evolve` reads of a step's output, which a test compares, and what people ask first: why."""


class Compact:
    """Goes through the steps of each org in the order of time, once, as they grow old enough."""

    name = "compact"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(options.compact_interval_ms / 1000, pause_s=options.sweep_pause_ms / 1000)
        self._database = place.database
        self._after_months = options.compact_after_months
        self._steps_max = options.compact_steps_max

    async def run_once(self) -> RunResult:
        async with self._database.transaction(None) as connection:
            if not await connection.fetchval(_SQL.try_lock_compaction):
                return RunResult()
            await look_up_by_index(connection)
            (batch,) = await connection.fetch(
                _SQL.compact_steps, self._after_months, self._steps_max, list(KEPT_KEYS)
            )
        return RunResult(batch["compacted"], more=batch["examined"] > 0)
