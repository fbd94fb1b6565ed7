"""WF-04: what was published stays as it was, whatever is published, archived or brought back after it."""

import pytest

from assent.definitions import Definitions, archive, recompile, rollback
from assent.model.actor import SYSTEM
from tests.plain_sql import DEFAULT, PUBLISHED, refused
from tests.postgres import START
from tests.runtime.definitions import contract, definition_rows, flow, patch
from tests.world import publish

MOVABLE = ("status", "updated_at")


def contents(found):
    """Every row by its id, without what may move."""
    return {
        row["id"]: {column: value for column, value in row.items() if column not in MOVABLE} for row in found
    }


async def publish_everything(database):
    await publish(database, contract())
    patched = await publish(database, patch(), "acme")
    flowing = await publish(database, flow(), "acme")
    return patched, flowing


async def test_nothing_that_can_be_done_to_definitions_changes_one_that_was_published(database):
    patched, flowing = await publish_everything(database)
    before = contents(await definition_rows(database))
    await publish(database, contract(2, label="Bill"))
    await publish(database, patch(due="24h"), "acme")
    await publish(database, flow(2), "acme")
    async with database.transaction(None) as connection:
        for how in (rollback, archive, rollback):
            for source in (patched.source, flowing.source):
                await how(connection, "acme", source.id, SYSTEM, START)
    assert await recompile(database, _nobody) == []
    after = contents(await definition_rows(database))
    assert {found: after[found] for found in before} == before
    assert len(after) > len(before)


@pytest.mark.parametrize("org_id", [None, "acme"], ids=["owner", "application"])
async def test_published_rows_refuse_another_content_by_plain_sql(database, org_id):
    await publish_everything(database)
    change = (
        "UPDATE assent.workflow_definitions SET compiled_json = '{}', nodes_json = '[]' WHERE org_id = 'acme'"
    )
    remove = "DELETE FROM assent.workflow_definitions WHERE org_id = 'acme'"
    before = contents(await definition_rows(database))
    async with database.transaction(org_id) as connection:
        for sql in (change, remove):
            async with refused(connection, PUBLISHED, saying="cannot change"):
                await connection.execute(sql)
    assert contents(await definition_rows(database)) == before


async def test_envelopes_refuse_everything_by_plain_sql(database):
    await publish(database, contract())
    async with (
        database.transaction(None) as connection,
        refused(connection, DEFAULT, saying="generated envelope"),
    ):
        await connection.execute(
            "UPDATE assent.workflow_definitions SET status = 'archived' WHERE definition_kind = 'envelope'"
        )


async def test_instance_goes_on_with_what_it_was_started_with(database, clock):
    await publish_everything(database)
    async with database.transaction("acme") as connection:
        pin = (await Definitions(clock).for_entity(connection, "acme", "invoice")).pin("acme")
    await publish(database, patch(due="24h"), "acme")
    async with database.transaction("acme") as connection:
        definitions = Definitions(clock)
        pinned = (await definitions.by_id(connection, [pin]))[pin]
        current = await definitions.for_entity(connection, "acme", "invoice")
    assert pinned.pin("acme") == pin
    assert pinned.hash != current.hash


async def _nobody(moves):
    raise AssertionError(f"nothing is stale, and yet these should move: {moves}")
