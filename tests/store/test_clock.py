"""The clock that tests move, and what SQL sees of it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from assent.model.problems import Invalid
from assent.store.clock import SYSTEM_CLOCK, MovedClock
from assent.store.database import Database
from assent.store.migrate import migrate
from assent.store.moved_time import moved_time
from tests.plain_sql import PRIVILEGE, refused
from tests.postgres import SETTINGS, START


def test_a_moved_clock_stands_still_until_it_is_moved():
    clock = MovedClock(START)
    assert clock.now() == clock.now() == START
    assert clock.advance("3d") == clock.now() == START + timedelta(days=3)
    assert clock.advance(timedelta(microseconds=1)) == START + timedelta(days=3, microseconds=1)


def test_a_moved_clock_speaks_utc():
    clock = MovedClock(datetime(2026, 3, 2, 10, 0, tzinfo=timezone(timedelta(hours=1))))
    assert clock.now().isoformat() == "2026-03-02T09:00:00+00:00"


def test_a_clock_without_a_zone_is_refused():
    with pytest.raises(ValueError, match="add tzinfo=UTC"):
        MovedClock(datetime(2026, 3, 2))  # noqa: DTZ001


def test_a_clock_never_goes_back():
    with pytest.raises(ValueError, match="only moves forwards"):
        MovedClock(START).move_to(START - timedelta(seconds=1))
    with pytest.raises(Invalid, match="BAD_DURATION"):
        MovedClock(START).advance("soon")


async def test_sql_tells_the_time_of_the_clock_in_both_kinds_of_transaction(database, clock):
    clock.advance("40d")
    for org_id in ("acme", None):
        async with database.transaction(org_id) as connection:
            assert await connection.fetchval("select assent.now()") == START + timedelta(days=40)


async def test_with_the_machines_clock_sql_asks_the_server(database_url):
    database = await Database.open(database_url, clock=SYSTEM_CLOCK)
    async with database.transaction("acme") as connection:
        of_sql, of_server = await connection.fetchrow("select assent.now(), now()")
    await database.close()
    assert of_sql == of_server
    assert abs(datetime.now(UTC) - of_sql) < timedelta(minutes=1)


@pytest.fixture
async def production(empty_database_url):
    """A database that was migrated as production's are: on the machine's clock."""
    await migrate(empty_database_url)
    return empty_database_url


@pytest.mark.parametrize("org_id", ["acme", None], ids=["engine", "owner"])
async def test_time_of_production_is_not_moved_by_a_setting(production, org_id):
    database = await Database.open(production, settings=SETTINGS, clock=MovedClock(START))
    async with database.transaction(org_id) as connection:
        assert await connection.fetchval("select current_setting('assent.now')") == START.isoformat()
        of_sql, of_server = await connection.fetchrow("select assent.now(), now()")
    await database.close()
    assert of_sql == of_server


async def test_engine_cannot_put_another_time_in_place_of_the_databases(production):
    database = await Database.open(production, settings=SETTINGS)
    async with database.transaction("acme") as connection, refused(connection, PRIVILEGE):
        await connection.execute(
            "create or replace function assent.now() returns timestamptz language sql return '2001-01-01'::timestamptz"
        )
    await database.close()


async def test_time_is_moved_for_a_while_and_then_runs_again(production):
    clock = MovedClock(START)
    past = await Database.open(production, settings=SETTINGS, clock=clock)
    async with moved_time(past), past.transaction("acme") as connection:
        assert await connection.fetchval("select assent.now()") == START
    async with past.transaction("acme") as connection:
        assert await connection.fetchval("select assent.now() = now()")
    await past.close()
