"""What the `trace_id` columns hold: a W3C traceparent, or any text that a caller brought. Pure."""

import re
from typing import Final

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
    """What people search for: the id inside a traceparent, else the text itself."""
    found = parts_of(trace)
    return found[0] if found else trace
