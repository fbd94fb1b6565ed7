"""Definitions: what was published stays as it was, envelopes never change, each kind has its columns."""

from typing import Any

import pytest

from tests.blank_rows import definition_of_kind
from tests.plain_sql import CHECK, DEFAULT, PUBLISHED, STATUS, UNIQUE, refused
from tests.rows import delete, insert_definition, update

TABLE = "workflow_definitions"

NEW_CONTENT = {
    "id": "00000000-0000-7000-8000-000000000001",
    "org_id": "globex",
    "key": "another",
    "version": 2,
    "definition_kind": "effective",
    "entity_type": "order",
    "name": "Another name",
    "nodes_json": [{"id": "n"}],
    "edges_json": [{"id": "e"}],
    "slots_json": [{"id": "s"}],
    "base_ref": {"entity_type": "order"},
    "body_patches_json": {"slot": {}},
    "source_json": {"start": "elsewhere"},
    "compiled_json": {"nodes": ["other"]},
    "compiled_hash": "0" * 64,
    "compiler_version": "2",
    "created_by": "mallory",
    "edited_by": ["user:mallory"],
    "is_default": True,
}
"""Another value for every column of a definition but status and the times."""

KINDS: dict[Any, Any] = {
    ("envelope", "envelope_is_a_whole_shared_graph"): {
        "org_id": "acme",
        "is_default": False,
        "entity_type": None,
        "nodes_json": None,
        "edges_json": None,
        "slots_json": None,
        "body_patches_json": {},
        "base_ref": {},
    },
    ("org_patch", "org_patch_is_patches_on_a_base"): {
        "is_default": True,
        "entity_type": None,
        "body_patches_json": None,
        "base_ref": None,
        "nodes_json": [],
        "edges_json": [],
        "slots_json": [],
    },
    ("effective", "effective_is_compiled"): {
        "is_default": True,
        "entity_type": None,
        "nodes_json": None,
        "edges_json": None,
        "compiled_json": None,
        "compiled_hash": None,
        "compiler_version": None,
    },
    ("flow", "flow_is_a_source"): {
        "is_default": True,
        "source_json": None,
        "body_patches_json": {},
        "base_ref": {},
    },
}
"""Of each kind and its constraint: what is enough to break it, column by column."""

KIND_CASES = [
    pytest.param(kind, constraint, column, value, id=f"{kind}-{column}")
    for (kind, constraint), columns in KINDS.items()
    for column, value in columns.items()
]


@pytest.mark.parametrize("column", NEW_CONTENT)
@pytest.mark.parametrize("status", ["published", "archived"])
async def test_content_does_not_change_once_it_was_published(owner, status, column):
    definition = await insert_definition(owner, status=status)
    async with refused(owner, PUBLISHED, saying=f"is {status} and cannot change"):
        await update(owner, TABLE, definition, **{column: NEW_CONTENT[column]})


async def test_list_of_content_names_every_column_that_must_not_change(owner):
    columns = set((await insert_definition(owner)).keys())
    assert columns - set(NEW_CONTENT) == {"status", "created_at", "updated_at", "walls"}


async def test_walls_follow_from_the_content_whoever_writes_them(owner):
    definition = await insert_definition(owner)
    assert await update(owner, TABLE, definition, walls={"ways": []}) == 1
    assert (
        await owner.fetchval("SELECT walls FROM assent.workflow_definitions WHERE id = $1", definition["id"])
        is None
    )


@pytest.mark.parametrize("status", ["published", "archived"])
async def test_time_of_creation_does_not_change_but_time_of_update_does(owner, status):
    definition = await insert_definition(owner, status=status)
    later = definition["created_at"].replace(year=2027)
    assert await update(owner, TABLE, definition, updated_at=later) == 1
    async with refused(owner, PUBLISHED):
        await update(owner, TABLE, definition, created_at=later)


@pytest.mark.parametrize("status", ["published", "archived"])
async def test_published_or_archived_definition_is_not_deleted(owner, status):
    definition = await insert_definition(owner, status=status)
    async with refused(owner, PUBLISHED, saying=f"is {status} and cannot change"):
        await delete(owner, TABLE, definition)


async def test_content_does_not_change_together_with_a_legal_move(owner):
    definition = await insert_definition(owner, status="published")
    async with refused(owner, PUBLISHED):
        await update(owner, TABLE, definition, status="archived", compiled_json={"nodes": ["other"]})
    assert await update(owner, TABLE, definition, status="archived") == 1
    assert await update(owner, TABLE, definition, status="published") == 1


async def test_draft_can_be_edited_published_and_deleted(owner):
    definition = await insert_definition(owner)
    assert await update(owner, TABLE, definition, name="Better", source_json={"start": "first"}) == 1
    assert await update(owner, TABLE, definition, status="published", compiled_hash="1" * 64) == 1
    assert await delete(owner, TABLE, await insert_definition(owner)) == 1


async def test_published_definition_does_not_become_a_draft_to_be_edited(owner):
    definition = await insert_definition(owner, status="published")
    async with refused(owner, STATUS, saying="may not move from published to draft"):
        await update(owner, TABLE, definition, status="draft")


@pytest.mark.parametrize(
    "given", [{"name": "Mine"}, {"status": "archived"}, {"nodes_json": [1]}, {"is_default": False}], ids=str
)
async def test_envelope_does_not_change_at_all(owner, given):
    envelope = await insert_definition(owner, **definition_of_kind("envelope"))
    async with refused(owner, DEFAULT, saying="is a generated envelope and cannot change"):
        await update(owner, TABLE, envelope, **given)


@pytest.mark.parametrize("status", ["draft", "published", "archived"])
async def test_envelope_is_not_touched_or_deleted_in_any_status(owner, status):
    envelope = await insert_definition(owner, **definition_of_kind("envelope") | {"status": status})
    async with refused(owner, DEFAULT):
        await update(owner, TABLE, envelope, updated_at=envelope["updated_at"])
    async with refused(owner, DEFAULT):
        await delete(owner, TABLE, envelope)


@pytest.mark.parametrize("kind", ["envelope", "org_patch", "effective", "flow"])
async def test_definition_with_the_columns_of_its_kind_is_accepted(owner, kind):
    assert (await insert_definition(owner, **definition_of_kind(kind)))["definition_kind"] == kind


@pytest.mark.parametrize(("kind", "constraint", "column", "value"), KIND_CASES)
async def test_each_column_of_a_kind_is_required_or_forbidden(owner, kind, constraint, column, value):
    async with refused(owner, CHECK, constraint=constraint):
        await insert_definition(owner, **definition_of_kind(kind) | {column: value})


@pytest.mark.parametrize("column", ["compiled_json", "compiled_hash", "compiler_version"])
async def test_flow_is_published_only_when_it_is_compiled(owner, column):
    draft = await insert_definition(owner, **{column: None})
    async with refused(owner, CHECK, constraint="published_flow_is_compiled"):
        await update(owner, TABLE, draft, status="published")


async def test_one_version_of_a_key_is_published_at_a_time(owner):
    first = await insert_definition(owner, key="a.b", version=1, status="published")
    async with refused(owner, UNIQUE, constraint="one_published_version_per_key"):
        await insert_definition(owner, key="a.b", version=2, status="published")
    await update(owner, TABLE, first, status="archived")
    await insert_definition(owner, key="a.b", version=2, status="published")
