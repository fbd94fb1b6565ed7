"""The duties that process the engine's outbox, and that take up the batches of a worker that died."""

from assent.worker.duty import RunResult, Schedule, WorkerContext


class Events:
    """Processes events in batches."""

    name = "events"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(
            options.events_interval_ms / 1000, ("assent_events",), lanes=options.events_lanes
        )
        self._processor = place.event_processor()
        self._batch_max = options.events_batch_max

    async def run_once(self) -> RunResult:
        count = await self._processor.process_events(self._batch_max)
        # Also after a small batch: instances that others held were left out, and may be free by now.
        return RunResult(count, more=count > 0)


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
