"""Spans, and what is known of where we are: org, instance and trace, for log lines and for whatever is begun from here.

The `trace_id` columns hold a W3C traceparent, or any text that a caller brought.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from assent.model.mutation import Refused
from assent.telemetry.hooks import Span, SpanKind, hooks

_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?P<trace>(?!0{32})[0-9a-f]{32})-(?P<span>(?!0{16})[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(-.*)?"
)


def parts_of(trace: str | None) -> tuple[str, str, int] | None:
    """Trace id, span id and flags of a traceparent; none of any other text."""
    found = _TRACEPARENT.fullmatch(trace) if trace else None
    return (found["trace"], found["span"], int(found["flags"], 16)) if found else None


def is_traceparent(trace: str | None) -> bool:
    return parts_of(trace) is not None


def is_sampled(trace: str | None) -> bool:
    """Return whether the trace is sampled."""
    found = parts_of(trace)
    return found is not None and bool(found[2] & 1)


def trace_id_of(trace: str) -> str:
    """Return what people search for: the id inside a traceparent, else the text itself."""
    found = parts_of(trace)
    return found[0] if found else trace


@dataclass(frozen=True, slots=True)
class LogScope:
    org_id: str | None = None
    instance_id: UUID | None = None
    trace: str | None = None


_NOWHERE: Final = LogScope()
_here: Final[ContextVar[LogScope]] = ContextVar("assent_scope", default=_NOWHERE)


class scope:  # small, for it is used like a function; and no generator, for every mutation enters one
    """Inside, this is known; what is not said stays as it was outside: `with scope(org_id="acme"):`."""

    __slots__ = ("_inside", "_said", "_token")

    def __init__(
        self, *, org_id: str | None = None, instance_id: UUID | None = None, trace: str | None = None
    ) -> None:
        self._said = LogScope(org_id, instance_id, trace)

    def __enter__(self) -> None:
        said, outer, tracer = self._said, _here.get(), hooks.tracer
        inner = LogScope(
            said.org_id or outer.org_id, said.instance_id or outer.instance_id, said.trace or outer.trace
        )
        self._token = _here.set(inner)
        self._inside = tracer.inside(said.trace) if tracer is not None and said.trace is not None else None
        if self._inside is not None:
            self._inside.__enter__()

    def __exit__(self, *raised: Any) -> None:
        if self._inside is not None:
            self._inside.__exit__(*raised)
        _here.reset(self._token)


def current_trace() -> str | None:
    """Return the current trace, if any: the one that was passed in, or the span that is open."""
    tracer = hooks.tracer
    if tracer is not None and (found := tracer.current()) is not None:
        return found
    return _here.get().trace


def log_fields() -> dict[str, str]:
    """Return what a log line says of where it was written; only what is known."""
    here, trace = _here.get(), current_trace()
    found: dict[str, str] = {}
    if here.org_id is not None:
        found["org_id"] = here.org_id
    if here.instance_id is not None:
        found["instance_id"] = str(here.instance_id)
    if trace is not None:
        found |= _trace_fields(trace)
    return found


def _trace_fields(trace: str) -> dict[str, str]:
    parts = parts_of(trace)
    return {"trace_id": parts[0], "span_id": parts[1]} if parts else {"trace_id": trace}


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
