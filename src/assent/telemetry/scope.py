"""What is known of where we are: org, instance and trace, for log lines and for whatever is begun from here."""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from assent.telemetry.hooks import hooks
from assent.telemetry.traceparent import parts_of


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
