"""The twin org at the end of a test: any change to it is noticed, whichever session made it."""

# ruff: noqa: S608 - the mark of the twin is our own

import pytest

from assent.store.database import Database
from tests.postgres import SETTINGS, Databases, past_the_guards
from tests.twin import TWIN, Twin


@pytest.fixture
async def copy(databases: Databases, twin: Twin):
    """The URL of a copy of the twin's database."""
    async with databases.fresh(twin.template) as url:
        yield url


async def _noticed(twin: Twin, url: str) -> str:
    with pytest.raises(AssertionError, match="rows of the twin org were changed") as caught:
        await twin.assert_untouched(url)
    return str(caught.value)


TOUCHES = {
    "update": (
        "members",
        f"UPDATE assent.members SET name = 'x' WHERE org_id = '{TWIN}' AND user_id = 'ann'",
    ),
    "insert": ("orgs", f"UPDATE assent.orgs SET org_id = 'other' WHERE org_id = '{TWIN}'"),
    "delete": (
        "approval_turns",
        f"DELETE FROM assent.approval_turns WHERE org_id = '{TWIN}' AND role = 'clerk'",
    ),
    "of a partition": (
        "workflow_step_executions",
        f"DELETE FROM assent.workflow_step_executions WHERE org_id = '{TWIN}'",
    ),
    "truncate": ("http_replies", "TRUNCATE assent.http_replies"),
    "dropped partition": (
        "workflow_step_executions",
        "DROP TABLE assent.workflow_step_executions_default, assent.workflow_step_executions_2026_03",
    ),
}


@pytest.mark.parametrize(("table", "statement"), TOUCHES.values(), ids=TOUCHES)
async def test_what_is_done_to_the_twin_is_noticed(twin: Twin, copy: str, table: str, statement: str):
    async with past_the_guards(copy) as connection:
        await connection.execute(statement)
    assert table in await _noticed(twin, copy)


async def test_what_a_session_did_that_is_still_open_is_noticed(twin: Twin, copy: str):
    database = await Database.open(copy, settings=SETTINGS)
    async with database.transaction(None) as connection:
        await connection.execute("DELETE FROM assent.approval_turns WHERE org_id = $1", TWIN)
    assert "approval_turns" in await _noticed(twin, copy)
    await database.close()


async def test_what_is_done_beside_the_twin_is_not_held_against_it(twin: Twin, copy: str):
    async with past_the_guards(copy) as connection:
        await connection.execute("INSERT INTO assent.orgs (org_id, name) VALUES ('acme', 'Acme')")
        await connection.execute("UPDATE assent.orgs SET name = 'A' WHERE org_id = 'acme'")
    await twin.assert_untouched(copy)


WITHOUT_ROWS = {
    "alerted_incidents": "forgotten for all orgs where nothing is open any more",
    "approval_decisions": "no one can decide what the twin is asked: what a decision goes by is refused for it",
    "entity_indexes": "of all orgs",
    "incoming_results": "a trigger moves each row on, and none stays",
}
"""Tables of orgs in which the twin has nothing, and why."""


def test_the_twin_has_something_in_every_table_of_orgs(twin: Twin):
    assert {name for name, (number, _) in twin.digest.items() if not number} == WITHOUT_ROWS.keys()
