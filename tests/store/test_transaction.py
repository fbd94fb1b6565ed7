"""Transactions: the role one runs as, what it sends, that it leaves nothing behind, and when it is run again."""

import asyncio

import asyncpg
import pytest

from assent.model.actor import Actor, By
from assent.store.clock import SYSTEM_CLOCK, MovedClock
from assent.store.database import Database
from assent.store.roles import ENGINE_ROLE
from assent.store.settings import Settings
from tests.postgres import START, superuser_url
from tests.statements import StatementCounter

ONE_CONNECTION = Settings(pool_connections_max=1)
SESSION_STATE = """
  select current_setting('role'), current_setting('assent.org_id', true), current_setting('assent.now', true),
         nullif(current_setting('assent.acting', true), '')::jsonb ->> 'actor_id'
"""

ACCOUNTS = """
  create table public.accounts (id int primary key, org_id text not null, balance int not null);
  insert into public.accounts values (1, 'acme', 0), (2, 'acme', 0), (3, 'zeta', 0);
  alter table public.accounts enable row level security;
  create policy own_org on public.accounts using (org_id = assent.org_id());
  grant select, update on public.accounts to assent_engine;
"""


@pytest.fixture
async def accounts(database):
    async with database.transaction(None) as connection:
        await connection.execute(ACCOUNTS)
    return database


async def add_one(connection, account_id):
    await connection.execute("update accounts set balance = balance + 1 where id = $1", account_id)


async def balance(database, account_id):
    async with database.transaction(None) as connection:
        return await connection.fetchval("select balance from accounts where id = $1", account_id)


async def test_an_orgs_transaction_sees_its_rows_and_the_owners_sees_all(accounts):
    async with accounts.transaction("acme") as connection:
        assert await connection.fetchval("select current_user") == "assent_engine"
        assert await connection.fetchval("select count(*) from accounts") == 2
    async with accounts.transaction(None) as connection:
        assert await connection.fetchval("select current_user") != "assent_engine"
        assert await connection.fetchval("select count(*) from accounts") == 3


async def test_a_statement_prepared_as_the_owner_still_obeys_row_security_for_an_org(accounts):
    # One connection, so that the cached statement is really the same one.
    database = await Database.open(accounts.url, settings=ONE_CONNECTION)
    seen = []
    for org_id in (None, "acme", "zeta", None, "nobody"):
        async with database.transaction(org_id) as connection:
            seen.append(await connection.fetchval("select count(*) from accounts where id > $1", 0))
    await database.close()
    assert seen == [3, 2, 1, 3, 0]


async def test_an_empty_org_is_refused(database):
    with pytest.raises(ValueError, match="needs the id of an org"):
        async with database.transaction(""):
            raise AssertionError("entered")


@pytest.mark.parametrize("ending", ["commit", "error"])
async def test_role_org_time_and_actor_end_with_the_transaction(database_url, ending):
    database = await Database.open(database_url, settings=ONE_CONNECTION, clock=MovedClock(START))
    try:
        async with database.transaction("acme", by=By(Actor("adam"))) as connection:
            assert tuple(await connection.fetchrow(SESSION_STATE)) == (
                "assent_engine",
                "acme",
                START.isoformat(),
                "adam",
            )
            if ending == "error":
                await connection.execute("select 1/0")
    except asyncpg.DivisionByZeroError:
        assert ending == "error"
    database.clock = SYSTEM_CLOCK
    async with database.transaction(None) as connection:
        assert tuple(await connection.fetchrow(SESSION_STATE)) == ("none", "", "", None)
    await database.close()


async def test_entering_an_org_costs_no_message_of_its_own(database, statement_counter):
    async with database.transaction("acme") as connection:
        await connection.fetchval("select 1")
    assert [sql.split()[0:3] for sql in statement_counter.statements] == [
        ["/*", "enter_org", "*/"],
        ["select", "1"],
        ["COMMIT;"],
    ]


@pytest.mark.parametrize("org_id", ["o'", "\\'; ROLLBACK; --", "$1 $5", "é 漢", "*/"])
async def test_an_org_id_is_a_value_whatever_it_says(database, org_id):
    async with database.transaction(org_id) as connection:
        found = await connection.fetchrow("SELECT current_setting('assent.org_id'), current_user::text")
    assert tuple(found) == (org_id, ENGINE_ROLE)


async def test_a_transaction_that_cannot_be_entered_leaves_no_connection_in_it(database_url):
    database = await Database.open(
        database_url, settings=Settings(pool_connections_min=1, pool_connections_max=1)
    )
    with pytest.raises(asyncpg.PostgresError):
        async with database.transaction("nul \x00"):
            pytest.fail("expected an error at BEGIN")
    async with database.transaction("acme") as connection:
        assert await connection.fetchval("SELECT current_setting('assent.org_id')") == "acme"
    await database.close()


async def test_many_executions_count_as_many(accounts, statement_counter):
    async with accounts.transaction("acme") as connection:
        statement_counter.clear()
        await connection.executemany("update accounts set balance = $1 where id = $2", [(5, 1), (6, 2)])
    assert statement_counter.statements.count("update accounts set balance = $1 where id = $2") == 2


async def test_the_owner_by_the_machines_clock_enters_without_a_statement(database_url):
    database = await Database.open(database_url)
    counter = StatementCounter()
    with database.observe(counter):
        async with database.transaction(None) as connection:
            await connection.fetchval("select 1")
    await database.close()
    assert len(counter) == 3


async def test_a_transaction_that_fails_to_serialize_is_run_again(accounts):
    attempts = []

    async def work(connection):
        seen = await connection.fetchval("select balance from accounts where id = 1")
        attempts.append(seen)
        if len(attempts) == 1:
            async with accounts.transaction("acme") as other:
                await add_one(other, 1)
        await connection.execute("update accounts set balance = $1 where id = 1", seen + 10)
        return "done"

    assert await accounts.run(work, org_id="acme", isolation="repeatable_read") == "done"
    assert attempts == [0, 1]
    assert await balance(accounts, 1) == 11


async def test_a_transaction_that_always_loses_raises_after_its_attempts(accounts):
    attempts = []

    async def work(connection):
        attempts.append(await connection.fetchval("select balance from accounts where id = 1"))
        async with accounts.transaction("acme") as other:
            await add_one(other, 1)
        await add_one(connection, 1)

    with pytest.raises(asyncpg.SerializationError):
        await accounts.run(work, org_id="acme", isolation="repeatable_read", attempts_max=3)
    assert attempts == [0, 1, 2]
    assert await balance(accounts, 1) == 3


@pytest.fixture
async def accounts_of_a_superuser(accounts):
    """Only a superuser says which side of a deadlock is to notice it."""
    database = await Database.open(superuser_url(accounts.url), settings=accounts.settings)
    yield database
    await database.close()


async def test_the_victim_of_a_deadlock_is_run_again(accounts_of_a_superuser):
    accounts = accounts_of_a_superuser
    attempts = []
    opponent_holds_two, opponent_done = asyncio.Event(), asyncio.Event()

    async def opponent():
        async with accounts.transaction(None) as connection:
            await connection.execute("set local deadlock_timeout = '1h'")  # never the one that notices
            await add_one(connection, 2)
            opponent_holds_two.set()
            await add_one(connection, 1)
        opponent_done.set()

    async def work(connection):
        attempts.append(len(attempts))
        await connection.execute("set local deadlock_timeout = '1ms'")
        await add_one(connection, 1)
        if len(attempts) == 1:
            tasks.append(asyncio.create_task(opponent()))
            await opponent_holds_two.wait()
            await until_blocked(accounts)
        await add_one(connection, 2)

    tasks = []
    await accounts.run(work, org_id=None)
    await asyncio.gather(*tasks)
    assert attempts == [0, 1]
    assert (await balance(accounts, 1), await balance(accounts, 2)) == (2, 2)


async def until_blocked(database):
    blocked = (
        "select exists (select from pg_locks l join pg_locks here using (pid)"
        " where not l.granted and l.locktype = 'transactionid'"
        " and here.database = (select oid from pg_database where datname = current_database()))"
    )
    async with database.transaction(None) as connection:
        while not await connection.fetchval(blocked):
            continue


async def test_nothing_else_is_run_again(accounts):
    attempts = []

    async def work(connection):
        attempts.append(1)
        await connection.execute("insert into accounts values (1, 'acme', 0)")

    with pytest.raises(asyncpg.UniqueViolationError):
        await accounts.run(work, org_id=None)
    assert len(attempts) == 1


async def test_an_error_of_the_work_itself_rolls_back_and_is_not_retried(accounts):
    attempts = []

    async def work(connection):
        attempts.append(1)
        await add_one(connection, 1)
        raise LookupError("of its own")

    with pytest.raises(LookupError, match="of its own"):
        await accounts.run(work, org_id="acme")
    assert (len(attempts), await balance(accounts, 1)) == (1, 0)


@pytest.mark.parametrize(
    "statement",
    ["SELECT * FROM assent.orgs", "SELECT ARRAY(SELECT o FROM assent.orgs o)"],
    ids=["a statement that PostgreSQL refuses", "a row type that asyncpg knew"],
)
async def test_transaction_whose_statement_a_migration_changed_is_run_again(
    database, database_url, statement
):
    """As in an upgrade: the column comes while the statement is prepared on connections of the pool."""
    attempts = []

    async def work(connection):
        attempts.append(await connection.fetch(statement))
        return len(attempts)

    async with database.transaction(None) as connection:
        await connection.execute("INSERT INTO assent.orgs (org_id, name) VALUES ('x', 'x')")
    assert await database.run(work, org_id=None) == 1
    migrating = await asyncpg.connect(database_url)
    await migrating.execute("ALTER TABLE assent.orgs ADD COLUMN note text DEFAULT 'new'")
    assert await database.run(work, org_id=None) == 2
    await migrating.execute("ALTER TABLE assent.orgs DROP COLUMN note")
    await migrating.close()
