"""Time is an argument: whoever needs to know what time it is asks a clock that was handed in."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time, always with a time zone."""

    def now(self) -> datetime: ...
