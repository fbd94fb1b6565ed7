"""The times of a cron line in a time zone, and which of those that have come start a task (pure).

`cronsim` reads the line as Debian's cron does, also where clocks change. A line with a fixed hour and minute has one
time a day: where the clocks skip it, right after; where they repeat it, at the first. A line with `*` in one of the two
follows the clock on the wall, so that `*/15 * * * *` goes on every 15 minutes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal, get_args
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from assent.model.problems import Problem

Missed = Literal["skip", "once", "all"]
"""What is done about times that came while no worker ran: nothing, one task for all of them, or one for each."""
MISSED: Final[tuple[Missed, ...]] = get_args(Missed)

TICKS_MAX: Final = 200
"""How many tasks of one schedule are made in one transaction."""
_RECENT: Final = timedelta(days=2)
"""Where the last of many times is looked for first."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """The times of a schedule that start a task now, and its next time."""

    due: tuple[datetime, ...]
    next_at: datetime


def cron_problems(line: str, zone: str) -> list[Problem]:
    """Return what is wrong with a line of five fields and a time zone."""
    problems = []
    try:
        next(CronSim(line, datetime(2024, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration):  # the second where no year has such a day
        hint = "minute, hour, day, month and weekday, such as `0 9 * * MON-FRI`"
        problems.append(Problem("BAD_CRON", f"`{line}` names no time", ("cron",), hint))
    try:
        zone_of(zone)
    except (KeyError, ValueError, OSError):  # unknown; no name of a zone; a folder of zones
        message = f"the time zone `{zone}` is not known here"
        problems.append(Problem("UNKNOWN_ZONE", message, ("zone",), "such as Europe/Berlin, or UTC"))
    return problems


def zone_of(zone: str) -> tzinfo:
    """Return a time zone by its name; raise `KeyError`, `ValueError` or `OSError` where there is none."""
    return UTC if zone == "UTC" else ZoneInfo(zone)


def ticks_after(line: str, zone: str, after: datetime) -> Iterator[datetime]:
    """Yield the times of a line after a moment, in UTC, one later than the other, for ever.

    Raise `ValueError` where the line has no further one.
    """
    last = after
    for tick in CronSim(line, after.astimezone(zone_of(zone))):
        at = tick.astimezone(UTC)
        # Begun in an hour that the clocks repeat, the first time may be that of the hour before.
        if at > last:
            yield at
            last = at
    raise ValueError(f"expected a time of `{line}` after {last.isoformat()}, found none in 50 years")


def next_tick(line: str, zone: str, after: datetime) -> datetime:
    """Return the first time of a line after a moment."""
    return next(ticks_after(line, zone, after))


def ticks_due(  # noqa: PLR0913, PLR0917
    line: str, zone: str, next_at: datetime, now: datetime, missed: Missed, on_time: timedelta
) -> Ticks:
    """Return which times start a task, of those from `next_at` on that have come.

    A time that came no longer ago than `on_time` is not missed: workers look now and then.
    """
    if missed == "all":
        return _each(line, zone, next_at, now)
    last = _last(line, zone, next_at, now)
    is_wanted = missed == "once" or now - last <= on_time
    return Ticks((last,) if is_wanted else (), next_tick(line, zone, now))


def _each(line: str, zone: str, next_at: datetime, now: datetime) -> Ticks:
    due = [next_at]
    for tick in ticks_after(line, zone, next_at):
        if tick > now or len(due) == TICKS_MAX:
            return Ticks(tuple(due), tick)
        due.append(tick)
    raise AssertionError("the times of a line do not end")


def _last(line: str, zone: str, next_at: datetime, now: datetime) -> datetime:
    """Return the last time that has come, without going through the years of a fleet that was stopped."""
    for begin in (now - _RECENT, next_at):
        last = next_at if begin <= next_at else None
        for tick in ticks_after(line, zone, max(begin, next_at)):
            if tick > now:
                break
            last = tick
        if last is not None:
            return last
    return next_at
