"""Loading what runs: for one and for many, the org's own before everybody's, nothing that was tampered with."""

import pytest

from assent.model.actor import SYSTEM
from assent.model.mutation import Rejection
from assent.runtime.definitions import (
    EVERYBODY,
    Definitions,
    publish_contract,
    publish_patch,
)
from assent.store.clock import MovedClock
from tests.postgres import START
from tests.runtime.company import contract, patch


@pytest.fixture
def definitions(clock: MovedClock) -> Definitions:
    return Definitions(clock)


async def test_an_org_without_patches_starts_what_everybody_starts(database, definitions):
    async with database.transaction(None) as connection:
        published = await publish_contract(connection, contract(), SYSTEM, START)
    async with database.transaction("acme") as connection:
        found = await definitions.for_entity(connection, "acme", "invoice")
    assert (found.org_id, found.id, found.hash) == (
        EVERYBODY,
        published.effective.id,
        published.effective.compiled_hash,
    )
    assert found.workflow.kind == "effective"


async def test_an_orgs_own_patch_is_its_own_and_no_other_orgs(database, definitions):
    async with database.transaction(None) as connection:
        await publish_contract(connection, contract(), SYSTEM, START)
    async with database.transaction("acme") as connection:
        published = await publish_patch(connection, "acme", patch(), SYSTEM, START)
        own = await definitions.for_entity(connection, "acme", "invoice")
    async with database.transaction("globex") as connection:
        other = await definitions.for_entity(connection, "globex", "invoice")
        assert isinstance(
            (await definitions.by_id(connection, [own.pin("globex")]))[own.pin("globex")], Rejection
        )
    assert (own.org_id, own.id) == ("acme", published.effective.id)
    assert other.org_id == EVERYBODY
    assert any(node.name == "ask" for node in own.workflow.nodes.values())
    assert all(node.name != "ask" for node in other.workflow.nodes.values())
