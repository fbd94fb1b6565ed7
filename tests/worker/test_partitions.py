"""Partitions: over the turn of many months, with the worker running or away, every row finds its month."""

from datetime import UTC, datetime, timedelta

import pytest

from assent.worker.duty import RunResult
from assent.worker.upkeep import Partitions
from tests.rows import insert_event, insert_step
from tests.workers import with_options
from tests.world import fetch

PLACES = """
SELECT DISTINCT tableoid::regclass::text AS place FROM assent.workflow_step_executions
UNION SELECT DISTINCT tableoid::regclass::text FROM assent.workflow_events_outbox
"""


async def insert_everywhere(database):
    async with database.transaction(None) as connection:
        for insert_row in (insert_step, insert_event):
            await insert_row(connection)


async def suffixes(database) -> set[str]:
    return {
        row["place"].partition("outbox_")[2] or row["place"][-7:] for row in await fetch(database, PLACES)
    }


async def test_nothing_is_made_twice(place):
    assert await Partitions(place).run_once() == RunResult(0)


@pytest.mark.without_twin("the rows of all orgs are in the partitions")
async def test_each_turn_of_the_month_finds_its_partition_ready(place, database, clock):
    duty = Partitions(place)
    for month in range(4, 13):
        clock.move_to(datetime(2026, month, 1, tzinfo=UTC) - timedelta(microseconds=1))
        assert await duty.run_once() == RunResult(2 if month > 4 else 0)
        clock.move_to(datetime(2026, month, 1, tzinfo=UTC))
        await insert_everywhere(database)
    assert await suffixes(database) == {f"2026_{month:02}" for month in range(4, 13)}


async def test_worker_that_was_away_for_a_year_puts_the_rows_of_that_year_right(place, database, clock):
    for _ in range(12):
        clock.advance("31d")
        await insert_everywhere(database)
    assert "default" in await suffixes(database)
    assert (await Partitions(place).run_once()).count > 12
    assert "default" not in await suffixes(database)


async def test_how_far_ahead_is_an_option(place):
    assert await Partitions(with_options(place, partitions_months_ahead=5)).run_once() == RunResult(4)
