"""The duties that process the engine's outbox, and that take up the batches of a worker that died."""

from collections.abc import Collection
from uuid import UUID

import orjson

from assent.model.ids import InstanceKey
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
        self._named: set[InstanceKey] = set()
        """Instances that notifications named, and that no lane has taken up yet."""
        self._idle_wakes = 0
        """How many lanes are about to be woken for what another lane has taken up."""
        self._search_is_due = False
        """Whether the next run searches, whatever was named: what is named may not keep others from their turn."""

    def hear(self, said: Collection[str]) -> None:
        """Note which instances have events; a notification that does not say it has every lane search."""
        named = [_read_names(text) for text in said]
        places = {place for found in named if found is not None for place in found}
        if None in named or len(self._named | places) > self._batch_max:
            self._named, self._idle_wakes = set(), 0
        else:
            self._named |= places
            self._idle_wakes = self.pace.lanes - 1

    async def run_once(self) -> RunResult:
        if self._named and not self._search_is_due:
            named, self._named = self._named, set()
            count = await self._processor.process_named(sorted(named))
            self._search_is_due = True
            # What came for these instances meanwhile named them while their locks were held: a search finds it.
            return RunResult(count, more=count > 0)
        if self._idle_wakes and not self._search_is_due:
            self._idle_wakes -= 1
            return RunResult()
        self._search_is_due = False
        count = await self._processor.process_events(self._batch_max)
        # Also after a small batch: instances that others held were left out, and may be free by now.
        return RunResult(count, more=count > 0 or bool(self._named))


def _read_names(text: str) -> list[InstanceKey] | None:
    """Return the instances that a notification names; None where it names none."""
    try:
        return [(str(org_id), UUID(instance_id)) for org_id, instance_id in orjson.loads(text)] or None
    except (ValueError, TypeError, AttributeError):
        return None


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
