"""Edit windows: an instance moves the window of its own entity, and with it nothing else."""

from uuid import UUID

import pytest

from tests.plain_sql import NOT_BY_THE_DOOR, acting_for, refused
from tests.postgres import START
from tests.rows import (
    change_of,
    insert_entity,
    insert_instance,
    insert_instance_of,
    read_entity,
    set_edit_windows,
    update,
    window,
    write_entities,
)


async def _reread(connection, entity):
    return await read_entity(connection, entity["org_id"], entity["id"])


async def _held_by_instance(connection):
    """A locked entity, and the running instance that holds its window."""
    entity = await insert_entity(connection)
    instance = await insert_instance_of(connection, entity)
    await set_edit_windows(connection, window(entity, instance, "locked"))
    return await _reread(connection, entity), instance


async def test_window_moves_with_the_state(owner):
    entity = await insert_entity(owner, state="active", edit_window="locked")
    await write_entities(owner, change_of(entity, state="draft", edit_window="editable"))
    assert (await _reread(owner, entity))["edit_window"] == "editable"


async def test_window_does_not_move_without_the_state(owner):
    entity = await insert_entity(owner, edit_window="locked")
    async with refused(owner, NOT_BY_THE_DOOR, saying="moves only with its state"):
        await write_entities(owner, change_of(entity, edit_window="editable"))


async def test_window_does_not_move_with_the_state_while_an_instance_holds_it(owner):
    entity, _ = await _held_by_instance(owner)
    async with refused(owner, NOT_BY_THE_DOOR, saying="or with its instance"):
        await write_entities(owner, change_of(entity, state="active", edit_window="editable"))


@pytest.mark.parametrize(
    "changed", ["version = version + 1", "state = 'paid'", "data_hash = 'x'", "content_hash = 'x'"]
)
async def test_window_moves_without_version_state_and_content(owner, changed):
    await insert_entity(owner)
    await owner.execute("SELECT set_config('assent.door', 'advance', true)")
    async with refused(owner, NOT_BY_THE_DOOR, saying="moves without its content"):
        await owner.execute(f"UPDATE assent.entities SET {changed}")  # noqa: S608


async def test_instance_moves_the_window_of_its_entity_and_nothing_else(owner):
    entity = await insert_entity(owner)
    instance = await insert_instance_of(owner, entity)
    async with acting_for(owner, "acme"):
        await set_edit_windows(owner, window(entity, instance, "amend_only"))
    found = await _reread(owner, entity)
    moved = {"edit_window": "amend_only", "instance_id": instance["id"]}
    assert dict(found) == dict(entity) | moved
    assert await owner.fetchval("SELECT count(*) FROM assent.entity_versions") == 1


async def test_window_stays_and_the_entity_is_free_when_its_instance_has_ended(owner):
    entity, instance = await _held_by_instance(owner)
    await set_edit_windows(owner, window(entity, instance, "locked", ended=True))
    found = await _reread(owner, entity)
    assert (found["edit_window"], found["instance_id"]) == ("locked", None)


async def test_instance_does_not_move_the_window_that_another_holds(owner):
    entity, holder = await _held_by_instance(owner)
    await update(owner, "workflow_instances", holder, status="completed", completed_at=START)
    second = await insert_instance_of(owner, entity)
    async with refused(owner, NOT_BY_THE_DOOR, saying="1 of 1 windows belong to another instance"):
        await set_edit_windows(owner, window(entity, second, "editable"))


async def test_instance_does_not_move_the_window_of_another_entity(owner):
    entity = await insert_entity(owner)
    foreign = await insert_instance_of(owner, await insert_entity(owner))
    async with refused(owner, NOT_BY_THE_DOOR):
        await set_edit_windows(owner, window(entity, foreign, "locked"))


@pytest.mark.parametrize("instance", [{"id": UUID(int=7)}, None])
async def test_window_is_not_moved_by_an_instance_that_is_not_there_or_has_no_entity(owner, instance):
    entity = await insert_entity(owner)
    async with refused(owner, NOT_BY_THE_DOOR):
        await set_edit_windows(owner, window(entity, instance or await insert_instance(owner), "locked"))


async def test_one_foreign_window_refuses_the_whole_set(owner):
    entity = await insert_entity(owner)
    own = await insert_instance_of(owner, entity)
    other = await insert_entity(owner)
    async with refused(owner, NOT_BY_THE_DOOR, saying="1 of 2 windows"):
        await set_edit_windows(owner, window(entity, own, "locked"), window(other, own, "locked"))
    assert await _reread(owner, entity) == entity


async def test_instance_that_has_ended_does_not_reopen_a_frozen_window(owner):
    entity, instance = await _held_by_instance(owner)
    await set_edit_windows(owner, window(entity, instance, "locked", ended=True))
    await update(owner, "workflow_instances", instance, status="completed", completed_at=START)
    async with refused(owner, NOT_BY_THE_DOOR, saying="belong to another instance"):
        await set_edit_windows(owner, window(entity, instance, "editable"))
