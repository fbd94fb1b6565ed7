"""The truth wall: entities change only through their door, and a locked one is not edited by any role.

Nothing of ours runs beside these tests: what is refused here, the database refuses by itself.
"""

from uuid import uuid4

import pytest

from tests.plain_sql import (
    IDENTITY,
    LOCKED,
    NOT_BY_THE_DOOR,
    SERIALIZATION,
    VERSION,
    acting_for,
    refused,
)
from tests.postgres import START
from tests.rows import (
    change,
    change_of,
    insert_entity,
    insert_instance_of,
    read_entity,
    set_edit_windows,
    update,
    window,
    write_entities,
)

EDITED = {"number": "1", "grand_total": 999}

PLAIN_WRITES = {
    "INSERT": "INSERT INTO assent.entities SELECT * FROM assent.entities ON CONFLICT DO NOTHING",
    "UPDATE": "UPDATE assent.entities SET state = 'paid'",
    "DELETE": "DELETE FROM assent.entities",
    "TRUNCATE": "TRUNCATE assent.entities CASCADE",
}


async def _reread(connection, entity):
    return await read_entity(connection, entity["org_id"], entity["id"])


async def _locked_by(connection, instance_status="running"):
    """A locked entity whose own instance has this status."""
    entity = await insert_entity(connection)
    instance = await insert_instance_of(connection, entity)
    await set_edit_windows(connection, window(entity, instance, "locked"))
    if instance_status != "running":
        ended = None if instance_status == "paused" else START
        await update(connection, "workflow_instances", instance, status=instance_status, completed_at=ended)
    return await _reread(connection, entity), instance


@pytest.mark.parametrize("write", PLAIN_WRITES)
async def test_plain_writes_of_the_owner_are_refused(owner, write):
    entity = await insert_entity(owner)
    async with refused(owner, NOT_BY_THE_DOOR, saying=f"{write} of entities did not come through mutate"):
        await owner.execute(PLAIN_WRITES[write])
    assert await _reread(owner, entity) == entity


@pytest.mark.parametrize("write", PLAIN_WRITES)
async def test_plain_writes_are_refused_where_no_door_was_ever_heard_of(database, write):
    async with database.transaction(None) as connection:
        assert await connection.fetchval("SELECT current_setting('assent.door', true)") is None
        async with refused(connection, NOT_BY_THE_DOOR, saying=f"{write} of entities"):
            await connection.execute(PLAIN_WRITES[write])


@pytest.mark.parametrize("write", PLAIN_WRITES)
async def test_door_of_pruning_does_not_lead_to_entities(owner, write):
    await insert_entity(owner)
    await owner.execute("SELECT set_config('assent.door', 'prune', true)")
    async with refused(owner, NOT_BY_THE_DOOR, saying=f"{write} of entities"):
        await owner.execute(PLAIN_WRITES[write])


@pytest.mark.parametrize("write", ["DELETE", "TRUNCATE"])
@pytest.mark.parametrize("door", ["mutate", "advance"])
async def test_no_door_leads_out_of_entities(owner, door, write):
    await insert_entity(owner)
    await owner.execute("SELECT set_config('assent.door', $1, true)", door)
    async with refused(owner, NOT_BY_THE_DOOR, saying=f"{write} of entities"):
        await owner.execute(PLAIN_WRITES[write])


async def test_door_closes_behind_the_function_that_opened_it(owner):
    entity = await insert_entity(owner)
    await write_entities(owner, change_of(entity, data=EDITED))
    async with refused(owner, NOT_BY_THE_DOOR):
        await owner.execute(PLAIN_WRITES["UPDATE"])


async def test_write_makes_head_version_and_audit_row_together(owner):
    entity = await insert_entity(owner)
    edit = change_of(entity, data=EDITED, changed={"grand_total": [100, 999]}, reason="typo", trace_id="t-1")
    await write_entities(owner, edit)
    head = await _reread(owner, entity)
    assert (head["version"], head["data"], head["version_id"]) == (2, EDITED, edit["version_id"])
    versions = "SELECT version, data, data_hash, created_by FROM assent.entity_versions ORDER BY version"
    assert [tuple(found) for found in await owner.fetch(versions)] == [
        (1, entity["data"], entity["data_hash"], "ann"),
        (2, EDITED, edit["data_hash"], "ann"),
    ]
    audit = await owner.fetchrow("SELECT * FROM assent.audit_log WHERE id = $1", edit["audit_id"])
    assert (audit["actor_id"], audit["action"], audit["from_version"], audit["to_version"]) == (
        "ann",
        "update",
        1,
        2,
    )
    assert (audit["changes"], audit["reason"], audit["trace_id"]) == (edit["changed"], "typo", "t-1")


async def test_content_of_a_locked_entity_is_not_edited(owner):
    entity = await insert_entity(owner, state="active", edit_window="locked")
    async with acting_for(owner, "acme"), refused(owner, LOCKED, saying=f"entity {entity['id']} is locked"):
        await write_entities(owner, change_of(entity, data=EDITED))
    assert await _reread(owner, entity) == entity
    assert await owner.fetchval("SELECT count(*) FROM assent.entity_versions") == 1
    assert await owner.fetchval("SELECT count(*) FROM assent.audit_log") == 1


@pytest.mark.parametrize("window", ["editable", "amend_only"])
async def test_content_in_an_open_window_is_edited(owner, window):
    entity = await insert_entity(owner, edit_window=window)
    await write_entities(owner, change_of(entity, data=EDITED))
    assert (await _reread(owner, entity))["data"] == EDITED


async def test_locked_content_is_not_edited_on_the_way_to_an_open_state(owner):
    entity = await insert_entity(owner, state="active", edit_window="locked")
    async with refused(owner, LOCKED):
        await write_entities(owner, change_of(entity, state="draft", edit_window="editable", data=EDITED))


async def test_locked_content_is_not_edited_under_the_hash_of_the_old_content(owner):
    entity = await insert_entity(owner, state="active", edit_window="locked")
    async with refused(owner, NOT_BY_THE_DOOR, saying="other content under the hash of the version before"):
        await write_entities(
            owner, change_of(entity, state="cancelled", data=EDITED, data_hash=entity["data_hash"])
        )


async def test_locked_content_is_edited_by_the_own_running_instance(owner):
    entity, instance = await _locked_by(owner)
    await write_entities(owner, change_of(entity, data=EDITED, written_by_instance=instance["id"]))
    found = await _reread(owner, entity)
    assert (found["data"], found["edit_window"]) == (EDITED, "locked")
    written_by = "SELECT instance_id FROM assent.audit_log WHERE entity_id = $1 AND to_version = 2"
    assert await owner.fetchval(written_by, entity["id"]) == instance["id"]


@pytest.mark.parametrize("status", ["paused", "completed", "failed", "cancelled"])
async def test_locked_content_is_not_edited_by_an_instance_that_does_not_run(owner, status):
    entity, instance = await _locked_by(owner, status)
    async with refused(owner, LOCKED):
        await write_entities(owner, change_of(entity, data=EDITED, written_by_instance=instance["id"]))


async def test_locked_content_is_not_edited_by_the_instance_of_another_entity(owner):
    entity, _ = await _locked_by(owner)
    _, other = await _locked_by(owner)
    async with refused(owner, LOCKED):
        await write_entities(owner, change_of(entity, data=EDITED, written_by_instance=other["id"]))


async def test_locked_content_is_not_edited_by_an_instance_of_another_org(owner):
    entity = await insert_entity(owner, edit_window="locked")
    twin = await insert_entity(owner, org_id="globex", entity_id=entity["id"])
    foreign = await insert_instance_of(owner, twin)
    async with refused(owner, LOCKED):
        await write_entities(owner, change_of(entity, data=EDITED, written_by_instance=foreign["id"]))


@pytest.mark.parametrize("written_by", [None, uuid4()])
async def test_locked_content_is_not_edited_while_its_instance_runs_by_anybody_else(owner, written_by):
    entity, _ = await _locked_by(owner)
    async with refused(owner, LOCKED):
        await write_entities(owner, change_of(entity, data=EDITED, written_by_instance=written_by))


async def test_locked_entity_leaves_its_state_when_its_content_stays(owner):
    entity = await insert_entity(owner, state="active", edit_window="locked")
    await write_entities(owner, change_of(entity, state="cancelled", action="cancel"))
    found = await _reread(owner, entity)
    assert (found["state"], found["version"], found["edit_window"]) == ("cancelled", 2, "locked")


@pytest.mark.parametrize("version", [1, 3, 0])
async def test_version_goes_up_by_one_and_nothing_else(owner, version):
    entity = await insert_entity(owner)
    async with refused(owner, VERSION, saying=f"is at version 1 and cannot go to {version}"):
        await write_entities(owner, change_of(entity, version=version, data=EDITED))


@pytest.mark.parametrize("stale", [1, 3])
async def test_change_of_a_version_that_is_not_the_current_one_writes_nothing(owner, stale):
    entity = await insert_entity(owner)
    await write_entities(owner, change_of(entity, data=EDITED))
    other = change()
    async with refused(owner, SERIALIZATION, saying="1 of 2 entities have moved on"):
        await write_entities(owner, change_of(entity, from_version=stale, version=stale + 1), other)
    assert await read_entity(owner, "acme", other["entity_id"]) is None
    assert await owner.fetchval("SELECT count(*) FROM assent.audit_log") == 2


async def test_entity_is_not_created_twice(owner):
    entity = await insert_entity(owner)
    async with refused(owner, SERIALIZATION):
        await write_entities(owner, change(entity_id=entity["id"], data=EDITED))
    assert await _reread(owner, entity) == entity


async def test_entity_changes_twice_in_one_call_by_layers(owner):
    entity = await insert_entity(owner)
    first = change_of(entity, data=EDITED)
    second = change_of(entity, layer=2, from_version=2, version=3, state="submitted", data=EDITED)
    await write_entities(owner, second, first)
    found = await _reread(owner, entity)
    assert (found["version"], found["state"], found["data"]) == (3, "submitted", EDITED)
    assert await owner.fetchval("SELECT count(*) FROM assent.entity_versions") == 3


async def test_entity_is_created_and_changed_in_one_call_by_layers(owner):
    created = change()
    edited = change(layer=2, entity_id=created["entity_id"], from_version=1, version=2, data=EDITED)
    await write_entities(owner, created, edited)
    assert (await read_entity(owner, "acme", created["entity_id"]))["version"] == 2


async def test_entity_that_locks_in_one_layer_is_not_edited_in_the_next(owner):
    entity = await insert_entity(owner)
    lock = change_of(entity, state="active", edit_window="locked")
    edit = lock | change_of(entity, layer=2, from_version=2, version=3, state="active", data=EDITED)
    async with refused(owner, LOCKED):
        await write_entities(owner, lock, edit | {"edit_window": "locked"})
    assert await _reread(owner, entity) == entity


async def test_two_changes_of_one_entity_in_one_layer_are_refused(owner):
    entity = await insert_entity(owner)
    async with refused(owner, SERIALIZATION, saying="1 of 2 entities"):
        await write_entities(owner, change_of(entity, data=EDITED), change_of(entity, data=EDITED))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("org_id", "'globex'"),
        ("id", "gen_random_uuid()"),
        ("entity_type", "'order'"),
        ("partition_id", "'north'"),
        ("amended_from_id", "id"),
        ("created_at", "created_at + interval '1 day'"),
    ],
)
@pytest.mark.parametrize("door", ["mutate", "advance"])
async def test_entity_keeps_its_identity_also_behind_the_door(owner, door, column, value):
    await insert_entity(owner)
    await owner.execute("SELECT set_config('assent.door', $1, true)", door)
    async with refused(owner, IDENTITY, saying="keeps its identity"):
        # The names and values are this test's own.
        await owner.execute(f"UPDATE assent.entities SET version = version + 1, {column} = {value}")  # noqa: S608


async def test_change_that_is_in_no_layer_is_refused_and_not_forgotten(owner):
    entity = await insert_entity(owner)
    async with refused(owner, VERSION, saying="in no layer"):
        await owner.execute("SELECT assent.write_entities($1, 1)", [change_of(entity) | {"layer": 2}])


async def test_entity_begins_at_its_first_version(owner):
    async with refused(owner, VERSION, saying="another version than its first"):
        await write_entities(owner, change(version=3))
