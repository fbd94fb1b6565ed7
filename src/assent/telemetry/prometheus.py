"""Metrics by prometheus-client. Imported when metrics are turned on, and never before."""

from collections.abc import Mapping, Sequence
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.process_collector import ProcessCollector

LATENCIES_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800)
STEPS_S: Final = (0.00002, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)
WAITS_S: Final = (1, 10, 60, 600, 3_600, 6 * 3_600, 86_400, 3 * 86_400, 7 * 86_400, 30 * 86_400)
"""Buckets: of queues, of handlers, and of people and timers."""


class PrometheusMetrics:
    """The metrics of this process, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        if registry is None:
            registry = CollectorRegistry()
            ProcessCollector(registry=registry)
        self.registry = registry
        self._count_queues(registry)
        self._count_work(registry)
        self._time_steps(registry)
        self._watch_ground(registry)
        self._watch_streams(registry)

    def _count_queues(self, to: CollectorRegistry) -> None:
        self._pending = Gauge("assent_pending", "What is due and waits to be handled", ["queue"], registry=to)
        self._delayed = Gauge("assent_delayed", "What waits for its time to come", ["queue"], registry=to)
        self._processing = Gauge("assent_processing", "What a worker has claimed", ["queue"], registry=to)
        self._oldest = Gauge(
            "assent_oldest_pending_seconds",
            "How long the oldest of a queue has been due",
            ["queue"],
            registry=to,
        )
        self._dead = Gauge(
            "assent_dead_letters", "Jobs and events that used up their attempts", ["queue"], registry=to
        )
        self._incidents = Gauge(
            "assent_incidents", "Instances that are paused", ["code", "definition"], registry=to
        )
        self._died = Counter(
            "assent_dead_total",
            "Jobs and events whose last attempt failed in this process",
            ["queue"],
            registry=to,
        )
        self._retries = Counter(
            "assent_retries_total", "Attempts that failed and are tried again", ["queue"], registry=to
        )

    def _count_work(self, to: CollectorRegistry) -> None:
        kinds = ["event_type", "outcome"]
        self._events = Counter("assent_events_total", "Events that were processed", kinds, registry=to)
        self._latency = Histogram(
            "assent_event_latency_seconds",
            "From an event's transaction to the end of its processing",
            ["event_type"],
            registry=to,
            buckets=LATENCIES_S,
        )
        self._effects = Counter(
            "assent_effects_total", "Attempts to send an effect", ["effect_type", "outcome"], registry=to
        )
        self._sending = Histogram(
            "assent_effect_send_seconds",
            "One attempt to send",
            ["effect_type"],
            registry=to,
            buckets=LATENCIES_S,
        )
        self._effect_latency = Histogram(
            "assent_effect_latency_seconds",
            "From an effect's step to its delivery",
            ["effect_type"],
            registry=to,
            buckets=LATENCIES_S,
        )
        self._tasks = Counter(
            "assent_tasks_total", "Attempts at tasks", ["task_type", "outcome"], registry=to
        )
        self._task_took = Histogram(
            "assent_task_duration_seconds",
            "One attempt at a task",
            ["task_type"],
            registry=to,
            buckets=LATENCIES_S,
        )
        self._task_latency = Histogram(
            "assent_task_latency_seconds",
            "From a task's submission to its completion",
            ["task_type"],
            registry=to,
            buckets=LATENCIES_S,
        )
        self._approvals = Counter("assent_approvals_total", "Requests for approval", ["outcome"], registry=to)
        self._timeouts = Counter(
            "assent_timeouts_total", "Workflows whose time was over", ["definition"], registry=to
        )

    def _time_steps(self, to: CollectorRegistry) -> None:
        self._steps = Counter("assent_steps_total", "Steps by their status", ["kind", "status"], registry=to)
        self._step_took = Histogram(
            "assent_step_duration_seconds", "Performing a node", ["kind"], registry=to, buckets=STEPS_S
        )
        self._waited = Histogram(
            "assent_step_wait_seconds",
            "How long a step rested until it ended",
            ["kind"],
            registry=to,
            buckets=WAITS_S,
        )

    def _watch_ground(self, to: CollectorRegistry) -> None:
        self._runs = Counter("assent_duty_runs_total", "Runs of a duty", ["duty", "outcome"], registry=to)
        self._duty_took = Histogram("assent_duty_run_seconds", "One run of a duty", ["duty"], registry=to)
        self._duty_ended = Gauge(
            "assent_duty_last_run_timestamp_seconds", "When a run of a duty last ended", ["duty"], registry=to
        )
        self._done = Counter(
            "assent_duty_done_total", "What the runs of a duty did", ["duty", "part"], registry=to
        )
        self._lost = Counter(
            "assent_transactions_lost_total",
            "Transactions that lost against others and ran again",
            registry=to,
        )
        self._refused = Counter(
            "assent_http_refused_total",
            "Sign-ins and commands that were refused, and requests that were too many",
            ["kind", "code"],
            registry=to,
        )
        self._up = Gauge(
            "assent_database_up", "Whether the database answered the last look at its queues", registry=to
        )
        self._pool = Gauge("assent_pool_connections", "Connections to the database", ["state"], registry=to)

    def _watch_streams(self, to: CollectorRegistry) -> None:
        stream = ["transport", "stream"]
        self._messages = Counter(
            "assent_stream_messages_total", "Messages of streams", [*stream, "outcome"], registry=to
        )
        self._lag = Gauge("assent_stream_lag", "Messages of a stream still to be read", stream, registry=to)
        self._stream_up = Gauge(
            "assent_stream_up", "Whether the last attempt to read a stream succeeded", stream, registry=to
        )

    def event(self, event_type: str, outcome: str, latency_s: float) -> None:
        self._events.labels(event_type, outcome).inc()
        self._latency.labels(event_type).observe(max(0.0, latency_s))

    def event_failed(self, event_type: str, status: str) -> None:
        self._events.labels(event_type, status).inc()
        (self._died if status == "dead" else self._retries).labels("events").inc()

    def effect_sent(self, effect_type: str, took_s: float) -> None:
        self._sending.labels(effect_type).observe(took_s)

    def effect(self, effect_type: str, status: str, latency_s: float) -> None:
        self._effects.labels(effect_type, status).inc()
        if status == "done":
            self._effect_latency.labels(effect_type).observe(max(0.0, latency_s))
        else:
            (self._died if status == "dead" else self._retries).labels("effects").inc()

    def task_ran(self, task_type: str, took_s: float) -> None:
        self._task_took.labels(task_type).observe(took_s)

    def task(self, task_type: str, status: str, latency_s: float) -> None:
        self._tasks.labels(task_type, status).inc()
        if status == "done":
            self._task_latency.labels(task_type).observe(max(0.0, latency_s))
        else:
            (self._died if status == "dead" else self._retries).labels("tasks").inc()

    def steps(self, kind: str, status: str, number: int) -> None:
        self._steps.labels(kind, status).inc(number)

    def step_took(self, kind: str, seconds: Sequence[float]) -> None:
        observe = self._step_took.labels(kind).observe
        for each in seconds:
            observe(each)

    def step_waited(self, kind: str, seconds: float) -> None:
        self._waited.labels(kind).observe(max(0.0, seconds))

    def approval(self, outcome: str) -> None:
        self._approvals.labels(outcome).inc()

    def timeout(self, definition: str) -> None:
        self._timeouts.labels(definition).inc()

    def duty(self, name: str, took_s: float, parts: Mapping[str, int], *, failed: bool) -> None:
        self._runs.labels(name, "error" if failed else "done").inc()
        self._duty_took.labels(name).observe(took_s)
        self._duty_ended.labels(name).set_to_current_time()
        for part, number in parts.items():
            self._done.labels(name, part).inc(number)

    def transaction_lost(self) -> None:
        self._lost.inc()

    def refused(self, kind: str, code: str) -> None:
        self._refused.labels(kind, code).inc()

    def stream_messages(self, transport: str, stream: str, outcomes: Mapping[str, int]) -> None:
        for outcome, number in outcomes.items():
            self._messages.labels(transport, stream, outcome).inc(number)

    def stream_lag(self, transport: str, stream: str, number: int) -> None:
        self._lag.labels(transport, stream).set(number)

    def stream_read(self, transport: str, stream: str, *, up: bool) -> None:
        self._stream_up.labels(transport, stream).set(up)

    def queue(  # noqa: PLR0913
        self, name: str, *, pending: int, delayed: int, oldest_s: float, dead: int, processing: int
    ) -> None:
        self._pending.labels(name).set(pending)
        self._processing.labels(name).set(processing)
        self._delayed.labels(name).set(delayed)
        self._oldest.labels(name).set(oldest_s)
        self._dead.labels(name).set(dead)

    def incidents(self, numbers: Mapping[tuple[str, str], int]) -> None:
        self._incidents.clear()
        for (code, definition), number in numbers.items():
            self._incidents.labels(code, definition).set(number)

    def database(self, *, up: bool) -> None:
        self._up.set(up)

    def pool(self, *, used: int, idle: int) -> None:
        self._pool.labels("used").set(used)
        self._pool.labels("idle").set(idle)

    def render(self) -> tuple[bytes, str]:
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
