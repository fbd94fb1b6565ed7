"""A seat keeps its owner: a person who is asked instead gets another seat. A delegation can only be revoked."""

from uuid import UUID

import pytest

from tests.plain_sql import IDENTITY, PRIVILEGE, acting_for, refused
from tests.postgres import START
from tests.rows import insert, update

TABLE = "workflow_seats"

SOME_ID = UUID("00000000-0000-7000-8000-000000000001")

IDENTITY_COLUMNS = {
    "org_id": "globex",
    "id": SOME_ID,
    "kind": "form",
    "request_id": SOME_ID,
    "instance_id": SOME_ID,
    "user_id": "mallory",
    "group_name": "another",
    "position": 7,
    "via": "role:legal",
    "email": "mallory@evil.example",
    "replaces_id": SOME_ID,
    "created_at": START.replace(day=3),
}

STANDING = {"status": "decided", "note": "on holiday", "closed_at": START}

DELEGATED = {
    "from_user": "mallory",
    "to_user": "mallory",
    "ends_at": START.replace(day=9),
    "created_by": "eve",
}


async def test_every_column_of_a_seat_is_either_identity_or_says_where_it_stands(owner):
    assert set((await insert(owner, TABLE)).keys()) == set(IDENTITY_COLUMNS) | set(STANDING)


@pytest.mark.parametrize("column", IDENTITY_COLUMNS)
async def test_identity_of_a_seat_never_changes(owner, column):
    seat = await insert(owner, TABLE)
    async with refused(owner, IDENTITY, saying=f"seat {seat['id']} stays whose it is"):
        await update(owner, TABLE, seat, **{column: IDENTITY_COLUMNS[column]})


async def test_seat_that_replaces_another_does_not_forget_it(owner):
    seat = await insert(owner, TABLE, replaces_id=SOME_ID)
    async with refused(owner, IDENTITY):
        await update(owner, TABLE, seat, replaces_id=None)


@pytest.mark.parametrize("column", STANDING)
async def test_application_may_change_where_a_seat_stands(owner, column):
    seat = await insert(owner, TABLE)
    async with acting_for(owner, "acme"):
        assert await update(owner, TABLE, seat, **{column: STANDING[column]}) == 1


async def test_application_has_no_right_to_give_a_seat_to_another(owner):
    seat = await insert(owner, TABLE)
    async with acting_for(owner, "acme"), refused(owner, PRIVILEGE, saying="permission denied"):
        await update(owner, TABLE, seat, user_id="mallory")


@pytest.mark.parametrize("column", DELEGATED)
async def test_application_may_revoke_a_delegation_and_change_nothing_else_of_it(owner, column):
    delegation = await insert(owner, "approval_delegations")
    async with acting_for(owner, "acme"):
        async with refused(owner, PRIVILEGE, saying="permission denied"):
            await update(owner, "approval_delegations", delegation, **{column: DELEGATED[column]})
        assert await update(owner, "approval_delegations", delegation, revoked_at=START) == 1


async def test_delegation_may_have_no_end(owner):
    assert (await insert(owner, "approval_delegations", ends_at=None))["ends_at"] is None
