"""Partitions: the months ahead are there before anything can need them."""

from assent.store.upkeep import ensure_partitions
from assent.worker.duty import RunResult, Schedule, WorkerContext


class Partitions:
    """Makes the partitions of the months ahead, and moves rows that came for a month without a partition."""

    name = "partitions"

    def __init__(self, place: WorkerContext) -> None:
        self.pace = Schedule(place.options.partitions_interval_ms / 1000)
        self._database = place.database
        self._months_ahead = place.options.partitions_months_ahead

    async def run_once(self) -> RunResult:
        return RunResult(await ensure_partitions(self._database, self._months_ahead))
