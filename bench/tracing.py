"""The same mutations and the same steps without telemetry, with metrics, and with traces: what telemetry costs.

All ways take turns in one process, round by round, and what counts is the ratio within a round: a noisy machine is
noisy for all of them. Looking costs processor time of our own process, so that is measured beside the time on the wall.
Traces are encoded as they would be sent, and thrown away; that counts.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import median
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from assent.app import App
from assent.definitions import publish_flow
from assent.kernel import Kernel
from assent.model.actor import SYSTEM
from assent.model.mutation import Command
from assent.runtime import Runtime
from assent.runtime.event_processor import EventProcessor
from assent.telemetry import scope
from assent.telemetry.configure import stop_looking, use_metrics, use_tracing
from bench.kernel import CONTRACT, PAYLOAD
from bench.ours_steps import FLOW, ORG
from bench.report import BenchReport, Measurement, progress
from bench.server import fresh_database

ROUNDS = 11
MUTATIONS = 100
WORKFLOWS = 150
STEPS = WORKFLOWS * len(FLOW["steps"])
CARRIED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


class Thrown(SpanExporter):
    """Encodes spans for the wire, counts them, and throws them away."""

    def __init__(self) -> None:
        self.spans = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        encode_spans(spans).SerializeToString()
        self.spans += len(spans)
        return SpanExportResult.SUCCESS


class Tracing:
    """Tracing as a process would have it, with room for all spans of a round."""

    def __init__(self, ratio: float) -> None:
        self.exporter = Thrown()
        self.provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(ratio)))
        self.provider.add_span_processor(BatchSpanProcessor(self.exporter, max_queue_size=100_000))


@dataclass(frozen=True, slots=True)
class Way:
    """A way to look."""

    name: str
    tracing: Tracing | None = None
    metrics: bool = False
    carried: str | None = None

    def begin(self) -> None:
        if self.tracing is not None:
            use_tracing(self.tracing.provider)
        if self.metrics:
            use_metrics()

    def end(self) -> None:
        """What is not yet sent is sent, and counts."""
        if self.tracing is not None:
            self.tracing.provider.force_flush()

    @property
    def spans(self) -> int:
        return self.tracing.exporter.spans if self.tracing is not None else 0


OFF = Way("no telemetry")

Load = Callable[[], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one unit took."""

    wall_s: float
    cpu_s: float


Costs = dict[Way, list[Cost]]


def _ways() -> list[Way]:
    return [
        OFF,
        Way("no telemetry, again"),
        Way("a trace is carried", carried=CARRIED),
        Way("metrics", metrics=True),
        Way("1 trace in 100", Tracing(0.01)),
        Way("every trace", Tracing(1.0)),
    ]


async def measure() -> BenchReport:
    # A database for each: the events of the mutations are not processed.
    async with fresh_database() as database:
        kernel = App([CONTRACT]).kernel(database)
        mutations = await _compare("mutations", lambda: _mutate(kernel))
    async with fresh_database() as database:
        runtime = App().runtime(database)
        async with database.transaction(None) as connection:
            await publish_flow(connection, ORG, FLOW, SYSTEM, database.clock.now())
        steps = await _compare("steps", lambda: _advance(runtime))
    measurements = [*_measurements("mutations", mutations), *_measurements("steps", steps)]
    totals = _ratios("mutations", mutations) | _ratios("steps", steps)
    return BenchReport("tracing", "What looking costs", measurements, totals)


async def _compare(what: str, load: Load) -> Costs:
    costs: Costs = {way: [] for way in _ways()}
    ways = list(costs)
    for number in range(ROUNDS + 1):
        # Another way comes first in each round.
        first = number % len(ways)
        for way in (*ways[first:], *ways[:first]):
            cost = await _cost(way, load)
            if number:  # the first round warms caches and plans
                costs[way].append(cost)
        latest = ", ".join(f"{1 / made[-1].wall_s:,.0f}" for made in costs.values() if made)
        progress(f"{f'round {number} of {ROUNDS}' if number else 'warm-up'}: {latest} {what}/s")
    return costs


async def _cost(way: Way, load: Load) -> Cost:
    way.begin()
    try:
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        with scope(trace=way.carried) if way.carried else nullcontext():
            units = await load()
        way.end()
        return Cost((time.perf_counter() - wall_s) / units, (time.process_time() - cpu_s) / units)
    finally:
        stop_looking()


async def _mutate(kernel: Kernel) -> int:
    for _ in range(MUTATIONS):
        await kernel.mutate(Command("acme", "invoice.create", SYSTEM, PAYLOAD))
    return MUTATIONS


async def _advance(runtime: Runtime) -> int:
    inputs: list[Mapping[str, Any]] = [{"number": number} for number in range(WORKFLOWS)]
    await runtime.org(ORG, SYSTEM).instances.start_many(FLOW["flow"], inputs)
    processor = EventProcessor(runtime.core)
    while await processor.process_events():
        pass
    return STEPS


def _measurements(what: str, costs: Costs) -> list[Measurement]:
    return [
        Measurement(f"{what}: {way.name}", f"{what}/s", [1 / cost.wall_s for cost in made], _facts(way, made))
        for way, made in costs.items()
    ]


def _facts(way: Way, made: Sequence[Cost]) -> dict[str, object]:
    cpu: dict[str, object] = {"our CPU, µs each": median(cost.cpu_s for cost in made) * 1e6}
    return cpu | ({"spans": way.spans} if way.spans else {})


def _ratios(what: str, costs: Costs) -> dict[str, object]:
    """Return the ratio of our CPU time to that without telemetry, in the same round, for each way."""
    return {
        f"{what}, {way.name}: times the CPU": median(
            mine.cpu_s / theirs.cpu_s for mine, theirs in zip(made, costs[OFF], strict=True)
        )
        for way, made in costs.items()
        if way is not OFF
    }
