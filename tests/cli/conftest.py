"""A company with people, an invoice to approve, flows to start, and somebody at the command line."""

from collections.abc import AsyncIterator, Iterator

import pytest

from assent.runtime import Runtime
from assent.store.database import Database
from tests.authored import END, arrows, call, form
from tests.cli.application import SECRET, app, shop
from tests.cli.desk import Desk
from tests.postgres import SETTINGS
from tests.world import PEOPLE, found_acme, grant, publish, publish_invoices, publish_steps

CAPABILITIES = {
    "operator": ["workflows:*", "events:emit"],
    "auditor": ["audit:read"],
    "clerk": ["orders:start"],
}


@pytest.fixture
async def company(database_url: str) -> AsyncIterator[Database]:
    """A database that goes by the clock of the machine, as the commands do."""
    database = await Database.open(database_url, settings=SETTINGS)
    try:
        await found_acme(database, {**PEOPLE, "ops": ["operator"], "aud": ["auditor"], "gone": ["clerk"]})
        async with database.transaction(None) as connection:
            await connection.execute(
                "UPDATE assent.members SET active = false WHERE org_id = 'acme' AND user_id = 'gone'"
            )
            await grant(connection, CAPABILITIES)
        await publish_invoices(database)
        await publish(database, SECRET)
        await _publish_flows(database)
        yield database
    finally:
        await database.close()


async def _publish_flows(database: Database) -> None:
    wait = {"id": "wait", "type": "wait", "key": "paid:{workflow.order}"}
    await publish_steps(
        database,
        "orders",
        [form("ask"), call("confirm", "shop.confirm"), END],
        [{"from": "ask", "event": "go", "to": "confirm"}, *arrows("confirm", "end")],
        capabilities=["orders:start"],
    )
    await publish_steps(
        database, "confirmation", [call("confirm", "shop.confirm"), END], arrows("confirm", "end")
    )
    await publish_steps(database, "payment", [wait, END], arrows("wait", "end"))


@pytest.fixture
def runtime(company: Database) -> Runtime:
    return app.runtime(company)


@pytest.fixture
def desk(company: Database) -> Desk:
    return Desk(company.url)


@pytest.fixture(autouse=True)
def open_shop() -> Iterator[None]:
    """Whoever closes the shop leaves it open for the next test."""
    yield
    shop.is_open = True
