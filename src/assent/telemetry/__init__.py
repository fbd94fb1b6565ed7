"""The telescope: traces over processes, metrics, errors for Sentry, and what every log line should say.

The rooms ask `telescope` whether anybody looks; when nobody does, that question is all they pay. OpenTelemetry,
prometheus-client and sentry-sdk are extras, and imported by whoever turns them on (`assent.telemetry.configure`) only.
"""

from assent.telemetry.scope import current_trace, log_fields, scope
from assent.telemetry.spans import span
from assent.telemetry.telescope import Metrics, Span, SpanKind, Telescope, Tracer, telescope
from assent.telemetry.traceparent import is_sampled, is_traceparent, trace_id_of

__all__ = [
    "Metrics",
    "Span",
    "SpanKind",
    "Telescope",
    "Tracer",
    "current_trace",
    "is_sampled",
    "is_traceparent",
    "log_fields",
    "scope",
    "span",
    "telescope",
    "trace_id_of",
]
