"""Looking at what was traced and counted."""

from collections.abc import Iterable

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry


def trace_id(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def span_id(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def parent_id(span: ReadableSpan) -> str | None:
    return f"{span.parent.span_id:016x}" if span.parent else None


def traceparent(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"00-{trace_id(span)}-{span_id(span)}-{span.context.trace_flags:02x}"


class Spans:
    """The spans that have ended, oldest first."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    @property
    def all(self) -> list[ReadableSpan]:
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.all]

    def clear(self) -> None:
        self._exporter.clear()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found

    def path(self, span: ReadableSpan) -> list[str]:
        """The names from the root of its trace, as far as this process knows, down to the span."""
        by_id = {span_id(each): each for each in self.all}
        found = [span.name]
        while (above := by_id.get(parent_id(span) or "")) is not None:
            found.insert(0, above.name)
            span = above
        return found

    def attributes(self, name: str) -> dict[str, object]:
        return dict(self.one(name).attributes or {})


class MetricCounts:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def __call__(self, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(name, labels)


def traces(spans: Iterable[ReadableSpan]) -> set[str]:
    return {trace_id(span) for span in spans}
