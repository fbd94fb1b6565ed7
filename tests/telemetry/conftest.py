"""A hooks that is turned on for a test, and off again after it."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from assent.app import App
from assent.telemetry.configure import stop_looking, use_metrics, use_tracing
from tests.telemetry.application import app as orders_app
from tests.telemetry.seen import MetricCounts, Spans


@pytest.fixture(autouse=True)
def _nobody_looks() -> Iterator[None]:
    stop_looking()
    yield
    stop_looking()


@pytest.fixture
def spans() -> Spans:
    """What this process has traced, all of it sampled."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    use_tracing(provider)
    return Spans(exporter)


@pytest.fixture
def counted() -> MetricCounts:
    """What this process has counted."""
    registry = CollectorRegistry()
    use_metrics(registry)
    return MetricCounts(registry)


@pytest.fixture
def app() -> App:
    return orders_app
