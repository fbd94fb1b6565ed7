"""WF-07, the run-time part: only what was compiled, by the compiler of today, is ever loaded."""

import copy

import pytest

from assent.compiler import COMPILER_VERSION
from assent.compiler.build import hashed
from assent.definitions import Definition, Definitions, Pin, keep_draft
from assent.model.actor import SYSTEM
from assent.model.canonical import canonical_hash
from assent.model.mutation import Refused, Rejection
from assent.model.workflow import Workflow
from tests.postgres import START
from tests.runtime.definitions import contract, definition_rows, flow, older_compiler, patch, tamper
from tests.world import publish


@pytest.fixture
async def effective(database):
    """The row of acme's workflow."""
    await publish(database, contract())
    await publish(database, patch(), "acme")
    (row,) = await definition_rows(database, org_id="acme", definition_kind="effective")
    return row


async def load(database, row, **pinned):
    """What an instance that is pinned to a row gets."""
    given = {"version": row["version"], "hash": row["compiled_hash"]} | pinned
    pin = Pin("acme", row["id"], **given)
    async with database.transaction("acme") as connection:
        return (await Definitions().by_id(connection, [pin]))[pin]


async def code_of_start(database, key="invoice"):
    async with database.transaction("acme") as connection:
        with pytest.raises(Refused) as caught:
            await Definitions().for_entity(connection, "acme", key)
    return caught.value.code


async def test_row_as_it_was_published_is_loaded(database, effective):
    found = await load(database, effective)
    assert isinstance(found, Definition)
    assert found.workflow.to_json() == effective["compiled_json"]


@pytest.mark.parametrize(
    "part",
    [
        "kind",
        "key",
        "name",
        "version",
        "entity_type",
        "envelope_version",
        "compiler_version",
        "start",
        "nodes",
        "edges",
        "adjacency",
        "reverse_adjacency",
        "topological_order",
        "joins",
        "edit_windows",
        "stable_nodes",
        "slots",
        "slot_map",
        "gate_integrity",
        "amendment",
        "expiry",
        "capabilities",
        "publish_capabilities",
        "hash",
    ],
)
async def test_altered_part_of_the_compiled_content_is_refused(database, effective, part):
    content = copy.deepcopy(effective["compiled_json"])
    assert sorted(content) == sorted(Workflow.from_json(content).to_json()), "the list above is complete"
    content[part] = _altered(content[part])
    await tamper(database, effective["id"], compiled_json=content)
    found = await load(database, effective)
    assert isinstance(found, Rejection)
    assert found.code == "WORKFLOW_HASH_MISMATCH"
    assert await code_of_start(database) == "WORKFLOW_HASH_MISMATCH"


def _altered(value):
    match value:
        case dict():
            return {**value, "forged": {}}
        case list():
            return [*value, "forged"]
        case _:
            return "forged"


@pytest.mark.parametrize("content", [{}, [], {"nodes": 1}, "text"], ids=str)
async def test_content_of_another_form_is_refused_and_breaks_nothing(database, effective, content):
    await tamper(database, effective["id"], compiled_json=content, compiled_hash=canonical_hash(content))
    assert (await load(database, effective)).code == "WORKFLOW_HASH_MISMATCH"


async def test_dropped_content_is_refused(database, effective):
    content = {key: value for key, value in effective["compiled_json"].items() if key != "joins"}
    await tamper(database, effective["id"], compiled_json=content)
    assert (await load(database, effective)).code == "WORKFLOW_HASH_MISMATCH"


async def test_altered_hash_is_refused(database, effective):
    await tamper(database, effective["id"], compiled_hash="0" * 64)
    assert (await load(database, effective)).code == "WORKFLOW_HASH_MISMATCH"
    assert (await load(database, effective, hash="0" * 64)).code == "WORKFLOW_HASH_MISMATCH"


async def test_content_beside_the_workflow_is_refused_even_with_a_hash_that_fits(database, effective):
    content = effective["compiled_json"] | {"adjacency": {}}
    content["hash"] = canonical_hash({key: value for key, value in content.items() if key != "hash"})
    await tamper(database, effective["id"], compiled_json=content, compiled_hash=content["hash"])
    assert (await load(database, effective, hash=content["hash"])).code == "WORKFLOW_HASH_MISMATCH"


async def test_whole_other_workflow_with_its_own_hash_is_refused_to_instances_pinned_before(
    database, effective
):
    content = copy.deepcopy(effective["compiled_json"])
    content["nodes"][0]["label"] = "forged"
    forged = hashed(Workflow.from_json(content))
    await tamper(database, effective["id"], compiled_json=forged.to_json(), compiled_hash=forged.hash)
    found = await load(database, effective)
    assert (found.code, forged.hash in found.message) == ("WORKFLOW_HASH_MISMATCH", True)


async def test_pin_to_another_version_is_refused(database, effective):
    assert (await load(database, effective, version=7)).code == "WORKFLOW_HASH_MISMATCH"


async def test_what_another_compiler_made_is_refused(database):
    with older_compiler():
        published = (await publish(database, flow(), "acme")).source
    (row,) = await definition_rows(database)
    assert row["compiler_version"] == "0.9.0"
    assert (await load(database, row)).code == "WORKFLOW_COMPILER_STALE"
    async with database.transaction("acme") as connection:
        with pytest.raises(Refused) as caught:
            await Definitions().for_flow(connection, "acme", "hello")
    assert caught.value.code == "WORKFLOW_COMPILER_STALE"
    assert published.compiler_version == "0.9.0"


async def test_what_another_compiler_made_is_not_even_read(database):
    with older_compiler():
        await publish(database, flow(), "acme")
    (row,) = await definition_rows(database)
    await tamper(database, row["id"], compiled_json={"steps": "in the form of another compiler"})
    assert (await load(database, row)).code == "WORKFLOW_COMPILER_STALE"


async def test_raising_only_the_column_does_not_make_it_current(database):
    with older_compiler():
        await publish(database, flow(), "acme")
    (row,) = await definition_rows(database)
    await tamper(database, row["id"], compiler_version=COMPILER_VERSION)
    assert (await load(database, row)).code == "WORKFLOW_COMPILER_STALE"


@pytest.mark.parametrize("kind", ["envelope", "org_patch"])
async def test_what_is_not_compiled_is_refused(database, effective, kind):
    (row,) = await definition_rows(database, definition_kind=kind)
    assert (await load(database, row, hash="0" * 64)).code == "WORKFLOW_NOT_COMPILED"


@pytest.mark.parametrize("compiled", [False, True])
async def test_draft_is_refused_compiled_or_not(database, compiled):
    async with database.transaction("acme") as connection:
        await keep_draft(connection, "acme", flow(), SYSTEM, START)
    (row,) = await definition_rows(database)
    if compiled:
        published = (await publish(database, flow(), "globex")).source
        (other,) = await definition_rows(database, id=published.id)
        columns = {name: other[name] for name in ("compiled_json", "compiled_hash", "compiler_version")}
        await tamper(database, row["id"], **columns)
    assert (await load(database, row, hash="0" * 64)).code == "WORKFLOW_NOT_PUBLISHED"
