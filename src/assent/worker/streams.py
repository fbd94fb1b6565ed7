"""Streams: results that come over Redis, Kafka or NATS JetStream; see `assent.transports`."""

from collections import Counter

from assent.requests.messages import StreamSource
from assent.transports.consumer import Cadence
from assent.transports.open import open_consumer
from assent.worker.duty import RunResult, Schedule, WorkerContext

IDLE_S = 3_600.0
"""How often a worker without streams does nothing."""


class Streams:
    """Reads one stream: a batch, kept in one transaction and then acknowledged.

    Each stream has a loop of its own, with its own backoff: a broker that is away holds up no other.
    """

    name = "streams"

    def __init__(self, place: WorkerContext, source: StreamSource | None = None) -> None:
        settings = place.streams
        # It waits at the broker, so it begins again at once.
        self.pace = Schedule(0.0 if source is not None else IDLE_S)
        self._limit, self._wait_s = settings.batch_max, settings.wait_ms / 1000
        self._looks = Cadence(settings.look_interval_ms / 1000)
        self._consumer = (
            open_consumer(source, settings, place.database, place.lease.worker_id)
            if source is not None
            else None
        )

    @classmethod
    def each(cls, place: WorkerContext) -> "list[Streams]":
        """Return one for each stream that is configured; one with nothing to read where none is."""
        place.streams.require_brokers()
        return [cls(place, source) for source in place.streams.sources] or [cls(place)]

    async def run_once(self) -> RunResult:
        if self._consumer is None:
            return RunResult()
        counts: Counter[str] = await self._consumer.consume(self._limit, self._wait_s)
        if self._looks.is_due():
            await self._consumer.look()
        return RunResult(counts.total(), more=bool(counts), parts=dict(counts))

    async def finish(self) -> None:
        """Leave the stream; a batch that is not known to be kept comes again, to another worker."""
        if self._consumer is not None:
            await self._consumer.close()
