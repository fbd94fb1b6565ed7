"""The schema folder, and version 0001 with every migration, are the same schema; and what version 0001 held goes on."""

from contextlib import asynccontextmanager

import pytest

from assent.store.clock import MovedClock
from assent.store.connection import connect
from assent.store.database import Database
from assent.store.migrate import Migration, load_migrations, migrate, require_ready
from tests.postgres import SETTINGS, START, past_the_guards
from tests.store.catalogue import difference, read_catalogue
from tests.upgrades.baseline import APP, DATA, frozen_schema
from tests.world import ANN, BEA, ORG, drain, rows


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


@pytest.fixture
async def upgraded(databases):
    """A database of version 0001 that was at work, brought forward to the present."""
    async with databases.fresh() as url:
        database = await Database.open(url, settings=SETTINGS, clock=MovedClock(START))
        await migrate(database, [frozen_schema()])
        async with past_the_guards(url) as connection:
            await connection.execute(DATA.read_text(encoding="utf-8"))
        known = load_migrations()
        assert await migrate(database) == known[1:]
        await require_ready(database)
        yield database
        await database.close()


async def test_what_the_baseline_held_is_all_there_after_an_upgrade(upgraded) -> None:
    """Each table that has rows in the frozen data still has rows; a migration that moves them changes this list."""
    tables = {line.split(maxsplit=3)[2].removeprefix("assent.") for line in DATA.read_text().splitlines()}
    assert len(tables) > 15
    assert [table for table in sorted(tables) if not await rows(upgraded, table)] == []


async def test_work_that_was_open_before_an_upgrade_is_finished_after_it(upgraded) -> None:
    runtime = APP.runtime(upgraded)
    (request,) = [row for row in await rows(upgraded, "approval_requests") if row["status"] == "pending"]
    done = await runtime.org(ORG, BEA).approvals.decide(request["id"], "approved")
    assert done.status == "completed"
    (invoice,) = await rows(upgraded, "entities")
    assert (invoice["state"], invoice["edit_window"]) == ("active", "locked")
    await runtime.org(ORG, ANN).events.emit("paid:7", {"amount": 7})
    await drain(runtime)
    flows = [row for row in await rows(upgraded, "workflow_instances") if row["status"] == "running"]
    assert {row["workflow_id"]: row["current_nodes"] for row in flows} == {
        "orders": ["confirm"],
        "survey": ["ask"],
    }
    for flow in flows:
        view = await runtime.org(ORG, ANN).instances.advance(flow["id"], "completed")
        assert view.status == "completed"
    async with upgraded.transaction(ORG) as connection:
        again = await connection.fetchval(
            "SELECT assent.submit_task('report.send', '{\"month\": 3}', 'march')"
        )
        assert again in {row["task_id"] for row in await rows(upgraded, "task_keys")}
        assert not await connection.fetchval("SELECT assent.emit_event('paid:8', '{\"amount\": 7}', 'bank')")


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
