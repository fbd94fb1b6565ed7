"""Status moves as `assent.model.moves` says and no other way: every pair is tried by a real UPDATE."""

from uuid import UUID

import pytest

from assent.model.moves import MOVES, is_terminal
from tests.plain_sql import STATUS, refusal_of, refused
from tests.postgres import START
from tests.rows import insert, insert_document_version, update
from tests.store.moves_sql import FILE, moves_as_sql

WORKER = UUID(int=7)

ENDED_AT = {
    "workflow_instances": "completed_at",
    "workflow_forms": "ended_at",
    "outside_requests": "ended_at",
}
"""Where a row ends exactly when its status does, and says when."""

COLUMNS = {
    ("outside_requests", "partial"): {"received": 1},
    ("outside_requests", "completed"): {"received": 2},
    ("document_requirements", "waived"): {"waived_by": "olga"},
    ("document_requirements", "rejected"): {"rejection_code": "UNREADABLE"},
    ("document_versions", "rejected"): {"rejection_code": "UNREADABLE"},
    ("blobs", "deleting"): {"delete_at": START, "deleted_at": None},
    ("blobs", "deleted"): {"delete_at": None, "deleted_at": START},
    ("blobs", "uploading"): {"delete_at": None, "deleted_at": None},
    ("blobs", "kept"): {"delete_at": None, "deleted_at": None},
}
"""What a row of such a status has besides."""


async def _insert_at(connection, table, status):
    if table == "document_versions":
        return await insert_document_version(connection, **_columns(table, status))
    return await insert(connection, table, **_columns(table, status))


def _columns(table, status):
    """What goes with a new status."""
    if table == "jobs":
        ended = status in ("done", "cancelled", "dead")
        worker_id = WORKER if status == "running" else None
        return {"status": status, "worker_id": worker_id, "ended_at": START if ended else None}
    found = {"status": status} | COLUMNS.get((table, status), {})
    if table == "document_requirements":
        satisfied_at = START if status in ("verified", "waived") else None
        known = {"request_id": WORKER, "version_id": WORKER, "waived_by": None, "satisfied_at": satisfied_at}
        return known | found
    if table == "document_versions":
        is_reviewed = is_terminal(MOVES[table], status)
        return found | ({"verified_by": "olga", "verified_at": START} if is_reviewed else {})
    if table not in ENDED_AT:
        return found
    return found | {ENDED_AT[table]: START if is_terminal(MOVES[table], status) else None}


async def _may_move(connection, table, old, new):
    row = await _insert_at(connection, table, old)
    error = await refusal_of(connection, update(connection, table, row, **_columns(table, new)))
    if error is None:
        return True
    assert error.sqlstate == STATUS, error
    assert f"{row['id']} may not move from {old} to {new}" in str(error)
    return False


@pytest.mark.parametrize("table", MOVES)
async def test_status_moves_exactly_as_the_table_says(owner, table):
    statuses = set(MOVES[table])
    found = {
        old: {new for new in statuses - {old} if await _may_move(owner, table, old, new)} for old in statuses
    }
    assert found == MOVES[table]


def test_function_of_the_schema_is_made_from_the_table():
    assert FILE.read_text() == moves_as_sql(), "run `make baseline`"


async def test_every_guard_of_a_status_names_its_table(owner):
    found = await owner.fetch(
        "SELECT tgrelid::regclass::text, encode(tgargs, 'escape') FROM pg_trigger"
        " WHERE tgfoid = 'assent.restrict_status_regression'::regproc AND tgparentid = 0"
    )
    named = {table.removeprefix("assent."): argument.removesuffix(r"\000") for table, argument in found}
    assert named == {table: table for table in MOVES}


@pytest.mark.parametrize("table", MOVES)
async def test_function_in_the_database_says_the_same(owner, table):
    sql = "SELECT assent.status_may_move($1, $2, $3)"
    statuses = set(MOVES[table])
    found = {old: {new for new in statuses if await owner.fetchval(sql, table, old, new)} for old in statuses}
    assert found == MOVES[table]


@pytest.mark.parametrize("table", MOVES)
async def test_statuses_that_the_database_knows_are_those_of_the_table(owner, table):
    known = await owner.fetchval(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid = ('assent.' || $1)::regclass AND conname ~ '_status_is_known$'",
        table,
    )
    assert {word for word in known.split("'") if word.replace("_", "").isalpha()} == set(MOVES[table])


@pytest.mark.parametrize("table", MOVES)
async def test_update_that_leaves_the_status_as_it_is_is_no_move(owner, table):
    for status in MOVES[table]:
        row = await _insert_at(owner, table, status)
        assert await update(owner, table, row, status=status) == 1


async def test_one_illegal_move_refuses_the_whole_statement(owner):
    await insert(owner, "workflow_events_outbox", status="pending")
    await insert(owner, "workflow_events_outbox", status="completed")
    async with refused(owner, STATUS):
        await owner.execute("UPDATE assent.workflow_events_outbox SET status = 'failed'")


async def test_unknown_life_and_unknown_status_lead_nowhere(owner):
    for asked in (
        ("workflow_instances", "running", "dreaming"),
        ("workflow_instances", "dreaming", "running"),
        ("nothing", "a", "b"),
    ):
        assert await owner.fetchval("SELECT assent.status_may_move($1, $2, $3)", *asked) is False
