"""A form keeps what it asks and its assignees; its status, claim and draft may change until it has ended."""

from uuid import UUID

import pytest

from tests.plain_sql import IDENTITY, PRIVILEGE, acting_for, refused
from tests.postgres import START
from tests.rows import insert, update

TABLE = "workflow_forms"

SOME_ID = UUID("00000000-0000-7000-8000-000000000001")

ASKED = {
    "org_id": "globex",
    "id": SOME_ID,
    "instance_id": SOME_ID,
    "node_id": "another",
    "node_name": "another",
    "label": "Another",
    "entity_type": "order",
    "entity_id": SOME_ID,
    "entity_version": 7,
    "partition_id": "north",
    "title": "Another",
    "figure": 7,
    "currency": "EUR",
    "schema_json": {"type": "array"},
    "answers": ["eaten"],
    "assignee": {"declared": {"user": "mallory"}},
    "requested_by": "mallory",
    "due_at": START.replace(day=3),
    "created_at": START.replace(day=3),
}

DRAFT = {"draft_json": {"a": 1}, "draft_by": "bea", "draft_at": START, "draft_problems": []}
CLAIM = {"claimed_by": "bea", "claimed_at": START}
END = {"status": "answered", "ended_at": START, "reason": "submitted"}
STANDING = {**DRAFT, **CLAIM, **END}


async def test_every_column_of_a_form_is_either_asked_or_says_where_it_stands(owner):
    assert set((await insert(owner, TABLE)).keys()) == set(ASKED) | set(STANDING)


@pytest.mark.parametrize("column", ASKED)
async def test_what_a_form_asks_never_changes(owner, column):
    form = await insert(owner, TABLE)
    async with refused(owner, IDENTITY, saying=f"form {form['id']} keeps what it asks"):
        await update(owner, TABLE, form, **{column: ASKED[column]})


@pytest.mark.parametrize("columns", [DRAFT, CLAIM, END], ids=["draft", "claim", "end"])
async def test_application_may_change_where_a_form_stands(owner, columns):
    form = await insert(owner, TABLE)
    async with acting_for(owner, "acme"):
        assert await update(owner, TABLE, form, **columns) == 1


async def test_application_has_no_right_to_ask_something_else(owner):
    form = await insert(owner, TABLE)
    async with acting_for(owner, "acme"), refused(owner, PRIVILEGE, saying="permission denied"):
        await update(owner, TABLE, form, schema_json={})


@pytest.mark.parametrize("columns", [DRAFT, CLAIM, {"reason": "another"}], ids=["draft", "claim", "reason"])
@pytest.mark.parametrize("status", ["answered", "cancelled"])
async def test_form_that_has_ended_stays_as_it_is(owner, columns, status):
    form = await insert(owner, TABLE, status=status, ended_at=START)
    async with refused(owner, IDENTITY, saying=f"is {status} and stays as it is"):
        await update(owner, TABLE, form, **columns)
