"""Versions: listed, archived, brought back; and drafts, which may be wrong and never run."""

import pytest

from assent.definitions import (
    Pin,
    archive,
    discard_draft,
    keep_draft,
    list_versions,
    problems_of_draft,
    publish_draft,
    rollback,
)
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Refused
from assent.model.problems import Invalid
from tests.postgres import START
from tests.runtime.definitions import (
    OTHER_SLOT,
    contract,
    definition_rows,
    flow,
    flow_of_system,
    older_compiler,
    patch,
    statuses,
)
from tests.world import ANN, publish


async def move(database, how, definition, actor=SYSTEM):
    async with database.transaction(None) as connection:
        return await how(connection, definition.org_id, definition.id, actor, START)


async def refusal(database, how, definition, actor=SYSTEM):
    with pytest.raises(Refused) as caught:
        await move(database, how, definition, actor)
    return caught.value.code


async def test_archived_flow_does_not_start_but_runs_on_where_it_was_started(database, definitions):
    published = (await publish(database, flow(), "acme")).source
    archived = await move(database, archive, published)
    assert archived.status == "archived"
    pin = Pin("acme", published.id, published.version, published.compiled_hash)
    async with database.transaction("acme") as connection:
        with pytest.raises(Refused) as caught:
            await definitions.for_flow(connection, "acme", "hello")
        assert (await definitions.by_id(connection, [pin]))[pin].id == published.id
    assert caught.value.code == "NOT_FOUND"


async def test_archiving_twice_is_archiving_once(database):
    published = (await publish(database, flow(), "acme")).source
    first = await move(database, archive, published)
    assert await move(database, archive, published) == first


async def test_org_without_its_patch_starts_what_everybody_starts(database, definitions):
    await publish(database, contract())
    published = await publish(database, patch(), "acme")
    await move(database, archive, published.source)
    assert await statuses(database, "effective", "invoice", "acme") == [(1, "archived")]
    async with database.transaction("acme") as connection:
        assert (await definitions.for_entity(connection, "acme", "invoice")).org_id == "*"


async def test_org_that_archives_one_patch_keeps_the_other(database, definitions):
    await publish(database, contract())
    first = await publish(database, patch("finance"), "acme")
    await publish(database, patch("intake", slot=OTHER_SLOT), "acme")
    await move(database, archive, first.source)
    async with database.transaction("acme") as connection:
        found = await definitions.for_entity(connection, "acme", "invoice")
    assert [slot.id for slot in found.workflow.slots.values() if slot.filled] == [OTHER_SLOT]


async def test_rollback_brings_a_flow_back_and_archives_the_current_one(database):
    first = (await publish(database, flow(), "acme")).source
    await publish(database, flow(2), "acme")
    back = await move(database, rollback, first)
    assert (back.source.id, back.source.status, back.changed) == (first.id, "published", True)
    assert await statuses(database, "flow", "hello", "acme") == [(1, "published"), (2, "archived")]


async def test_rollback_brings_a_patch_back_with_the_workflow_that_it_made(database):
    await publish(database, contract())
    first = await publish(database, patch(), "acme")
    await publish(database, patch(due="24h"), "acme")
    back = await move(database, rollback, first.source)
    assert (back.source.id, back.effective.id) == (first.source.id, first.effective.id)
    for kind in ("org_patch", "effective"):
        assert await statuses(database, kind, "invoice", "acme") == [(1, "published"), (2, "archived")]


async def test_rollback_brings_back_what_everybody_started(database):
    first = (await publish(database, contract())).effective
    await publish(database, contract(2, label="Bill"))
    assert (await move(database, rollback, first)).source.id == first.id
    assert await statuses(database, "effective", "invoice") == [(1, "published"), (2, "archived")]
    again = await publish(database, contract(2, label="Bill"))
    assert (again.changed, again.effective.id) == (False, first.id)


async def test_rollback_of_what_is_published_changes_nothing(database):
    published = (await publish(database, flow(), "acme")).source
    assert not (await move(database, rollback, published)).changed


async def test_rollback_of_what_another_compiler_made_is_a_new_version_that_says_the_same(
    database, definitions
):
    with older_compiler():
        first = (await publish(database, flow(), "acme")).source
    await publish(database, flow(2), "acme")
    back = (await move(database, rollback, first)).source
    assert (back.version, back.status) == (3, "published")
    async with database.transaction("acme") as connection:
        assert (await definitions.for_flow(connection, "acme", "hello")).workflow.version == 1


async def test_rollback_of_steps_that_run_as_somebody_else_needs_the_capability_again(database):
    first = (await publish(database, flow_of_system("system"), "acme")).source
    await publish(database, flow(2), "acme")
    assert await refusal(database, rollback, first, ANN) == "POLICY_DENIED"
    lender = Actor("max", capabilities=frozenset({"workflow:publish:*", "operation:orders.confirm:use"}))
    assert (await move(database, rollback, first, lender)).changed


@pytest.mark.parametrize("how", [archive, rollback])
async def test_what_follows_from_something_else_is_not_moved_by_itself(database, how):
    envelope = (await publish(database, contract())).source
    effective = (await publish(database, patch(), "acme")).effective
    async with database.transaction(None) as connection:
        draft = await keep_draft(connection, "acme", flow(), ANN, START)
    assert await refusal(database, how, envelope) == "DEFINITION_IMMUTABLE"
    assert await refusal(database, how, effective) == "DEFINITION_DERIVED"
    assert await refusal(database, how, draft) == "WORKFLOW_NOT_PUBLISHED"


async def test_bare_workflow_does_not_come_back_over_a_patch_for_everybody(database):
    bare = (await publish(database, contract())).effective
    await publish(database, patch())
    assert await refusal(database, rollback, bare) == "DEFINITION_DERIVED"


async def test_definition_of_another_org_cannot_be_moved(database):
    published = (await publish(database, flow(), "acme")).source
    for org_id in ("globex", None):
        async with database.transaction(org_id) as connection:
            for how in (archive, rollback):
                with pytest.raises(Refused) as caught:
                    await how(connection, "globex", published.id, ANN, START)
                assert caught.value.code == "NOT_FOUND"


@pytest.mark.without_twin("the owner lists the definitions of all orgs")
async def test_versions_are_listed_newest_first_and_only_to_whom_they_belong(database):
    await publish(database, contract())
    for org_id in ("acme", "globex"):
        await publish(database, flow(), org_id)
    await publish(database, flow(2), "acme")
    async with database.transaction("acme") as connection:
        seen = await list_versions(connection)
        flows = await list_versions(connection, "acme", "flow", "hello")
    async with database.transaction(None) as connection:
        assert len(await list_versions(connection)) == 5
    assert {found.org_id for found in seen} == {"*", "acme"}
    assert [(found.version, found.status) for found in flows] == [(2, "published"), (1, "archived")]


async def test_draft_is_replaced_by_the_next_and_is_never_loaded(database, definitions):
    async with database.transaction("acme") as connection:
        first = await keep_draft(connection, "acme", flow(), ANN, START)
        second = await keep_draft(connection, "acme", flow(name="Better"), ANN, START)
        pin = Pin("acme", second.id, second.version, "0" * 64)
        loaded = (await definitions.by_id(connection, [pin]))[pin]
        with pytest.raises(Refused):
            await definitions.for_flow(connection, "acme", "hello")
    (row,) = await definition_rows(database)
    assert (second.id, row["source_json"]["name"], row["status"]) == (first.id, "Better", "draft")
    assert loaded.code == "WORKFLOW_NOT_PUBLISHED"


BROKEN_FLOW = {"flow": "hello", "steps": 1, "start": "nowhere"}
BROKEN_PATCH = {"patch": "finance", "base": {"entity_type": "invoice"}, "slots": {"slot:nowhere": {}}}


@pytest.mark.parametrize("source", [BROKEN_FLOW, BROKEN_PATCH], ids=["flow", "patch"])
async def test_draft_may_be_wrong_says_what_is_and_is_not_published(database, source):
    async with database.transaction("acme") as connection:
        draft = await keep_draft(connection, "acme", source, ANN, START)
        problems = await problems_of_draft(connection, "acme", draft.id, START)
        with pytest.raises(Invalid) as caught:
            await publish_draft(connection, "acme", draft.id, ANN, START)
    assert problems
    assert list(caught.value.problems) == list(problems)
    assert [row["status"] for row in await definition_rows(database)] == ["draft"]


async def test_problems_of_a_draft_include_those_with_what_is_published(database):
    await publish(database, contract())
    await publish(database, patch("finance"), "acme")
    await publish(database, flow(), "acme")
    async with database.transaction("acme") as connection:
        for source, code in ((patch("other"), "DUPLICATE_SLOT"), (flow(name="Other"), "VERSION_TAKEN")):
            draft = await keep_draft(connection, "acme", source, ANN, START)
            problems = await problems_of_draft(connection, "acme", draft.id, START)
            assert [problem.code for problem in problems] == [code]


@pytest.mark.parametrize("source", [flow(), patch()], ids=["flow", "patch"])
async def test_published_draft_takes_the_version_that_it_had(database, source):
    await publish(database, contract())
    async with database.transaction("acme") as connection:
        draft = await keep_draft(connection, "acme", source, ANN, START)
        assert await problems_of_draft(connection, "acme", draft.id, START) == ()
        published = (await publish_draft(connection, "acme", draft.id, ANN, START)).source
    assert (published.version, published.status) == (draft.version, "published")
    assert await definition_rows(database, status="draft") == []


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ([], "WRONG_TYPE"),
        ({"steps": []}, "UNKNOWN_DECLARATION"),
        ({"flow": 1}, "UNKNOWN_DECLARATION"),
        ({"patch": "p", "base": "invoice"}, "MISSING_KEY"),
        ({"flow": "f", "name": "\x00"}, "TEXT_NOT_KEPT"),
        ({"flow": "f", "version": 2**70}, "NUMBER_NOT_KEPT"),
    ],
)
async def test_draft_that_does_not_say_what_it_is_is_refused(database, source, code):
    async with database.transaction("acme") as connection:
        with pytest.raises(Invalid) as caught:
            await keep_draft(connection, "acme", source, ANN, START)
    assert [problem.code for problem in caught.value.problems] == [code]


async def test_only_drafts_are_discarded(database):
    published = (await publish(database, flow(2), "acme")).source
    async with database.transaction("acme") as connection:
        draft = await keep_draft(connection, "acme", flow(3), ANN, START)
        await discard_draft(connection, "acme", draft.id)
        for gone in (draft, published):
            with pytest.raises(Refused) as caught:
                await discard_draft(connection, "acme", gone.id)
            assert caught.value.code == "NOT_FOUND"
            with pytest.raises(Refused):
                await publish_draft(connection, "acme", gone.id, ANN, START)
    assert [row["status"] for row in await definition_rows(database)] == ["published"]
