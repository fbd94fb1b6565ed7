"""Recovered: a batch of events whose worker died is taken up again, one instance at a time."""

from assent.worker.duty import RunResult, Schedule, WorkerContext


class Recover:
    """Has the runtime find out which event killed its worker, so that it cannot kill one after the other."""

    name = "recovered"

    def __init__(self, place: WorkerContext) -> None:
        if place.runtime is None:
            raise ValueError("Batches are recovered by a runtime; give the workplace one.")
        self.pace = Schedule(place.options.recovered_interval_ms / 1000)
        self._runtime = place.runtime
        self._batches_max = place.options.recovered_batches_max

    async def run_once(self) -> RunResult:
        count = await self._runtime.recover_batches(self._batches_max)
        # A batch of many comes back as many batches of one.
        return RunResult(count, more=count > 0)
