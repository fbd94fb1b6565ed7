"""Traces by OpenTelemetry. Imported when tracing is turned on, and never before."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import trace as otel
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, StatusCode, TraceFlags

from assent.telemetry.hooks import SpanKind
from assent.telemetry.spans import parts_of

_KINDS: Final[Mapping[SpanKind, otel.SpanKind]] = {
    "internal": otel.SpanKind.INTERNAL,
    "server": otel.SpanKind.SERVER,
    "client": otel.SpanKind.CLIENT,
    "producer": otel.SpanKind.PRODUCER,
    "consumer": otel.SpanKind.CONSUMER,
}


class OtelSpan:
    __slots__ = ("_span", "is_sampled", "trace")

    def __init__(self, span: otel.Span) -> None:
        self._span = span
        context = span.get_span_context()
        self.is_sampled = context.trace_flags.sampled
        self.trace = _traceparent(context)

    def note(self, **attributes: Any) -> None:
        self._span.set_attributes(_attributes(attributes))

    def fail(self, error: BaseException) -> None:
        """Say what kind of error it was, and not its words: they may hold what people wrote."""
        self._span.set_attribute("error.type", type(error).__qualname__)
        self._span.set_status(StatusCode.ERROR)

    def end(self) -> None:
        self._span.end()


class OtelTracer:
    def __init__(self, provider: otel.TracerProvider | None = None) -> None:
        self._tracer = otel.get_tracer("assent", tracer_provider=provider)

    def start(
        self,
        name: str,
        *,
        parent: str | None = None,
        kind: SpanKind = "internal",
        links: Sequence[str] = (),
        attributes: Mapping[str, Any] | None = None,
    ) -> OtelSpan:
        # An empty context and not the one around here: what has no parent begins a trace of its own.
        above = _span_context(parent)
        below = (
            otel.set_span_in_context(NonRecordingSpan(above), contexts.Context())
            if above
            else contexts.Context()
        )
        linked = [Link(context) for link in links if (context := _span_context(link)) is not None]
        values = _attributes(attributes or {})
        return OtelSpan(self._tracer.start_span(name, below, _KINDS[kind], values, linked))

    def current(self) -> str | None:
        context = otel.get_current_span().get_span_context()
        return _traceparent(context) if context.is_valid else None

    @contextmanager
    def inside(self, trace: str) -> Iterator[None]:
        found = _span_context(trace)
        if found is None:
            yield
            return
        token = contexts.attach(otel.set_span_in_context(NonRecordingSpan(found)))
        try:
            yield
        finally:
            contexts.detach(token)


def _traceparent(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _span_context(trace: str | None) -> SpanContext | None:
    parts = parts_of(trace)
    if parts is None:
        return None
    trace_id, span_id, flags = parts
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(flags))


def _attributes(given: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    return {f"assent.{name}": _plain(value) for name, value in given.items() if value is not None}


def _plain(value: Any) -> str | int | float | bool:
    return value if isinstance(value, str | int | float | bool) else str(value)
