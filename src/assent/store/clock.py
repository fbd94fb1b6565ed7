"""The two clocks: the machine's, and one that stands still until it is moved."""

from datetime import UTC, datetime, timedelta
from typing import Final

from assent.model.clock import Clock
from assent.model.duration import parse_duration
from assent.model.problems import Invalid, Problem


class SystemClock:
    """The machine's clock; SQL then asks the server's own."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class MovedClock:
    """A clock that stands still until somebody moves it, forwards only; SQL is told what it says."""

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise ValueError(f"A clock needs a time with a zone, found {start.isoformat()}; add tzinfo=UTC.")
        self._now = start.astimezone(UTC)

    def now(self) -> datetime:
        return self._now

    def advance(self, length: str | timedelta) -> datetime:
        """Move forwards by a duration (`90s 15m 24h 3d`) or a timedelta; returns the new time."""
        step = length if isinstance(length, timedelta) else parse_duration(length)
        if isinstance(step, Problem):
            raise Invalid([step])
        return self.move_to(self._now + step)

    def move_to(self, moment: datetime) -> datetime:
        """Move forwards to `moment`; returns it."""
        if moment < self._now:
            raise ValueError(f"A clock only moves forwards: it says {self._now}, {moment} is earlier.")
        self._now = moment.astimezone(UTC)
        return self._now


SYSTEM_CLOCK: Final = SystemClock()


def time_for_sql(clock: Clock) -> str:
    """What `assent.now` is set to: empty for the machine's clock, since SQL then asks the server's own."""
    return "" if isinstance(clock, SystemClock) else clock.now().isoformat()
