"""Rights on the application's own tables: declared, given by a command, and missed with words that say what to do."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from assent import App
from assent.runtime.errors import StepFailed
from assent.store.checkup import PoolUse, examine_database
from assent.store.connection import Connection, connect
from assent.store.database import Database
from assent.store.errors import StoreError
from assent.store.table_grants import PRIVILEGES, examine_table_grants, grant_tables
from tests.authored import END
from tests.postgres import SETTINGS, superuser_url
from tests.upgrades.releases import ReleaseFolder
from tests.world import ANN, ORG, publish_steps

PRESENT = ReleaseFolder.installed()
APPLICATION = """
import assent
app = assent.App().grant("bookings").grant('shop."Odd Name"', "SELECT")
"""


@pytest.fixture
async def owner(database: Database) -> AsyncIterator[Connection]:
    """The owner of the application's tables, and the tables."""
    connection = await connect(database.url, SETTINGS)
    await connection.execute("CREATE TABLE public.bookings (id serial PRIMARY KEY, number integer)")
    await connection.execute('CREATE SCHEMA shop; CREATE TABLE shop."Odd Name" (id integer)')
    yield connection
    await connection.close()


async def test_rights_are_given_once_with_schema_and_sequence(owner: Connection) -> None:
    app = App().grant("bookings").grant('shop."Odd Name"', "SELECT")
    assert await grant_tables(owner, app.grants) == [
        "GRANT USAGE ON SCHEMA shop TO assent_engine",
        "GRANT DELETE ON TABLE public.bookings TO assent_engine",
        "GRANT INSERT ON TABLE public.bookings TO assent_engine",
        "GRANT SELECT ON TABLE public.bookings TO assent_engine",
        'GRANT SELECT ON TABLE shop."Odd Name" TO assent_engine',
        "GRANT UPDATE ON TABLE public.bookings TO assent_engine",
        "GRANT USAGE ON SEQUENCE public.bookings_id_seq TO assent_engine",
    ]
    assert await grant_tables(owner, app.grants) == []
    async with owner.transaction():
        await owner.execute("SET LOCAL ROLE assent_engine")
        await owner.execute("INSERT INTO public.bookings (number) VALUES (1)")
        assert await owner.fetchval('SELECT count(*) FROM shop."Odd Name"') == 0
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with owner.transaction():
                await owner.execute('DELETE FROM shop."Odd Name"')


def test_declarations_add_up_and_unknown_privileges_are_refused() -> None:
    assert App().grant("a", "SELECT").grant("a", "INSERT", "SELECT").grants == {"a": ("SELECT", "INSERT")}
    assert App().grant("a").grants == {"a": PRIVILEGES}
    with pytest.raises(ValueError, match="found TRUNCATE"):
        App().grant("a", "TRUNCATE")  # type: ignore[arg-type]


async def test_a_table_that_is_not_there_is_named(owner: Connection) -> None:
    with pytest.raises(StoreError, match=r"not there: boooking\. Create"):
        await grant_tables(owner, App().grant("boooking").grant("bookings").grants)
    assert (await examine_table_grants(owner, App().grant("bookings").grants)).missing


async def test_a_table_of_another_role_is_left_to_its_owner(database: Database, owner: Connection) -> None:
    administrator = await asyncpg.connect(superuser_url(database.url))
    try:
        await administrator.execute("CREATE TABLE public.theirs (id integer)")
    finally:
        await administrator.close()
    with pytest.raises(StoreError, match=r"GRANT SELECT ON TABLE public\.theirs TO assent_engine;"):
        await grant_tables(owner, App().grant("theirs", "SELECT").grant("bookings").grants)


async def test_row_security_without_a_policy_is_found(owner: Connection) -> None:
    grants = App().grant("bookings").grants
    await grant_tables(owner, grants)
    await owner.execute("ALTER TABLE public.bookings ENABLE ROW LEVEL SECURITY")
    checkup = await examine_database(owner, PoolUse(10, 6), grants=grants)
    (finding,) = [one for one in checkup.findings if one.check == "tables"]
    assert "no row of public.bookings" in finding.problem
    await owner.execute(finding.remedy.partition(", or")[0])
    checkup = await examine_database(owner, PoolUse(10, 6), grants=grants)
    assert [one for one in checkup.findings if one.check == "tables"] == []


async def test_commands_give_the_rights_and_doctor_says_what_is_missing(
    database: Database, owner: Connection, tmp_path: Path
) -> None:
    (tmp_path / "booking_app.py").write_text(APPLICATION)
    variables = {"PYTHONPATH": str(tmp_path), "ASSENT_APP": "booking_app:app"}
    before = PRESENT.run("doctor", url=database.url, **variables)
    assert before.returncode == 1
    assert "-- GRANT INSERT ON TABLE public.bookings TO assent_engine;" in before.stdout
    done = PRESENT.run("migrate", "--json", url=database.url, **variables)
    assert 'GRANT SELECT ON TABLE shop."Odd Name" TO assent_engine' in json.loads(done.stdout)["granted"]
    after = json.loads(PRESENT.run("doctor", "--json", url=database.url, **variables).stdout)
    assert [one for one in after["findings"] if one["check"] == "tables"] == []
    # What is published with the application gets them too.
    await owner.execute("REVOKE ALL ON public.bookings FROM assent_engine")
    flow = tmp_path / "flow.yaml"
    flow.write_text(
        "{flow: booking, version: 1, start: end, steps: [{id: end, type: terminal}], transitions: []}"
    )
    published = PRESENT.run(
        "definitions", "publish", str(flow), "--org", "acme", url=database.url, **variables
    )
    assert published.returncode == 0, published.stderr
    assert not (await examine_table_grants(owner, App().grant("bookings").grants)).missing


async def test_the_error_of_a_step_and_an_action_names_the_table_and_the_remedy(
    app: App, database: Database, owner: Connection
) -> None:
    @app.operation("bookings.book")
    async def book(connection, arguments):
        await connection.execute("INSERT INTO public.bookings (number) VALUES (1)")

    @app.action("expense.book")
    async def book_expense(connection, expense, payload):
        await connection.execute("INSERT INTO public.bookings (number) VALUES (1)")
        return {}

    step = {"id": "book", "type": "system", "operation": {"sdk": "bookings.book"}}
    await publish_steps(
        database, "booking", [step, END], [{"from": "book", "event": "completed", "to": "end"}]
    )
    acme = app.runtime(database).org(ORG, replace(ANN, capabilities=frozenset({"expense:book"})))
    with pytest.raises(
        StepFailed, match=r"(?s)permission denied for table bookings.*app\.grant.*assent doctor"
    ):
        await acme.instances.start("booking")
    made = (await acme.entities.mutate("expense.create", {"title": "Taxi", "total": 1})).entity
    with pytest.raises(
        asyncpg.InsufficientPrivilegeError, match=r"(?s)permission denied for table bookings.*app\.grant"
    ):
        await acme.entities.mutate("expense.book", {}, made.id)
    await grant_tables(owner, app.grant("bookings").grants)
    assert (await acme.instances.start("booking")).status == "completed"
