"""Time that passes without anybody waiting for it: from one moment at which something is due to the next."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from assent.model.parse import shown
from assent.model.problems import Invalid, Problem
from assent.model.timing import parse_duration
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.store.queries import load_queries
from assent.worker.duty import Duty
from assent.worker.tasks import THROTTLED, Tasks

_SQL: Final = load_queries("assent.testing", "testing.sql")

ROUNDS_MAX: Final = 1_000
"""How often every duty is asked for more before the test fails because this never ends."""

_WORDS: Final = re.compile(r"([0-9]+) ?(second|minute|hour|day|week)s?")
_UNITS: Final = {"second": "s", "minute": "m", "hour": "h", "day": "d"}


class NeverIdle(Exception):
    """There is always something due: the duties make work for each other."""


def read_length(value: object) -> timedelta | Problem:
    """Return a length of time as the files of authors have it (`90s 15m 24h 3d`), or in words: `3 days`, `2 weeks`."""
    words = _WORDS.fullmatch(value.strip()) if isinstance(value, str) else None
    if words is None:
        return parse_duration(value)
    number, unit = words.groups()
    if unit == "week":
        return parse_duration(f"{int(number) * 7}d")
    return parse_duration(f"{number}{_UNITS[unit]}")


def length_of(value: str | timedelta) -> timedelta:
    """Return a length of time that is written; raise `Invalid` for what is none."""
    found = value if isinstance(value, timedelta) else read_length(value)
    if isinstance(found, Problem):
        raise Invalid([found])
    if found < timedelta():
        raise ValueError(f"time only passes forwards, found {shown(value)}")
    return found


async def drain(duties: Sequence[Duty]) -> int:
    """Run every duty, one after the other, until a whole round finds nothing due; answers how much was done."""
    total = 0
    for _ in range(ROUNDS_MAX):
        for duty in duties:
            if isinstance(duty, Tasks):
                duty.hear({THROTTLED})  # there is no listener here that hears of a submission
        done = [await duty.run_once() for duty in duties]
        total += sum(one.count for one in done)
        if not any(one.count or one.more for one in done):
            return total
    raise NeverIdle(
        f"after {ROUNDS_MAX:,} rounds there is still something due; look for a flow that never rests"
    )


async def pass_time(database: Database, clock: MovedClock, duties: Sequence[Duty], until: datetime) -> None:
    """Move the clock to each moment at which something is due, in their order, and let it be done there."""
    await drain(duties)
    while (moment := await _next_moment(database, until)) is not None:
        clock.move_to(moment)
        await drain(duties)
    clock.move_to(until)
    await drain(duties)


async def _next_moment(database: Database, until: datetime) -> datetime | None:
    async with database.transaction(None) as connection:
        found: datetime | None = await connection.fetchval(_SQL.find_next_moment, until)
        return found
