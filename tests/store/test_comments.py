"""What people write stays as it was written; a question is answered once, or closed when its request ends."""

import pytest

from tests.plain_sql import APPEND_ONLY, IDENTITY, PRIVILEGE, acting_for, refused
from tests.postgres import START
from tests.rows import insert, insert_request, update

TABLE = "comments"

WRITTEN = {
    "org_id": "globex",
    "id": "00000000-0000-7000-8000-000000000001",
    "kind": "question",
    "author_id": "mallory",
    "text": "Pay it.",
    "mentions": ["mallory"],
    "partition_id": "north",
    "entity_type": "order",
    "entity_id": "00000000-0000-7000-8000-000000000001",
    "entity_version": 7,
    "request_id": "00000000-0000-7000-8000-000000000001",
    "instance_id": "00000000-0000-7000-8000-000000000001",
    "asks": "mallory",
    "created_at": START.replace(day=3),
}
ANSWER = {"answer": "For the office.", "answered_at": START}


async def insert_question(owner, **given):
    request = await insert_request(owner, questions=1)
    about = {"request_id": request["id"], "instance_id": request["instance_id"], "asks": "bob"}
    return request, await insert(owner, TABLE, kind="question", **about | given)


@pytest.mark.parametrize("column", WRITTEN)
async def test_what_was_written_stays(owner, column):
    comment = await insert(owner, TABLE)
    async with refused(owner, IDENTITY, saying="stays as it was written"):
        await update(owner, TABLE, comment, **{column: WRITTEN[column]})
    async with refused(owner, APPEND_ONLY):
        await owner.execute("DELETE FROM assent.comments")
    async with refused(owner, APPEND_ONLY):
        await owner.execute("TRUNCATE assent.comments")


async def test_question_is_answered_once(owner):
    _, question = await insert_question(owner)
    assert await update(owner, TABLE, question, **ANSWER) == 1
    for change in ({"answer": "Another."}, {"answer": None, "answered_at": None}, {"closed_at": START}):
        async with refused(owner, IDENTITY):
            await update(owner, TABLE, question, **change)


@pytest.mark.parametrize("status", ["approved", "rejected", "void", "cancelled"])
async def test_request_that_ends_closes_its_questions(owner, status):
    request, question = await insert_question(owner)
    _, other = await insert_question(owner)
    answered = await insert(
        owner,
        TABLE,
        kind="question",
        request_id=request["id"],
        instance_id=request["instance_id"],
        asks="bob",
        **ANSWER,
    )
    await update(owner, "approval_requests", request, status=status)
    closed = dict(await owner.fetch("SELECT id, closed_at IS NOT NULL FROM assent.comments"))
    assert closed == {question["id"]: True, other["id"]: False, answered["id"]: False}
    async with refused(owner, IDENTITY):
        await update(owner, TABLE, question, **ANSWER)


async def test_engine_answers_and_rewrites_nothing(owner):
    _, question = await insert_question(owner)
    async with acting_for(owner, "acme"):
        assert await update(owner, TABLE, question, **ANSWER) == 1
        async with refused(owner, PRIVILEGE):
            await update(owner, TABLE, question, text="Pay it.")
