"""What is known of where we are: org, instance and trace, for log lines and for whatever is begun from here."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from assent.telemetry.telescope import telescope
from assent.telemetry.traceparent import parts_of


@dataclass(frozen=True, slots=True)
class Scope:
    org_id: str | None = None
    instance_id: UUID | None = None
    trace: str | None = None


_NOWHERE: Final = Scope()
_here: Final[ContextVar[Scope]] = ContextVar("assent_scope", default=_NOWHERE)


@contextmanager
def scope(
    *, org_id: str | None = None, instance_id: UUID | None = None, trace: str | None = None
) -> Iterator[None]:
    """Inside, this is known; what is not said stays as it was outside."""
    outer = _here.get()
    inner = Scope(org_id or outer.org_id, instance_id or outer.instance_id, trace or outer.trace)
    token = _here.set(inner)
    try:
        with _inside(trace):
            yield
    finally:
        _here.reset(token)


def _inside(trace: str | None) -> AbstractContextManager[None]:
    tracer = telescope.tracer
    return tracer.inside(trace) if tracer is not None and trace is not None else nullcontext()


def current_trace() -> str | None:
    """The trace that we are in, if any: what somebody carried here, or the span that is open around us."""
    tracer = telescope.tracer
    if tracer is not None and (found := tracer.current()) is not None:
        return found
    return _here.get().trace


def log_fields() -> dict[str, str]:
    """What a log line says of where it was written; only what is known."""
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
