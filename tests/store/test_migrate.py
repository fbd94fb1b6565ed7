"""A new database gets the schema folder, an older one its migrations: forward only, once, by one process at a time."""

import asyncio
from dataclasses import replace

import asyncpg
import pytest

from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.store.errors import StoreError
from assent.store.migrate import Migration, load_migrations, load_schema, migrate, status
from assent.store.queries import load_queries
from assent.store.settings import Settings
from tests.postgres import START

FIRST = Migration(1, "things", "create table assent.things (id int);\ncreate index on assent.things (id);")
SECOND = Migration(
    2,
    "count",
    """\
create function assent.count_things() returns bigint language plpgsql as $$
begin
  return (select count(*) from assent.things);
end
$$;
do $$ begin insert into assent.things values (1), (2); end $$;
""",
)
BROKEN = Migration(3, "broken", "insert into assent.things values (3);\n\nselect from assent.nothing;")

WAITING = """
  select count(*) from pg_locks join pg_database on pg_database.oid = pg_locks.database
  where locktype = 'advisory' and not granted and datname = current_database()
"""


@pytest.fixture
async def connection(empty_database_url):
    connection = await asyncpg.connect(empty_database_url)
    yield connection
    await connection.close()


async def test_what_is_missing_is_applied_in_order_and_only_once(empty_database_url, connection):
    assert await migrate(empty_database_url, [FIRST]) == [FIRST]
    assert await migrate(empty_database_url, [FIRST, SECOND]) == [SECOND]
    assert await migrate(empty_database_url, [FIRST, SECOND]) == []
    assert await connection.fetchval("select assent.count_things()") == 2
    noted = await connection.fetch("select version, name, checksum from assent.schema_migrations order by 1")
    assert [tuple(row) for row in noted] == [(m.version, m.name, m.checksum) for m in (FIRST, SECOND)]


async def test_status_tells_what_is_missing_and_writes_nothing(empty_database_url, connection):
    before = await status(empty_database_url, [FIRST, SECOND])
    assert (before.applied, before.pending) == ([], [FIRST, SECOND])
    assert await connection.fetchval("select to_regnamespace('assent')") is None
    await migrate(empty_database_url, [FIRST])
    after = await status(empty_database_url, [FIRST, SECOND])
    assert (after.applied, after.pending) == ([FIRST], [SECOND])


async def test_a_migration_that_fails_leaves_nothing_and_names_its_line(empty_database_url, connection):
    with pytest.raises(StoreError, match=r'0003_broken failed at line 3: relation "assent.nothing" does not'):
        await migrate(empty_database_url, [FIRST, SECOND, BROKEN])
    assert await connection.fetchval("select assent.count_things()") == 2
    assert (await status(empty_database_url, [FIRST, SECOND, BROKEN])).pending == [BROKEN]


async def test_an_applied_migration_must_not_be_edited(empty_database_url):
    await migrate(empty_database_url, [FIRST])
    edited = Migration(1, "things", FIRST.sql + " -- a word more")
    for act in (migrate, status):
        with pytest.raises(StoreError, match="0001_things was changed after it was applied"):
            await act(empty_database_url, [edited, SECOND])


async def test_a_database_from_a_newer_version_is_left_alone(empty_database_url):
    await migrate(empty_database_url, [FIRST, SECOND])
    with pytest.raises(StoreError, match="0002_count of a newer version of Assent"):
        await migrate(empty_database_url, [FIRST])


async def test_a_database_from_a_newer_version_is_used_where_its_migrations_say_so(empty_database_url):
    compatible = Migration(3, "more", "-- Adds only.\n-- oldest-code: 0002\ncreate table assent.more ();")
    assert (compatible.oldest_code, SECOND.oldest_code) == (2, 2)
    await migrate(empty_database_url, [FIRST, SECOND, compatible])
    assert await migrate(empty_database_url, [FIRST, SECOND]) == []
    found = await status(empty_database_url, [FIRST, SECOND])
    assert (found.applied, found.pending, found.newer) == ([FIRST, SECOND], [], ["0003_more"])
    with pytest.raises(
        StoreError, match=r"0002_count .* know migration 0002; this one knows those up to 0001"
    ):
        await status(empty_database_url, [FIRST])
    breaking = Migration(4, "less", "drop table assent.more;")
    await migrate(empty_database_url, [FIRST, SECOND, compatible, breaking])
    for known, code in (([FIRST, SECOND], "0002"), ([FIRST, SECOND, compatible], "0003")):
        with pytest.raises(StoreError, match=f"know migration 0004; this one knows those up to {code}"):
            await migrate(empty_database_url, known)


async def test_a_known_migration_is_compared_where_newer_ones_follow(empty_database_url):
    compatible = Migration(2, "more", "-- oldest-code: 0001\ncreate table assent.more ();")
    await migrate(empty_database_url, [FIRST, compatible])
    with pytest.raises(StoreError, match="0001_things was changed after it was applied"):
        await status(empty_database_url, [Migration(1, "things", FIRST.sql + " -- a word more")])


async def test_a_database_of_a_time_before_releases_is_told_apart(empty_database_url, connection):
    await migrate(empty_database_url, [FIRST])
    await connection.execute("alter table assent.schema_migrations drop column oldest_code")
    with pytest.raises(StoreError, match="before its first release"):
        await status(empty_database_url, [FIRST])


def test_no_migration_is_for_code_that_is_newer_than_itself(tmp_path):
    (tmp_path / "0001_a.sql").write_text("-- oldest-code: 0002\nselect 1")
    with pytest.raises(StoreError, match="to be from 0001 to 0001, found 0002"):
        load_migrations(tmp_path)


async def test_a_gap_in_what_was_applied_is_an_error(empty_database_url, connection):
    await migrate(empty_database_url, [FIRST, SECOND])
    await connection.execute("delete from assent.schema_migrations where version = 1")
    with pytest.raises(StoreError, match="0002_count where 0001_things was expected"):
        await migrate(empty_database_url, [FIRST, SECOND])


async def test_of_two_at_once_each_applies_what_the_other_has_not(empty_database_url, connection):
    async with connection.transaction():
        await connection.execute(load_queries("assent.store", "store.sql").lock_migrations)
        both = [asyncio.create_task(migrate(empty_database_url, [FIRST, SECOND])) for _ in range(2)]
        while await connection.fetchval(WAITING) < 2:
            assert not any(task.done() for task in both)
    applied = [migration for done in await asyncio.gather(*both) for migration in done]
    assert sorted(applied, key=lambda migration: migration.version) == [FIRST, SECOND]
    assert await connection.fetchval("select assent.count_things()") == 2


async def test_a_migration_runs_at_the_time_of_the_databases_clock(empty_database_url, connection):
    database = await Database.open(empty_database_url, clock=MovedClock(START))
    when = Migration(1, "when", "create table assent.moment as select current_setting('assent.now') as said")
    await migrate(database, [when])
    await database.close()
    assert await connection.fetchval("select said from assent.moment") == START.isoformat()


async def test_a_migration_may_take_its_time_but_waits_for_locks_for_a_moment_only(
    empty_database_url, connection
):
    settings = Settings(statement_timeout_ms=20_000, lock_timeout_ms=20_000, migration_lock_timeout_ms=3_000)
    database = await Database.open(empty_database_url, settings=settings)
    limits = """
      create table assent.limits as
      select current_setting('statement_timeout') as a, current_setting('lock_timeout') as b
    """
    await migrate(database, [Migration(1, "limits", limits)])
    await database.close()
    assert tuple(await connection.fetchrow("select a, b from assent.limits")) == ("0", "3s")


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["0001_a.sql", "0003_c.sql"], "Expected migration 0002 after 0001, found 0003_c"),
        (["0002_b.sql"], "Expected migration 0001 after 0000, found 0002_b"),
        (["0001_a.sql", "0001_b.sql"], "Expected migration 0002 after 0001, found 0001_b"),
        (["1_a.sql"], "Expected a migration named such as 0001_tables.sql, found 1_a.sql"),
    ],
)
def test_files_out_of_line_are_refused(tmp_path, names, complaint):
    for name in names:
        (tmp_path / name).write_text("select 1")
    with pytest.raises(StoreError, match=complaint):
        load_migrations(tmp_path)


def test_line_ends_do_not_change_a_checksum(tmp_path):
    (tmp_path / "0001_a.sql").write_bytes(b"select\r\n1")
    assert load_migrations(tmp_path)[0].checksum == Migration(1, "a", "select\n1").checksum


async def test_a_new_database_gets_the_schema_folder_and_the_template_has_it_all(
    empty_database_url, connection, database
):
    ours = load_migrations()
    assert ours[0] == load_schema()
    assert await migrate(empty_database_url) == ours
    noted = await connection.fetch("select version, name, checksum from assent.schema_migrations order by 1")
    assert [tuple(row) for row in noted] == [(m.version, m.name, m.checksum) for m in ours]
    assert (await status(database)).pending == []


async def test_a_new_database_has_what_migrations_do_and_runs_none(empty_database_url, connection):
    schema = Migration(1, "baseline", "create table assent.things (id int, name text);", is_schema=True)
    name = Migration(2, "name", "alter table assent.things add column name text;")
    assert await migrate(empty_database_url, [schema, name]) == [schema, name]
    assert await migrate(empty_database_url, [schema, name]) == []


async def test_an_older_database_is_brought_forward_whatever_the_schema_folder_says_now(empty_database_url):
    before = Migration(1, "baseline", "create table assent.things (id int);", is_schema=True)
    after = replace(before, sql="create table assent.things (id int, name text);")
    name = Migration(2, "name", "alter table assent.things add column name text;")
    assert await migrate(empty_database_url, [before]) == [before]
    assert await migrate(empty_database_url, [after, name]) == [name]


async def test_a_schema_that_fails_names_its_file_and_line_and_leaves_nothing(
    empty_database_url, connection, tmp_path
):
    (tmp_path / "10_things.sql").write_text("-- Things.\ncreate table assent.things (id int);\n")
    (tmp_path / "20_more.sql").write_text("-- More.\n\nselect from assent.nothing;\n")
    with pytest.raises(StoreError, match=r"0001_baseline failed at line 3 of 20_more.sql: relation"):
        await migrate(empty_database_url, [load_schema(tmp_path)])
    assert await connection.fetchval("select to_regnamespace('assent')") is None


async def test_a_database_of_migrations_from_before_the_schema_folder_is_refused(empty_database_url):
    await migrate(empty_database_url, [FIRST])
    with pytest.raises(StoreError, match="before its first release"):
        await migrate(empty_database_url)
