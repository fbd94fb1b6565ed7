"""A machine whose clock is wrong: first on `PYTHONPATH`, it moves the wall clock of a process by `SKEW_S` seconds.

With `STEP_S` and `STEP_AFTER_S`, the clock steps by so much more after that many seconds. Monotonic clocks stay as they
are, as on a real machine.
"""

import datetime
import os
import time

SKEW_S = float(os.environ.get("SKEW_S", "0"))
STEP_S = float(os.environ.get("STEP_S", "0"))
STEP_AFTER_S = float(os.environ.get("STEP_AFTER_S", "0"))

_real_time, _real_datetime, _began_s = time.time, datetime.datetime, time.monotonic()


def _skew_s() -> float:
    return SKEW_S + (STEP_S if STEP_S and time.monotonic() - _began_s >= STEP_AFTER_S else 0.0)


def _time() -> float:
    return _real_time() + _skew_s()


class _AnyDatetime(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _real_datetime)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, _real_datetime)


class _Datetime(_real_datetime, metaclass=_AnyDatetime):
    """The type of dates and times; whatever it makes is a plain one."""

    __slots__ = ()

    def __new__(cls, *given, **named):
        return _real_datetime(*given, **named)

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return _real_datetime.fromtimestamp(_time(), tz)

    @classmethod
    def utcnow(cls) -> datetime.datetime:
        return _real_datetime.fromtimestamp(_time(), datetime.UTC).replace(tzinfo=None)

    fromisoformat = staticmethod(_real_datetime.fromisoformat)
    fromtimestamp = staticmethod(_real_datetime.fromtimestamp)
    combine = staticmethod(_real_datetime.combine)
    strptime = staticmethod(_real_datetime.strptime)


time.time = _time
time.time_ns = lambda: int(_time() * 1_000_000_000)
datetime.datetime = _Datetime  # type: ignore[misc]
