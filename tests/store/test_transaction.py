"""Transactions: who one runs as, what time it is in it, and that it leaves nothing behind."""

from tests.postgres import START

WHO_AND_WHEN = "select current_user, assent.org_id(), assent.now()"


async def test_transaction_of_an_org_runs_as_the_application_at_the_time_of_the_clock(database):
    async with database.transaction("acme") as connection:
        assert tuple(await connection.fetchrow(WHO_AND_WHEN)) == ("assent_app", "acme", START)


async def test_connection_goes_back_to_the_pool_without_role_org_and_time(database_url):
    from assent.store.clock import MovedClock
    from assent.store.database import Database
    from assent.store.settings import Settings

    one_connection = Settings(pool_connections_max=1)
    database = await Database.open(database_url, settings=one_connection, clock=MovedClock(START))
    async with database.transaction("acme") as connection:
        assert await connection.fetchval("select current_user") == "assent_app"
    async with database._connection() as connection:
        user, org, now = await connection.fetchrow(WHO_AND_WHEN)
    await database.close()
    assert (user != "assent_app", org, now > START) == (True, None, True)
