"""The duty that takes up batches of events whose worker died."""

from assent.worker.duty import RunResult, Schedule, WorkerContext


class Recover:
    """Runs the instances of an abandoned batch one by one, so that an event cannot kill one worker after the other."""

    name = "recovered"

    def __init__(self, place: WorkerContext) -> None:
        self.pace = Schedule(place.options.recovered_interval_ms / 1000)
        self._processor = place.event_processor()
        self._batches_max = place.options.recovered_batches_max

    async def run_once(self) -> RunResult:
        count = await self._processor.recover_batches(self._batches_max)
        # A batch of many comes back as many batches of one.
        return RunResult(count, more=count > 0)
