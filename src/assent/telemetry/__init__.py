"""The hooks: traces over processes, metrics, errors for Sentry, and what every log line should say.

The packages ask `hooks` whether telemetry is on; if it is off, that question is the whole cost. OpenTelemetry,
prometheus-client and sentry-sdk are extras, and imported only when they are turned on (`assent.telemetry.configure`).
"""

from assent.telemetry.hooks import Metrics, Span, SpanKind, TelemetryHooks, Tracer, hooks
from assent.telemetry.spans import (
    current_trace,
    is_sampled,
    is_traceparent,
    log_fields,
    scope,
    span,
    trace_id_of,
)

__all__ = [
    "Metrics",
    "Span",
    "SpanKind",
    "TelemetryHooks",
    "Tracer",
    "current_trace",
    "hooks",
    "is_sampled",
    "is_traceparent",
    "log_fields",
    "scope",
    "span",
    "trace_id_of",
]
