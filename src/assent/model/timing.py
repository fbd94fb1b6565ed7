"""Time: the clock that is passed in, lengths as authors write them (`90s`, `15m`, `24h`, `3d`), waits before a retry.

Time is an argument. A wait before a retry is longer each time, and never quite the same.
"""

import random
import re
from datetime import datetime, timedelta
from typing import Final, Protocol

from assent.model.parse import shown
from assent.model.problems import Invalid, Problem


class Clock(Protocol):
    """Tells the time, always with a time zone."""

    def now(self) -> datetime: ...


DURATION_MAX: Final = timedelta(days=3650)
"""Ten years; whatever is longer was typed by mistake, or leaves the range of a timestamp."""

_PATTERN: Final = re.compile(r"([0-9]{1,12})([smhd])")
_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


def parse_duration(value: object) -> timedelta | Problem:
    """Return the length of time that `value` says, or what is wrong with it."""
    match = _PATTERN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return _bad_duration(
            f"{shown(value)} is not a duration: a whole number and one of s, m, h, d was expected",
            "write it as `90s`, `15m`, `24h` or `3d`",
        )
    length = _length(int(match[1]), match[2])
    if length is None:
        return _bad_duration(f"{shown(value)} is out of range: 1s to {DURATION_MAX.days}d was expected")
    return length


def require_duration(value: str | timedelta) -> timedelta:
    """Return the length of time that a program gives, in either form; raise `Invalid`."""
    found = value if isinstance(value, timedelta) else parse_duration(value)
    if isinstance(found, Problem):
        raise Invalid([found])
    if not timedelta() < found <= DURATION_MAX:
        raise Invalid(
            [
                _bad_duration(
                    f"{found} is out of range: more than nothing to {DURATION_MAX.days}d was expected"
                )
            ]
        )
    return found


def _length(count: int, unit: str) -> timedelta | None:
    # Compared as numbers first: timedelta itself overflows long before twelve digits of days.
    if 0 < count <= DURATION_MAX // _UNITS[unit]:
        return count * _UNITS[unit]
    return None


def _bad_duration(message: str, hint: str | None = None) -> Problem:
    return Problem(code="BAD_DURATION", message=message, hint=hint)


JITTER: Final = 0.2


def backoff(attempts: int, shortest: timedelta, longest: timedelta, factor: int = 2) -> timedelta:
    """Return how long to wait after so many attempts, before jitter."""
    return min(longest, shortest * float(factor ** min(attempts - 1, 20)))


def jittered(length: timedelta) -> timedelta:
    """Return a delay changed at random, so that what failed together is not tried again together."""
    return length * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - jitter is no secret
