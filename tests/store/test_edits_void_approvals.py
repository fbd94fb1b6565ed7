"""An edit voids what was asked about the content before it, in the edit's own transaction."""

import pytest

from tests.plain_sql import STATUS, acting_for, refused
from tests.postgres import START
from tests.rows import (
    change_of,
    insert_entity,
    insert_instance_of,
    insert_request_about,
    insert_seat,
    read_entity,
    set_edit_windows,
    update,
    window,
    write_entities,
)

EDITED = {"number": "1", "grand_total": 999}


async def _status(connection, request):
    return await connection.fetchval(
        "SELECT status FROM assent.approval_requests WHERE org_id = $1 AND id = $2",
        request["org_id"],
        request["id"],
    )


async def _edit(connection, entity, **given):
    await write_entities(connection, change_of(entity, **{"data": EDITED} | given))


@pytest.mark.parametrize("status", ["pending", "approved"])
async def test_edit_voids_what_is_open_and_what_is_approved_but_unapplied(owner, status):
    entity = await insert_entity(owner)
    request = await insert_request_about(owner, entity, status=status)
    await _edit(owner, entity)
    found = await owner.fetchrow("SELECT * FROM assent.approval_requests")
    assert (found["status"], found["reason"], found["decided_at"]) == ("void", "edited: version 2", START)
    assert found["id"] == request["id"]


async def test_void_approval_keeps_the_time_of_its_decision(owner):
    entity, decided = await insert_entity(owner), START.replace(day=1)
    await insert_request_about(owner, entity, status="approved", decided_at=decided)
    await _edit(owner, entity)
    assert await owner.fetchval("SELECT decided_at FROM assent.approval_requests") == decided


@pytest.mark.parametrize("status", ["rejected", "returned", "cancelled", "void"])
async def test_edit_leaves_what_has_ended_otherwise(owner, status):
    entity = await insert_entity(owner)
    request = await insert_request_about(owner, entity, status=status)
    await _edit(owner, entity)
    assert await _status(owner, request) == status


async def test_edit_leaves_what_was_applied(owner):
    entity = await insert_entity(owner)
    request = await insert_request_about(owner, entity, status="approved", applied_at=START)
    await _edit(owner, entity)
    assert await _status(owner, request) == "approved"


async def test_edit_closes_the_seats_of_what_it_voids_and_leaves_answers(owner):
    entity = await insert_entity(owner)
    request = await insert_request_about(owner, entity)
    kept = await insert_request_about(owner, entity, status="approved", applied_at=START)
    for name in ("open", "later", "decided", "closed"):
        await insert_seat(owner, request, user_id=name, status=name)
    await insert_seat(owner, kept, user_id="elsewhere", status="open")
    await _edit(owner, entity)
    found = await owner.fetch("SELECT user_id, status, closed_at FROM assent.workflow_seats")
    assert {tuple(seat) for seat in found} == {
        ("open", "closed", START),
        ("later", "closed", START),
        ("decided", "decided", None),
        ("closed", "closed", None),
        ("elsewhere", "open", None),
    }


async def test_write_that_leaves_the_content_alone_voids_nothing(owner):
    entity = await insert_entity(owner)
    request = await insert_request_about(owner, entity)
    seat = await insert_seat(owner, request)
    noted = EDITED | {"grand_total": 100, "posted_at": "2026-03-02"}
    await _edit(owner, entity, data=noted, content_hash=entity["content_hash"])
    moved = await read_entity(owner, "acme", entity["id"])
    await write_entities(owner, change_of(moved, content_hash=entity["content_hash"], state="submitted"))
    assert await _status(owner, request) == "pending"
    assert (
        await owner.fetchval("SELECT status FROM assent.workflow_seats WHERE id = $1", seat["id"]) == "open"
    )


async def test_window_that_moves_voids_nothing(owner):
    entity = await insert_entity(owner)
    request = await insert_request_about(owner, entity)
    instance = await insert_instance_of(owner, entity)
    await set_edit_windows(owner, window(entity, instance, "amend_only"))
    assert await _status(owner, request) == "pending"


async def test_edits_of_a_set_void_what_is_about_the_edited_and_nothing_of_the_others(owner):
    first, second, third = [await insert_entity(owner) for _ in range(3)]
    foreign = await insert_entity(owner, org_id="globex", entity_id=first["id"])
    requests = [await insert_request_about(owner, entity) for entity in (first, second, third, foreign)]
    third_moved = change_of(third, state="submitted")
    await write_entities(owner, change_of(first, data=EDITED), change_of(second, data=EDITED), third_moved)
    assert [await _status(owner, request) for request in requests] == ["void", "void", "pending", "pending"]


async def test_edit_and_edit_back_in_one_set_voids_all_the_same(owner):
    entity = await insert_entity(owner)
    request = await insert_request_about(owner, entity)
    there = change_of(entity, data=EDITED)
    back = change_of(dict(entity) | {"version": 2}, layer=2)
    await write_entities(owner, there, back)
    assert (await read_entity(owner, "acme", entity["id"]))["content_hash"] == entity["content_hash"]
    assert await _status(owner, request) == "void"


async def test_edit_by_the_application_voids_too(owner):
    entity = await insert_entity(owner)
    request = await insert_request_about(owner, entity)
    await insert_seat(owner, request)
    async with acting_for(owner, "acme"):
        await _edit(owner, entity)
        assert await _status(owner, request) == "void"
        assert await owner.fetchval("SELECT status FROM assent.workflow_seats") == "closed"


async def test_edit_that_is_rolled_back_voids_nothing(owner):
    entity = await insert_entity(owner)
    request = await insert_request_about(owner, entity)
    savepoint = owner.transaction()
    await savepoint.start()
    await _edit(owner, entity)
    await savepoint.rollback()
    assert await _status(owner, request) == "pending"


async def test_void_request_is_not_approved_later(owner):
    entity = await insert_entity(owner)
    request = await insert_request_about(owner, entity)
    await _edit(owner, entity)
    async with refused(owner, STATUS, saying="may not move from void to approved"):
        await update(owner, "approval_requests", request, status="approved")
