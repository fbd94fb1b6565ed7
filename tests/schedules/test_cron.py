"""The times of cron lines: over changes of the clocks, in many time zones, and which of them start a task."""

import time
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.schedules.cron import MISSED, Missed, cron_problems, next_tick, ticks_after, ticks_due

YEAR = datetime(2026, 1, 1, tzinfo=UTC)
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",  # changes at midnight
    "Australia/Lord_Howe",  # by half an hour
    "Africa/Casablanca",  # back for Ramadan
    "Asia/Kolkata",
    "Pacific/Apia",
    "Antarctica/Troll",  # by two hours
)
LINES = (
    "0 9 * * MON-FRI",
    "*/15 * * * *",
    "30 2 * * *",
    "0 * * * *",
    "0 0 1 * *",
    "0 0 * * *",
    "15 1,2,3 * * *",
    "* * * * *",
    "0 12 29 2 *",
    "10 2 * * SUN#1",
    "45 23 L * *",
)
MINUTE = timedelta(minutes=1)

moments = st.integers(0, 60 * 24 * 365 * 2).map(lambda minutes: YEAR + minutes * MINUTE)
seconds = st.integers(0, 59).map(lambda count: timedelta(seconds=count, microseconds=count * 7))


def times(line: str, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    return list(takewhile(lambda at: at <= end, ticks_after(line, zone, begin)))


@pytest.mark.parametrize("zone", ZONES)
def test_line_with_an_hour_and_a_minute_has_one_time_on_each_date(zone: str) -> None:
    """At every hour of the day, and so also at the hours that a change of the clocks skips or repeats."""
    for hour in range(24):
        found = times(f"30 {hour} * * *", zone, YEAR - timedelta(days=2), YEAR + timedelta(days=367))
        days = Counter(at.astimezone(ZoneInfo(zone)).date() for at in found)
        wanted = [date(2026, 1, 1) + timedelta(days=count) for count in range(365)]
        assert [day for day in wanted if days[day] != 1] == [], hour


@pytest.mark.parametrize(
    ("line", "begin", "wanted"),
    [
        # In Berlin the clocks go from 2:00 to 3:00 on 29 March: right after, as 2:30 is not there.
        ("30 2 * * *", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:30"]),
        # On 25 October they go from 3:00 to 2:00: the first 2:30, and not the second.
        ("30 2 * * *", "2026-10-24T12:00", ["2026-10-25T00:30", "2026-10-26T01:30"]),
        # Begun between the two, the next one is of the next day, and none of the hour that was.
        ("30 2 * * *", "2026-10-25T01:10", ["2026-10-26T01:30"]),
        ("0 9 * * *", "2026-03-28T00:00", ["2026-03-28T08:00", "2026-03-29T07:00"]),
        ("0 9 * * *", "2026-10-24T00:00", ["2026-10-24T07:00", "2026-10-25T08:00"]),
        # What goes on by the hour goes on by the hour.
        ("30 * * * *", "2026-03-29T00:00", ["2026-03-29T00:30", "2026-03-29T01:30"]),
        ("30 * * * *", "2026-10-25T00:00", ["2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T02:30"]),
    ],
)
def test_times_over_changes_of_the_clocks_in_berlin(line: str, begin: str, wanted: list[str]) -> None:
    found = islice(ticks_after(line, "Europe/Berlin", datetime.fromisoformat(f"{begin}Z")), len(wanted))
    assert [f"{at:%Y-%m-%dT%H:%M}" for at in found] == wanted


@pytest.mark.parametrize("zone", ZONES)
def test_line_of_every_quarter_of_an_hour_goes_on_every_15_minutes(zone: str) -> None:
    found = times("*/15 * * * *", zone, YEAR, YEAR + timedelta(days=366))
    assert {after - before for before, after in pairwise(found)} == {timedelta(minutes=15)}


@settings(deadline=None)
@given(st.sampled_from(LINES), st.sampled_from(ZONES), moments, seconds)
def test_times_are_later_than_their_beginning_and_than_each_other(
    line: str, zone: str, begin: datetime, more: timedelta
) -> None:
    found = [begin + more, *islice(ticks_after(line, zone, begin + more), 6)]
    assert all(before < after for before, after in pairwise(found))


@settings(deadline=None)
@given(
    st.sampled_from(LINES),
    st.sampled_from(ZONES),
    st.sampled_from(MISSED),
    moments,
    st.one_of(st.integers(0, 200), st.integers(0, 60 * 24 * 40)),
    seconds,
)
def test_what_is_due_is_what_a_list_of_all_times_says(  # noqa: PLR0913, PLR0917
    line: str, zone: str, missed: Missed, begin: datetime, minutes: int, more: timedelta
) -> None:
    """However long the workers were stopped; and what is left by one run is due in the next."""
    next_at = next_tick(line, zone, begin)
    now = next_at + minutes * MINUTE + more
    past = [next_at, *times(line, zone, next_at, now)]
    due: list[datetime] = []
    on_time = timedelta(minutes=1)
    while next_at <= now:
        ticks = ticks_due(line, zone, next_at, now, missed, on_time)
        due += ticks.due
        assert ticks.next_at > next_at
        next_at = ticks.next_at
        if len(due) >= 1000:
            past = past[: len(due)]
            break
    wanted: dict[Missed, list[datetime]] = {
        "all": past,
        "once": past[-1:],
        "skip": [at for at in past[-1:] if now - at <= on_time],
    }
    assert due == wanted[missed]


def test_years_of_a_stopped_fleet_are_not_gone_through() -> None:
    """The last of five million minutes is found among those of two days; all of them take a minute."""
    began_s = time.process_time()
    ticks = ticks_due("* * * * *", "Europe/Berlin", YEAR, YEAR + timedelta(days=3650), "once", MINUTE)
    assert ticks.due == (YEAR + timedelta(days=3650),)
    assert time.process_time() - began_s < 5


@pytest.mark.parametrize(
    ("line", "zone", "codes"),
    [
        ("0 9 * * MON-FRI", "Europe/Berlin", []),
        ("0 25 * * *", "UTC", ["BAD_CRON"]),
        ("0 0 30 2 *", "UTC", ["BAD_CRON"]),
        ("0 0 * * MON-NEVER", "UTC", ["BAD_CRON"]),
        ("0 9 * * *", "Europe/Berln", ["UNKNOWN_ZONE"]),
        ("0 9 * * *", "Europe", ["UNKNOWN_ZONE"]),
        ("0 9 * * *", "../passwd", ["UNKNOWN_ZONE"]),
        ("x 9 * * *", "", ["BAD_CRON", "UNKNOWN_ZONE"]),
    ],
)
def test_line_that_names_no_time_is_refused(line: str, zone: str, codes: list[str]) -> None:
    assert [problem.code for problem in cron_problems(line, zone)] == codes
