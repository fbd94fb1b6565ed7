"""The duty that processes the engine's outbox."""

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
