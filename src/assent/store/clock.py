"""The clocks: the database's, as far as a process knows it, and one that stands still until it is moved.

What is due, leased or expired is decided by the database's clock. SQL asks `assent.now()`; a process that needs the
time without asking reads it from `SYSTEM_CLOCK`, which knows what the server said last and adds what a monotonic clock
has measured since. The clock of the process's machine decides nothing: it may be wrong, and it may be set back.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from assent.model.problems import Invalid, Problem
from assent.model.timing import Clock, parse_duration
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.store", "store.sql")

READING_MAX_AGE_S: Final = 5.0
"""How old the last word of the server may be: a machine that was suspended measured nothing meanwhile."""


class _Asked(Protocol):
    async def fetchval(self, query: str) -> datetime: ...


class DatabaseClock:
    """The server's clock, as it was read last and has gone on since; SQL asks the server itself.

    Before a server was read it is the machine's. Servers of one process are taken to agree; what has to be exact asks
    the transaction (`transaction_time`).
    """

    def __init__(self) -> None:
        self._read: datetime | None = None
        self._read_at_s = 0.0

    def now(self) -> datetime:
        if self._read is None:
            return datetime.now(UTC)
        return self._read + timedelta(seconds=time.monotonic() - self._read_at_s)

    @property
    def is_stale(self) -> bool:
        return self._read is None or time.monotonic() - self._read_at_s >= READING_MAX_AGE_S

    def set(self, server_time: datetime) -> None:
        """Take the server's word, which has just come: the clock is late by the time that it took, and never ahead."""
        self._read, self._read_at_s = server_time.astimezone(UTC), time.monotonic()


class MovedClock:
    """A clock that stands still until a test moves it, forwards only; transactions use its time."""

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


SYSTEM_CLOCK: Final = DatabaseClock()


async def transaction_time(connection: _Asked) -> datetime:
    """Return `assent.now()`, the time of this transaction: the database's, or the one that a test has set."""
    return await connection.fetchval(_SQL.read_time)


def time_for_sql(clock: Clock) -> str:
    """Return what `assent.now` is set to: empty for the database's own clock."""
    return "" if isinstance(clock, DatabaseClock) else clock.now().isoformat()
