"""A span around a block of code."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from assent.model.mutation import Refused
from assent.telemetry.hooks import Span, SpanKind, hooks
from assent.telemetry.scope import current_trace, scope


@contextmanager
def span(
    name: str,
    *,
    parent: str | None = None,
    kind: SpanKind = "internal",
    attributes: Mapping[str, Any] | None = None,
) -> Iterator[Span | None]:
    """Inside, `current_trace` is the span's; its parent is the one given, else whatever is open around here.

    If tracing is off there is no span, and a trace that was passed in is passed on as it is. What is raised
    inside fails the span, except a refusal: that is an answer.
    """
    tracer = hooks.tracer
    if tracer is None:
        with scope(trace=parent):
            yield None
        return
    opened = tracer.start(name, parent=parent or current_trace(), kind=kind, attributes=attributes)
    try:
        with scope(trace=opened.trace):
            yield opened
    except Refused as refusal:
        opened.note(rejection=refusal.code)
        raise
    except BaseException as error:
        opened.fail(error)
        raise
    finally:
        opened.end()
