"""The schema folder, and version 0001 with every migration, are the same schema."""

from contextlib import asynccontextmanager

from assent.store.clock import MovedClock
from assent.store.connect import connect
from assent.store.database import Database
from assent.store.migrate import Migration, load_migrations, migrate
from tests.postgres import SETTINGS, START
from tests.store.catalogue import difference, read_catalogue
from tests.upgrades.baseline import frozen_schema


async def catalogue_of(url: str, migrations: list[Migration]) -> dict[str, str]:
    """Build a database by these migrations, at the time of the tests, and return its catalogue."""
    database = await Database.open(url, settings=SETTINGS, clock=MovedClock(START))
    await migrate(database, migrations)
    await database.close()
    connection = await connect(url, SETTINGS)
    try:
        return await read_catalogue(connection)
    finally:
        await connection.close()


async def test_migrations_from_the_baseline_lead_to_the_schema_folder(databases) -> None:
    """Until the first release `make baseline` takes the folder over; after it, a difference is a migration to write."""
    known = load_migrations()
    async with databases.fresh() as one, databases.fresh() as other:
        by_folder = await catalogue_of(one, known)
        by_steps = await catalogue_of(other, [frozen_schema(), *known[1:]])
    assert difference(by_folder, by_steps) == {}


async def test_comparison_sees_what_differs(databases) -> None:
    """Each kind of object, and what a dump would carry of it."""
    changes = {
        "column": "ALTER TABLE assent.orgs ALTER COLUMN name DROP NOT NULL",
        "constraint": "ALTER TABLE assent.orgs DROP CONSTRAINT org_id_is_a_short_word",
        "index": "DROP INDEX assent.events_dead",
        "trigger": "ALTER TABLE assent.orgs DISABLE TRIGGER orgs_are_audited",
        "policy": "ALTER POLICY rows_of_own_org ON assent.orgs USING (true)",
        "function": "ALTER FUNCTION assent.submit_task SECURITY INVOKER",
        "relation": "GRANT DELETE ON assent.orgs TO assent_engine",
        "schema": "GRANT CREATE ON SCHEMA assent TO assent_engine",
        "sequence": "ALTER SEQUENCE assent.outside_request_deliveries_position_seq INCREMENT 2",
        "partition": "DROP TABLE assent.workflow_events_outbox_2026_05",
    }
    known = load_migrations()
    async with databases.fresh() as url:
        before = await catalogue_of(url, known)
        connection = await connect(url, SETTINGS)
        for kind, change in changes.items():
            async with undone(connection):
                await connection.execute(change)
                found = difference(before, await read_catalogue(connection))
            assert kind in {name.partition(" ")[0] for name in found}, change
        assert difference(before, await read_catalogue(connection)) == {}
        await connection.close()


@asynccontextmanager
async def undone(connection):
    """Inside, changes hold; afterwards nothing happened."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()
