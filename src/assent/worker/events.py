"""Events: the engine's outbox. The runtime claims and processes; this only asks it to, again and again."""

from assent.worker.duty import RunResult, Schedule, WorkerContext


class Events:
    """Has the runtime process what waits in the engine's outbox."""

    name = "events"

    def __init__(self, place: WorkerContext) -> None:
        if place.runtime is None:
            raise ValueError("Events need a runtime to process them; give the workplace one.")
        options = place.options
        self.pace = Schedule(
            options.events_interval_ms / 1000, ("assent_events",), lanes=options.events_lanes
        )
        self._runtime = place.runtime
        self._batch_max = options.events_batch_max

    async def run_once(self) -> RunResult:
        count = await self._runtime.process_events(self._batch_max)
        # Also after a small batch: instances that others held were left out, and may be free by now.
        return RunResult(count, more=count > 0)
