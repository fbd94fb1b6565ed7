"""Turning the hooks on: by calls, or by the environment variables that OpenTelemetry and Sentry define."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from assent.telemetry.hooks import hooks

# ruff: noqa: PLC0415 - what is not turned on is not imported

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORTERS: Final = ("otlp", "console", "none")


class NotConfigured(Exception):
    """Something was turned on that cannot be; the message says what to do."""


def use_tracing(provider: "TracerProvider | None" = None) -> None:
    """Trace by an application's own OpenTelemetry: the provider given, else the global one."""
    with _extra("telemetry"):
        from assent.telemetry.otel import OtelTracer

        hooks.tracer = OtelTracer(provider)


def use_metrics(registry: "CollectorRegistry | None" = None) -> None:
    """Count, in a registry of our own or in an application's; once it is on, it stays."""
    if hooks.metrics is None:
        with _extra("telemetry"):
            from assent.telemetry.prometheus import PrometheusMetrics

            hooks.metrics = PrometheusMetrics(registry)


def stop_looking() -> None:
    """Turn everything off."""
    hooks.tracer = hooks.metrics = hooks.errors = None


@contextmanager
def configured(environment: Mapping[str, str] | None = None) -> Iterator[None]:
    """Inside, this process traces and reports errors where its environment says so; what is left is sent at the end."""
    given = os.environ if environment is None else environment
    with ExitStack() as stack:
        if close := _trace_by(given):
            stack.callback(close)
        if close := _report_by(given):
            stack.callback(close)
        stack.callback(stop_looking)
        yield


def _trace_by(given: Mapping[str, str]) -> Callable[[], None] | None:
    exporter = given.get("OTEL_TRACES_EXPORTER") or ("otlp" if any(map(given.get, ENDPOINTS)) else "none")
    if exporter not in EXPORTERS:
        raise NotConfigured(
            f"OTEL_TRACES_EXPORTER: expected one of {', '.join(EXPORTERS)}, found {exporter!r}"
        )
    if exporter == "none" or given.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    with _extra("telemetry"):
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        # What the environment says of the resource goes before this, also the name.
        named = {} if "OTEL_SERVICE_NAME" in given else {"service.name": "assent"}
        provider = TracerProvider(resource=Resource.create(named))
        provider.add_span_processor(BatchSpanProcessor(_exporter(exporter)))
    use_tracing(provider)
    return provider.shutdown


def _exporter(name: str) -> Any:
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _report_by(given: Mapping[str, str]) -> Callable[[], None] | None:
    dsn = given.get("SENTRY_DSN")
    if not dsn:
        return None
    with _extra("sentry"):
        from assent.telemetry.sentry import Sentry

        messages = given.get("ASSENT_SENTRY_MESSAGES", "").lower() in ("1", "true", "yes")
        try:
            sentry = Sentry(dsn, messages=messages, environment=given.get("SENTRY_ENVIRONMENT"))
        except ValueError as error:
            raise NotConfigured(f"SENTRY_DSN: {error}") from error
    hooks.errors = sentry
    return sentry.close


@contextmanager
def _extra(name: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise NotConfigured(f"{error.name} is not installed: pip install 'assent[{name}]'") from error
