"""Publishing contracts and flows: checked, compiled, kept once, and refused with everything that is wrong."""

import asyncpg
import pytest

from assent.compiler import compile_contract, compile_flow, generate_envelope
from assent.definitions import publish_contract, publish_flow
from assent.definitions.sources import envelope_in
from assent.model.actor import SYSTEM, Actor
from assent.model.contract import StateSpec
from assent.model.mutation import Refused
from assent.model.problems import Invalid
from tests.postgres import START
from tests.rows import insert_member
from tests.runtime.definitions import contract, definition_rows, flow, flow_of_system, statuses
from tests.world import ANN, EXPENSE, publish


def problems(caught):
    return [(problem.code, problem.path) for problem in caught.value.problems]


async def test_contract_gives_an_envelope_and_what_everybody_starts(database):
    published = await publish(database, contract())
    envelope, effective = await definition_rows(database)
    assert (envelope["definition_kind"], envelope["is_default"], envelope["status"], envelope["version"]) == (
        "envelope",
        True,
        "published",
        1,
    )
    assert (effective["definition_kind"], effective["status"], effective["created_by"]) == (
        "effective",
        "published",
        "system",
    )
    assert effective["compiled_hash"] == compile_contract(contract()).unwrap().hash
    assert (published.source.id, published.effective.id) == (envelope["id"], effective["id"])
    assert published.changed


async def test_envelope_comes_back_from_its_row_as_it_was_generated(database):
    await publish(database, contract())
    (row,) = await definition_rows(database, definition_kind="envelope")
    assert envelope_in(row) == generate_envelope(contract())


async def test_publishing_the_same_contract_again_writes_nothing(database):
    first = await publish(database, contract())
    before = await definition_rows(database)
    second = await publish(database, contract())
    assert (second.source, second.effective, second.changed) == (first.source, first.effective, False)
    assert await definition_rows(database) == before


async def test_other_content_under_a_published_version_is_refused(database):
    await publish(database, contract())
    with pytest.raises(Invalid) as caught:
        await publish(database, contract(label="Bill"))
    assert problems(caught) == [("VERSION_TAKEN", ("version",))]
    assert len(await definition_rows(database)) == 2


async def test_new_version_of_a_contract_starts_and_the_old_one_is_archived(database):
    await publish(database, contract())
    published = await publish(database, contract(2, label="Bill"))
    assert await statuses(database, "envelope", "invoice") == [(1, "published"), (2, "published")]
    assert await statuses(database, "effective", "invoice") == [(1, "archived"), (2, "published")]
    assert published.effective.name == "Bill"


async def test_an_older_contract_published_late_does_not_start(database):
    await publish(database, contract(2))
    published = await publish(database, contract(1))
    (effective,) = await definition_rows(database, definition_kind="effective", status="published")
    assert effective["base_ref"]["envelope_version"] == 2
    assert published.effective.id == effective["id"]


async def test_contract_with_problems_is_refused_with_all_of_them(database):
    lifecycle = contract().lifecycle
    lost = {**lifecycle.states, "lost": StateSpec(edit="locked"), "gone": StateSpec(edit="locked")}
    broken = contract(lifecycle=lifecycle.model_copy(update={"states": lost}))
    with pytest.raises(Invalid) as caught:
        await publish(database, broken)
    assert {path[-1] for _, path in problems(caught)} >= {"lost", "gone"}
    assert await definition_rows(database) == []


async def test_contract_without_a_workflow_has_nothing_to_publish(database):
    async with database.transaction(None) as connection:
        with pytest.raises(Invalid) as caught:
            await publish_contract(connection, EXPENSE, SYSTEM, START)
    assert problems(caught) == [("NO_ENVELOPE", ("workflow",))]


async def test_application_cannot_publish_for_everybody(database):
    async with database.transaction("acme") as connection:
        with pytest.raises(
            asyncpg.InsufficientPrivilegeError, match="permission denied for table entity_indexes"
        ):
            await publish_contract(connection, contract(), SYSTEM, START)
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await publish_flow(connection, "*", flow(), SYSTEM, START)
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await publish_flow(connection, "globex", flow(), SYSTEM, START)
    assert await definition_rows(database) == []


async def test_flow_is_kept_with_its_source_and_what_it_compiled_to(database):
    async with database.transaction("acme") as connection:
        published = await publish_flow(connection, "acme", flow(name="Hello"), ANN, START)
    (row,) = await definition_rows(database)
    assert (row["org_id"], row["name"], row["status"], row["created_by"]) == (
        "acme",
        "Hello",
        "published",
        "ann",
    )
    assert row["compiled_json"] == compile_flow(flow(name="Hello")).unwrap().to_json()
    assert compile_flow(row["source_json"]).unwrap().hash == row["compiled_hash"]
    assert published.effective == published.source


async def test_publishing_the_same_flow_again_writes_nothing(database):
    await publish(database, flow(), "acme")
    before = await definition_rows(database)
    again = await publish(database, flow(capabilities=[]), "acme")
    assert (again.changed, await definition_rows(database)) == (False, before)


async def test_new_version_of_a_flow_archives_the_old_one(database):
    await publish(database, flow(), "acme")
    await publish(database, flow(2), "acme")
    assert await statuses(database, "flow", "hello", "acme") == [(1, "archived"), (2, "published")]


async def test_other_text_of_a_flow_under_a_published_version_is_refused(database):
    await publish(database, flow(), "acme")
    with pytest.raises(Invalid) as caught:
        await publish(database, flow(name="Other"), "acme")
    assert problems(caught) == [("VERSION_TAKEN", ("version",))]
    assert (await publish(database, flow(name="Other"), "globex")).changed


async def test_publishing_an_older_text_brings_that_version_back(database):
    first = await publish(database, flow(), "acme")
    await publish(database, flow(2), "acme")
    again = await publish(database, flow(), "acme")
    assert (again.source.id, again.changed) == (first.source.id, True)
    assert await statuses(database, "flow", "hello", "acme") == [(1, "published"), (2, "archived")]


async def test_flow_with_problems_is_refused_with_all_of_them(database):
    broken = flow(start="nowhere", transitions=[{"from": "ask", "to": "missing"}])
    with pytest.raises(Invalid) as caught:
        await publish(database, broken)
    assert {path for _, path in problems(caught)} >= {("start",), ("transitions", 0, "to")}
    assert await definition_rows(database) == []


async def test_flow_about_an_entity_is_checked_against_the_newest_contract(database):
    about = flow(
        entity="invoice", transitions=[{"from": "ask", "to": "done", "condition": "entity.colour == 1"}]
    )
    assert (await publish(database, about, "acme")).changed, "nobody knows the entity's fields yet"
    await publish(database, contract())
    with pytest.raises(Invalid) as caught:
        await publish(database, {**about, "version": 2}, "acme")
    assert "colour" in str(caught.value)


@pytest.mark.parametrize("run_as", ["system", "service_account"])
async def test_steps_that_run_as_somebody_else_need_a_capability_to_publish(database, run_as):
    with pytest.raises(Refused) as caught:
        await publish(database, flow_of_system(run_as), "acme", ANN)
    wanted = f"workflow:publish:run_as_{run_as}"
    assert (caught.value.code, wanted in caught.value.rejection.message) == ("POLICY_DENIED", True)
    assert await definition_rows(database) == []
    if run_as == "service_account":
        async with database.transaction(None) as connection:
            await insert_member(connection, user_id="robot", kind="service_account")
    lender = Actor("max", capabilities=frozenset({wanted, "operation:orders.confirm:use"}))
    assert (await publish(database, flow_of_system(run_as), "acme", lender)).changed


async def test_what_fails_leaves_nothing_behind_in_the_callers_transaction(database):
    async with database.transaction(None) as connection:
        await publish_flow(connection, "acme", flow(), SYSTEM, START)
        with pytest.raises(Invalid):
            await publish_flow(connection, "acme", flow(name="Other"), SYSTEM, START)
        await publish_flow(connection, "acme", flow(2), SYSTEM, START)
    assert await statuses(database, "flow", "hello", "acme") == [(1, "archived"), (2, "published")]
