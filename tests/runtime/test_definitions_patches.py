"""An org's patches: compiled together, on one version of the envelope, until somebody rebases them."""

import pytest

from assent.compiler import compile_effective, generate_envelope
from assent.definitions import publish_patch, publish_patches, rebase_patches
from assent.model.actor import SYSTEM
from assent.model.contract import SlotSpec
from assent.model.mutation import Refused
from assent.model.patch import Base
from assent.model.problems import Invalid
from tests.postgres import START
from tests.runtime.definitions import (
    OTHER_SLOT,
    contract,
    definition_rows,
    older_compiler,
    patch,
    statuses,
    tamper,
)
from tests.world import ANN, SLOT, publish


@pytest.fixture
async def published(database):
    await publish(database, contract())
    return database


async def current(database, org_id="acme"):
    (row,) = await definition_rows(database, definition_kind="effective", org_id=org_id, status="published")
    return row


async def test_patch_is_kept_and_the_workflow_of_the_org_compiled_from_it(published):
    async with published.transaction("acme") as connection:
        publication = await publish_patch(connection, "acme", patch(), ANN, START)
    (kept,) = await definition_rows(published, definition_kind="org_patch")
    effective = await current(published)
    wanted = compile_effective(generate_envelope(contract()), patch()).unwrap()
    assert (effective["compiled_hash"], effective["compiled_json"]) == (wanted.hash, wanted.to_json())
    assert (publication.source.id, publication.effective.id) == (kept["id"], effective["id"])
    assert (kept["version"], kept["created_by"], kept["base_ref"]["envelope_version"]) == (1, "ann", 1)


async def test_publishing_the_same_patch_again_writes_nothing(published):
    await publish(published, patch(), "acme")
    before = await definition_rows(published)
    assert not (await publish(published, patch(), "acme")).changed
    assert await definition_rows(published) == before


async def test_new_text_of_a_patch_is_the_next_version_and_archives_the_last(published):
    await publish(published, patch(), "acme")
    await publish(published, patch(due="24h"), "acme")
    for kind in ("org_patch", "effective"):
        assert await statuses(published, kind, "invoice", "acme") == [(1, "archived"), (2, "published")]


async def test_patch_with_problems_is_refused_with_all_of_them_and_their_paths(published):
    broken = patch()
    broken["slots"]["slot:nowhere"] = {}
    broken["slots"][SLOT]["nodes"][0]["approvers"] = {"rule": "entity.colour"}
    with pytest.raises(Invalid) as caught:
        await publish(published, broken, "acme")
    paths = {problem.path for problem in caught.value.problems}
    assert paths == {("slots", "slot:nowhere"), ("slots", SLOT, "nodes", 0, "approvers", "rule")}
    assert await definition_rows(published, org_id="acme") == []


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ({"entity_type": "invoice", "envelope_version": 7}, ("base", "envelope_version")),
        ({"entity_type": "order", "envelope_version": 1}, ("base", "entity_type")),
    ],
)
async def test_patch_of_a_contract_that_nobody_published_is_refused(published, base, path):
    with pytest.raises(Invalid) as caught:
        await publish(published, {**patch(), "base": base}, "acme")
    (problem,) = caught.value.problems
    assert (problem.code, problem.path) == ("UNKNOWN_CONTRACT", path)


async def test_patches_of_one_org_are_compiled_together(published):
    await publish(published, patch("finance"), "acme")
    await publish(published, patch("intake", slot=OTHER_SLOT), "acme")
    filled = (await current(published))["compiled_json"]["slots"]
    assert [filled[slot]["filled"] for slot in (SLOT, OTHER_SLOT)] == [True, True]
    assert len(await definition_rows(published, definition_kind="org_patch", status="published")) == 2


async def test_order_in_which_patches_are_published_changes_nothing(published):
    patches = [patch("finance"), patch("intake", slot=OTHER_SLOT)]
    async with published.transaction(None) as connection:
        await publish_patches(connection, "acme", patches, SYSTEM, START)
        await publish_patches(connection, "globex", patches[::-1], SYSTEM, START)
    (acme, globex) = [await current(published, org_id) for org_id in ("acme", "globex")]
    assert acme["compiled_hash"] == globex["compiled_hash"]
    assert acme["body_patches_json"] == globex["body_patches_json"]


async def test_two_patches_cannot_fill_one_slot(published):
    await publish(published, patch("finance"), "acme")
    with pytest.raises(Invalid) as caught:
        await publish(published, patch("other"), "acme")
    (problem,) = caught.value.problems
    assert (problem.code, problem.path) == ("DUPLICATE_SLOT", ("slots", SLOT))


async def test_name_of_a_patch_belongs_to_one_entity_type(published):
    await publish(published, contract(contract="credit_note"))
    await publish(published, patch("finance"), "acme")
    same_name = {**patch("finance"), "base": {"entity_type": "credit_note", "envelope_version": 1}}
    with pytest.raises(Invalid) as caught:
        await publish(published, same_name, "acme")
    (problem,) = caught.value.problems
    assert (problem.code, problem.path) == ("NAME_TAKEN", ("patch",))


async def test_problems_of_several_patches_begin_with_the_patchs_index(published):
    broken = patch("intake", slot=OTHER_SLOT)
    broken["slots"][OTHER_SLOT]["edges"][0]["to"] = "nowhere"
    async with published.transaction(None) as connection:
        with pytest.raises(Invalid) as caught:
            await publish_patches(connection, "acme", [patch("finance"), broken], SYSTEM, START)
    assert {problem.path[0] for problem in caught.value.problems} == {1}


async def test_patches_keep_their_envelope_when_the_contract_moves_on(published):
    await publish(published, patch(), "acme")
    await publish(published, contract(2, label="Bill"))
    assert (await current(published))["base_ref"]["envelope_version"] == 1
    assert (await current(published, "*"))["base_ref"]["envelope_version"] == 2


async def test_rebasing_moves_all_patches_of_an_entity_type_at_once(published):
    for given in (patch("finance"), patch("intake", slot=OTHER_SLOT)):
        await publish(published, given, "acme")
    await publish(published, contract(2, label="Bill"))
    async with published.transaction("acme") as connection:
        base = Base(entity_type="invoice", envelope_version=2)
        moved = await rebase_patches(connection, "acme", base, ANN, START)
    assert [publication.source.key for publication in moved] == ["finance", "intake"]
    assert (await current(published))["base_ref"]["envelope_version"] == 2
    assert await statuses(published, "org_patch", "finance", "acme") == [(1, "archived"), (2, "published")]


async def test_rebasing_onto_what_does_not_fit_is_refused_and_changes_nothing(published):
    await publish(published, patch(), "acme")
    await publish(published, contract(2, slots={SLOT: SlotSpec(enabled=False)}))
    before = await definition_rows(published)
    base = Base(entity_type="invoice", envelope_version=2)
    async with published.transaction("acme") as connection:
        with pytest.raises(Invalid) as caught:
            await rebase_patches(connection, "acme", base, ANN, START)
    assert [problem.code for problem in caught.value.problems] == ["UNKNOWN_SLOT"]
    assert await definition_rows(published) == before


async def test_one_patch_alone_cannot_leave_the_envelope_of_the_others(published):
    await publish(published, patch("finance"), "acme")
    await publish(published, contract(2, label="Bill"))
    with pytest.raises(Invalid) as caught:
        await publish(published, patch("intake", 2, OTHER_SLOT), "acme")
    (problem,) = caught.value.problems
    assert (problem.code, "`finance`" in problem.message, "rebase" in problem.hint) == (
        "BASE_MISMATCH",
        True,
        True,
    )


async def test_patch_for_everybody_is_what_everybody_starts(published):
    await publish(published, patch())
    assert (await current(published, "*"))["body_patches_json"][0]["patch"] == "invoice"
    await publish(published, contract(2, label="Bill"))
    assert (await current(published, "*"))["base_ref"]["envelope_version"] == 1


async def test_patch_that_runs_as_the_system_needs_a_capability(published):
    lent = patch()
    lent["slots"][SLOT]["nodes"].append(
        {"id": "post", "type": "system", "operation": {"sdk": "ledger.post"}, "run_as": "system"}
    )
    lent["slots"][SLOT]["edges"] = [
        {"from": "in", "to": "ask"},
        {"from": "ask", "to": "post", "on": "approved"},
        {"from": "post", "to": "out"},
    ]
    with pytest.raises(Refused) as caught:
        await publish(published, lent, "acme", ANN)
    assert caught.value.code == "POLICY_DENIED"
    assert await definition_rows(published, org_id="acme") == []
    assert (await publish(published, lent, "acme", SYSTEM)).changed


async def test_altered_envelope_is_compiled_into_nothing(published):
    (envelope,) = await definition_rows(published, definition_kind="envelope")
    await tamper(published, envelope["id"], nodes_json=envelope["nodes_json"][1:])
    with pytest.raises(Invalid) as caught:
        await publish(published, patch(), "acme")
    assert "SYSTEM_MISSING" in {problem.code for problem in caught.value.problems}
    assert await definition_rows(published, org_id="acme") == []


async def test_envelope_of_another_compiler_is_generated_anew_from_its_contract(database):
    with older_compiler():
        published = (await publish(database, contract())).source
    (envelope,) = await definition_rows(database, definition_kind="envelope")
    await tamper(database, published.id, nodes_json=envelope["nodes_json"][1:])
    await publish(database, patch(), "acme")
    wanted = compile_effective(generate_envelope(contract()), patch()).unwrap()
    assert (await current(database))["compiled_hash"] == wanted.hash
