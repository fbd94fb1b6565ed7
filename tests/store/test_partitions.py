"""Monthly partitions: made ahead, never missing at a month's turn, and nothing is lost when one is late."""

# ruff: noqa: S608 - the names of tables are in this file

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from assent.store.roles import ENGINE_ROLE
from tests.plain_sql import CHECK, FOREIGN_KEY, IDENTITY, STATUS, check_deferred, refused, wait_until_blocked
from tests.rows import insert, insert_event, insert_step, update

TABLES = ("workflow_step_executions", "workflow_events_outbox")

ENSURE = "SELECT assent.ensure_partitions()"
TICK = timedelta(microseconds=1)


def first_of(month):
    """The first instant of a month, counted from January 2026."""
    return datetime(2026 + month // 12, month % 12 + 1, 1, tzinfo=UTC)


async def _partition_of(connection, table, row):
    sql = f"SELECT tableoid::regclass::text FROM assent.{table} WHERE org_id = $1 AND id = $2"
    name = await connection.fetchval(sql, row["org_id"], row["id"])
    return name.removeprefix("assent.").removeprefix(table)


async def _insert_everywhere(connection, moment):
    """A row in each of the three tables at a moment; returns the partitions, without their table's name."""
    return {
        await _partition_of(connection, table, await insert(connection, table, created_at=moment))
        for table in TABLES
    }


async def _count_in_defaults(connection):
    counts = [await connection.fetchval(f"SELECT count(*) FROM assent.{table}_default") for table in TABLES]
    return sum(counts)


async def _rows_in_order(connection):
    return [await connection.fetch(f"SELECT * FROM assent.{table} ORDER BY id") for table in TABLES]


async def _set_time(connection, moment):
    await connection.execute("SELECT set_config('assent.now', $1, true)", moment.isoformat())


async def test_migration_makes_this_month_and_three_ahead(owner):
    names = await owner.fetch(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " JOIN pg_class p ON p.oid = i.inhparent WHERE p.relkind = 'p' ORDER BY 1"
    )
    suffixes = ("2026_03", "2026_04", "2026_05", "2026_06", "default")
    assert {name for (name,) in names} == {f"{table}_{suffix}" for table in TABLES for suffix in suffixes}


async def test_maintenance_once_a_month_over_fourteen_months_never_uses_the_default(database, clock):
    for month in range(2, 16):
        clock.move_to(max(clock.now(), first_of(month) + timedelta(days=20)))
        async with database.transaction(None) as connection:
            assert await connection.fetchval(ENSURE) == (2 if month > 2 else 0)
            assert await connection.fetchval(ENSURE) == 0
        clock.move_to(first_of(month + 1) - TICK)
        async with database.transaction(None) as connection:
            assert await _insert_everywhere(connection, clock.now()) == {f"_{clock.now():%Y_%m}"}
        clock.move_to(first_of(month + 1))
        async with database.transaction(None) as connection:
            assert await _insert_everywhere(connection, clock.now()) == {f"_{clock.now():%Y_%m}"}
    async with database.transaction(None) as connection:
        assert await _count_in_defaults(connection) == 0


async def test_row_of_the_application_lands_in_its_month_by_the_clock_alone(database, clock):
    clock.move_to(first_of(4))
    async with database.transaction("acme") as connection:
        event = await insert_event(connection)
        assert event["created_at"] == first_of(4)
        assert await _partition_of(connection, "workflow_events_outbox", event) == "_2026_05"


@pytest.mark.parametrize(
    ("zone", "date_style"),
    [
        ("Pacific/Kiritimati", "ISO"),
        ("Pacific/Honolulu", "ISO"),
        # Written so, India's time looks like Israel's: both are IST.
        ("Asia/Kolkata", "German"),
        ("Asia/Kolkata", "SQL, DMY"),
    ],
)
async def test_months_turn_in_utc_whatever_the_session_says(owner, zone, date_style):
    setting = "SELECT set_config('TimeZone', $1, true), set_config('DateStyle', $2, true)"
    await owner.execute(setting, zone, date_style)
    # So late in March that it is April in Kiritimati, and so early in October that it is September in Honolulu.
    march, october = 14, 21
    await _set_time(owner, first_of(march + 1) - timedelta(minutes=1))
    assert await owner.fetchval(ENSURE) == 4 * 2
    await _set_time(owner, first_of(october) + timedelta(minutes=1))
    assert await owner.fetchval(ENSURE) == 4 * 2
    for month in (*range(march, march + 4), *range(october, october + 4)):
        for moment in (first_of(month), first_of(month + 1) - TICK):
            assert await _insert_everywhere(owner, moment) == {f"_{first_of(month):%Y_%m}"}


async def test_partition_that_comes_late_takes_over_its_rows_from_the_default(owner):
    moments = [first_of(month) + timedelta(days=13) for month in range(6, 24)]
    for moment in moments:
        assert await _insert_everywhere(owner, moment) == {"_default"}
    await check_deferred(owner)
    before = await _rows_in_order(owner)

    assert await owner.fetchval(ENSURE) == len(moments) * 2
    assert await _count_in_defaults(owner) == 0
    assert await _rows_in_order(owner) == before
    for table in TABLES:
        places = await owner.fetch(f"SELECT created_at, tableoid::regclass::text FROM assent.{table}")
        misplaced = [at for at, place in places if not place.endswith(f"{at:%Y_%m}")]
        assert (len(places), misplaced) == (len(moments), [])
    assert await owner.fetchval(ENSURE) == 0


async def test_row_older_than_every_partition_gets_one_too(owner):
    moment = datetime(2019, 12, 31, 23, 59, tzinfo=UTC)
    event = await insert_event(owner, created_at=moment)
    assert await _partition_of(owner, "workflow_events_outbox", event) == "_default"
    assert await owner.fetchval(ENSURE) == 1
    assert await _partition_of(owner, "workflow_events_outbox", event) == "_2019_12"


async def test_how_far_ahead_can_be_said(owner):
    assert await owner.fetchval("SELECT assent.ensure_partitions(0)") == 0
    assert await owner.fetchval("SELECT assent.ensure_partitions(5)") == 2 * 2


async def test_two_maintenance_calls_at_once_both_succeed(database, clock):
    locks = "SELECT count(*) FROM pg_locks WHERE pid = $1 AND relation::regclass::text LIKE '%\\_default'"
    clock.move_to(first_of(5))
    async with database.transaction(None) as second:
        async with database.transaction(None) as first:
            assert await first.fetchval(ENSURE) == 3 * 2
            waiting = asyncio.create_task(second.fetchval(ENSURE))
            await wait_until_blocked(first, second)
            # It waits before it reads: two that had both read could only deadlock over the lock to write.
            assert await first.fetchval(locks, second.get_server_pid()) == 0
        assert await waiting == 0
    async with database.transaction(None) as connection:
        assert await _insert_everywhere(connection, first_of(8)) == {"_2026_09"}


async def test_insert_into_the_default_that_is_under_way_is_waited_for_and_moved(database, clock):
    clock.move_to(first_of(8))
    async with database.transaction(None) as maintenance:
        async with database.transaction(None) as writer:
            event = await insert_event(writer)
            waiting = asyncio.create_task(maintenance.fetchval(ENSURE))
            await wait_until_blocked(writer, maintenance)
        assert await waiting == 4 * 2
        assert await _partition_of(maintenance, "workflow_events_outbox", event) == "_2026_09"


async def test_status_and_identity_are_guarded_in_a_new_partition(owner):
    await _set_time(owner, first_of(9))
    await owner.fetchval(ENSURE)
    ended = {
        "workflow_step_executions": await insert_step(owner, status="completed"),
        "workflow_events_outbox": await insert_event(owner, status="completed"),
    }
    for table, row in ended.items():
        assert await _partition_of(owner, table, row) == "_2026_10"
        async with refused(owner, STATUS):
            await update(owner, table, row, status="pending")
    async with refused(owner, IDENTITY):
        await update(owner, "workflow_step_executions", ended["workflow_step_executions"], token_id="t9")


async def test_constraints_hold_in_a_new_partition(owner):
    await _set_time(owner, first_of(9))
    await owner.fetchval(ENSURE)
    async with refused(owner, CHECK, constraint="step_status_is_known"):
        await insert_step(owner, status="dreaming")
    async with refused(owner, FOREIGN_KEY, constraint="step_snapshot_is_a_version"):
        await insert_step(owner, snapshot_version_id="00000000-0000-7000-8000-000000000001")
        await check_deferred(owner)


SHAPE = {
    "indexes": "SELECT regexp_replace(pg_get_indexdef(indexrelid), '^.* USING ', '')"
    " FROM pg_index WHERE indrelid = $1::text::regclass",
    "triggers": "SELECT tgname FROM pg_trigger WHERE tgrelid = $1::text::regclass AND NOT tgisinternal",
    "constraints": "SELECT pg_get_constraintdef(oid)"
    " FROM pg_constraint WHERE conrelid = $1::text::regclass AND contype IN ('c', 'f', 'p')",
    "columns": "SELECT attname, attnotnull, pg_get_expr(adbin, adrelid)"
    " FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum"
    " WHERE attrelid = $1::text::regclass AND attnum > 0",
    "policies": "SELECT polname, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)"
    " FROM pg_policy WHERE polrelid = $1::text::regclass",
}


@pytest.mark.parametrize("feature", SHAPE)
@pytest.mark.parametrize("table", TABLES)
async def test_new_partition_is_made_like_its_table(owner, table, feature):
    await _set_time(owner, first_of(9))
    await owner.fetchval(ENSURE)
    names = (f"assent.{table}", f"assent.{table}_default", f"assent.{table}_2026_10")
    parent, *partitions = [sorted(await owner.fetch(SHAPE[feature], name)) for name in names]
    assert parent
    assert partitions == [parent, parent]


async def test_partitions_belong_to_the_owner_alone(owner):
    await _set_time(owner, first_of(9))
    await owner.fetchval(ENSURE)
    granted = await owner.fetch(
        "SELECT relname FROM pg_class WHERE relispartition AND has_any_column_privilege($1, oid, 'SELECT')",
        ENGINE_ROLE,
    )
    assert granted == []
