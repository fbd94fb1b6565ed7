"""Clocks: time is an argument, read from a clock that was passed in."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time, always with a time zone."""

    def now(self) -> datetime: ...
