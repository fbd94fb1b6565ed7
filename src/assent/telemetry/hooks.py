"""The switchboard: who looks, if anybody. The rooms know these protocols and never what is behind them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Literal, Protocol

SpanKind = Literal["internal", "server", "client", "producer", "consumer"]


class Span(Protocol):
    """A span. Attributes have short names, and are exported under `assent.`."""

    @property
    def trace(self) -> str:
        """Its traceparent: what goes into the outbox, so that others can go on from here."""

    @property
    def is_sampled(self) -> bool: ...

    def note(self, **attributes: Any) -> None: ...

    def fail(self, error: BaseException) -> None: ...

    def end(self) -> None:
        """End the span; a span that is not ended is never sent."""


class Tracer(Protocol):
    def start(
        self,
        name: str,
        *,
        parent: str | None = None,
        kind: SpanKind = "internal",
        links: Sequence[str] = (),
        attributes: Mapping[str, Any] | None = None,
    ) -> Span:
        """Return a span below `parent`, a traceparent from wherever; without one it begins a trace."""

    def current(self) -> str | None:
        """Return the traceparent of the span that is open around here, also by others' instrumentation."""

    def inside(self, trace: str) -> AbstractContextManager[None]:
        """Spans of others' instrumentation that are opened inside belong to this trace."""


class Metrics(Protocol):
    """What is counted and timed in this process. Times are in seconds."""

    def event(self, event_type: str, outcome: str, latency_s: float) -> None: ...

    def event_failed(self, event_type: str, status: str) -> None: ...

    def effect_sent(self, effect_type: str, took_s: float) -> None: ...

    def effect(self, effect_type: str, status: str, latency_s: float) -> None: ...

    def task_ran(self, task_type: str, took_s: float) -> None: ...

    def task(self, task_type: str, status: str, latency_s: float) -> None: ...

    def steps(self, kind: str, status: str, number: int) -> None: ...

    def step_took(self, kind: str, seconds: Sequence[float]) -> None: ...

    def step_waited(self, kind: str, seconds: float) -> None: ...

    def approval(self, outcome: str) -> None: ...

    def timeout(self, definition: str) -> None:
        """Note that the time of a whole workflow was over."""

    def duty(self, name: str, took_s: float, parts: Mapping[str, int], *, failed: bool) -> None: ...

    def transaction_lost(self) -> None: ...

    def refused(self, kind: str, code: str) -> None:
        """Note a refused sign-in or command, or a request of which there were too many."""

    def stream_messages(self, transport: str, stream: str, outcomes: Mapping[str, int]) -> None: ...

    def stream_lag(self, transport: str, stream: str, number: int) -> None: ...

    def stream_read(self, transport: str, stream: str, *, up: bool) -> None:
        """Note whether the last attempt to read a stream succeeded."""

    def queue(  # noqa: PLR0913
        self, name: str, *, pending: int, delayed: int, oldest_s: float, dead: int, processing: int
    ) -> None: ...

    def incidents(self, numbers: Mapping[tuple[str, str], int]) -> None:
        """Take the numbers of paused instances, by code and definition, in place of those before."""

    def database(self, *, up: bool) -> None: ...

    def pool(self, *, used: int, idle: int) -> None: ...

    def render(self) -> tuple[bytes, str]:
        """Return the page for Prometheus, and its content type."""


ReportError = Callable[[BaseException, Mapping[str, str]], None]


class TelemetryHooks:
    """What is turned on in this process."""

    __slots__ = ("errors", "metrics", "tracer")

    def __init__(self) -> None:
        self.tracer: Tracer | None = None
        self.metrics: Metrics | None = None
        self.errors: ReportError | None = None

    def report(self, error: BaseException, **tags: str) -> None:
        """Report an unexpected error to the collector of errors, if there is one."""
        if self.errors is not None:
            self.errors(error, tags)


hooks: Final = TelemetryHooks()
"""The one of this process."""
