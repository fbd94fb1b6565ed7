"""A request keeps what it asks; where it stands may change, and consumed is consumed (WF-03)."""

from uuid import UUID

import pytest

from tests.plain_sql import CONSUMED, IDENTITY, PRIVILEGE, acting_for, refused
from tests.postgres import START
from tests.rows import (
    change_of,
    insert_entity,
    insert_request,
    insert_request_about,
    read_entity,
    update,
    write_entities,
)

TABLE = "approval_requests"

SOME_ID = UUID("00000000-0000-7000-8000-000000000001")

ASKED = {
    "org_id": "globex",
    "id": SOME_ID,
    "instance_id": SOME_ID,
    "step_id": SOME_ID,
    "node_id": "another",
    "entity_type": "order",
    "entity_id": SOME_ID,
    "entity_version": 7,
    "snapshot_version_id": SOME_ID,
    "chain_id": SOME_ID,
    "mode": "all",
    "approvers": ["mallory"],
    "requested_by": "mallory",
    "due_at": START.replace(day=3),
    "currency": "USD",
    "created_at": START.replace(day=3),
    "token_id": "7",
    "generation": 7,
    "slot": "slot:another",
    "content_hash": "x",
    "partition_id": "north",
    "title": "Another",
    "figure": 7,
    "may_repeat": True,
    "node_name": "another",
}

STANDING = {
    "status": "approved",
    "reason": "it is right",
    "applied_at": START,
    "applied_step_id": SOME_ID,
    "decided_at": START,
    "claimed_by": "bea",
    "claimed_at": START,
    "originators": ["ann", "bea"],
    "questions": 1,
}

AT_ONCE = {"claimed_by": "claimed_at", "claimed_at": "claimed_by", "applied_step_id": "applied_at"}
"""A claim has a name and a date, and what a step consumed was applied."""


async def _approved(connection):
    return await insert_request_about(connection, await insert_entity(connection), status="approved")


async def test_every_column_of_a_request_is_either_asked_or_says_where_it_stands(owner):
    # The transaction that consumed it is the database's own note.
    assert set((await insert_request(owner)).keys()) == set(ASKED) | set(STANDING) | {"applied_xid"}


@pytest.mark.parametrize("column", ASKED)
async def test_what_a_request_asks_never_changes(owner, column):
    request = await _approved(owner)
    async with refused(owner, IDENTITY, saying=f"approval request {request['id']} keeps what it asks"):
        await update(owner, TABLE, request, **{column: ASKED[column]})


@pytest.mark.parametrize("column", STANDING)
async def test_application_may_change_where_a_request_stands(owner, column):
    request = await insert_request(owner, status="approved" if column.startswith("applied") else "pending")
    columns = {column, AT_ONCE.get(column, column)}
    async with acting_for(owner, "acme"):
        assert await update(owner, TABLE, request, **{name: STANDING[name] for name in columns}) == 1


async def test_application_has_no_right_to_change_what_a_request_asks(owner):
    request = await insert_request(owner)
    async with acting_for(owner, "acme"), refused(owner, PRIVILEGE, saying="permission denied"):
        await update(owner, TABLE, request, approvers=["mallory"])


async def test_originators_of_a_request_only_grow(owner):
    request = await insert_request(owner, originators=["ann", "bea"])
    assert await update(owner, TABLE, request, originators=["bea", "cid", "ann"]) == 1
    for fewer in ([], ["ann", "bea"], ["cid", "dan"]):
        async with refused(owner, IDENTITY, saying="keeps its originators"):
            await update(owner, TABLE, request, originators=fewer)


async def test_claim_can_be_given_back(owner):
    request = await insert_request(owner, claimed_by="bea", claimed_at=START)
    assert await update(owner, TABLE, request, claimed_by=None, claimed_at=None) == 1


async def test_approval_of_the_content_that_the_entity_has_is_consumed(owner):
    request = await _approved(owner)
    async with acting_for(owner, "acme"):
        assert await update(owner, TABLE, request, applied_at=START) == 1


@pytest.mark.parametrize(
    "again", [{"applied_at": START.replace(day=3)}, {"applied_at": None}, {"applied_step_id": SOME_ID}]
)
async def test_what_was_consumed_is_not_consumed_again_and_not_given_back(owner, again):
    request = await _approved(owner)
    await update(owner, TABLE, request, applied_at=START)
    async with refused(owner, CONSUMED, saying=f"approval request {request['id']} was consumed before"):
        await update(owner, TABLE, request, **again)


async def test_what_was_consumed_is_not_void_afterwards(owner):
    request = await _approved(owner)
    await update(owner, TABLE, request, applied_at=START)
    async with refused(owner, CONSUMED, saying="was consumed before"):
        await update(owner, TABLE, request, status="void", applied_at=None)


async def test_approval_of_a_flow_without_an_entity_is_consumed_once_as_well(owner):
    request = await insert_request(owner, status="approved")
    assert await update(owner, TABLE, request, applied_at=START) == 1
    async with refused(owner, CONSUMED):
        await update(owner, TABLE, request, applied_at=START.replace(day=3))


async def test_approval_is_not_consumed_for_content_that_nobody_approved(owner):
    """Such a request cannot come to be: the edit voids it. Were it there, the database would refuse it."""
    entity = await insert_entity(owner)
    edited = {"number": "1", "grand_total": 999}
    await write_entities(owner, change_of(entity, data=edited))
    request = await insert_request_about(owner, entity, status="approved")
    async with refused(owner, CONSUMED, saying=f"another content than entity {entity['id']} has"):
        await update(owner, TABLE, request, applied_at=START)


async def test_approval_outlives_versions_that_leave_its_content_alone(owner):
    entity = await insert_entity(owner)
    request = await insert_request_about(owner, entity, status="approved")
    noted = {"number": "1", "grand_total": 100, "posted_at": "2026-03-02"}
    await write_entities(owner, change_of(entity, data=noted, content_hash=entity["content_hash"]))
    assert (await read_entity(owner, "acme", entity["id"]))["version"] == 2
    assert await update(owner, TABLE, request, applied_at=START) == 1


async def test_approval_of_another_orgs_entity_with_the_same_content_is_not_consumed(owner):
    entity = await insert_entity(owner)
    foreign = await insert_request_about(
        owner, entity, org_id="globex", status="approved", snapshot_version_id=SOME_ID
    )
    async with refused(owner, CONSUMED, saying="another content"):
        await update(owner, TABLE, foreign, applied_at=START)
