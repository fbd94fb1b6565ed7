"""Whatever goes wrong has a status, a code and a form; and what happened inside stays inside."""

import re
from pathlib import Path
from uuid import UUID

import asyncpg
import httpx
import pytest

from assent.model.ids import step_key
from assent.refusals import BUSY_STATES, STATUS_OF, TITLES, rejection_from, status_of
from assent.store.errors import OutcomeUnknown, StoreError
from tests.http.application import app
from tests.http.callers import SETTINGS, bearer, problem, token
from tests.http.doors import create_app
from tests.rows import insert

SOURCE = Path(__file__).parents[2] / "src" / "assent"
REJECTED = re.compile(r'Rejection\(\s*"([A-Z_]+)"')

ABOUT_WHAT_WAS_SENT = {
    "AMBIGUOUS_ID",
    "APPROVAL_CANNOT_BE_SKIPPED",
    "BAD_DATES",
    "BAD_FILTER",
    "BAD_NAME",
    "BAD_VALUE",
    "BLANK",
    "CHAIN_NOT_FOUND",
    "EDGE_NOT_FOUND",
    "EMPTY_FILE",
    "INACTIVE",
    "INPUT_DOES_NOT_FIT",
    "KEY_IS_SIGNED",
    "MISSING_KEY",
    "NOT_AN_ORIGINATOR",
    "NOT_ASKED",
    "NO_PUBLIC_URL",
    "RESERVED_NAME",
    "RULE_BROKEN",
    "RULE_MISSING",
    "STEP_NOT_FOUND",
    "TOKEN_NOT_FOUND",
    "TOO_LONG",
    "TOO_MANY_APPROVERS",
    "TOO_MANY_FILTERS",
    "UNKNOWN_EVENT",
    "UNKNOWN_KEY",
    "OUT_OF_RANGE",
    "UNKNOWN_OPERATION",
    "UNKNOWN_REJECTION_CODE",
    "UNKNOWN_RESOURCE",
    "UNKNOWN_TASK",
    "UNKNOWN_SCOPE",
    "UNKNOWN_USER",
    "WRONG_TYPE",
}
"""Codes that are 422 without being in the table: the request itself, or what it names, is not right."""


def test_somebody_has_thought_of_the_status_of_every_code():
    found = {code for file in SOURCE.rglob("*.py") for code in REJECTED.findall(file.read_text())}
    assert found - STATUS_OF.keys() == ABOUT_WHAT_WAS_SENT


def test_every_status_has_a_title():
    assert set(STATUS_OF.values()) <= TITLES.keys()
    assert status_of("SOMETHING_NEW") == 422


async def test_a_path_that_is_none_is_a_problem_too(people):
    async with people("alice") as client:
        assert problem(await client.get("/nowhere"), 404)["code"] == "NO_SUCH_ROUTE"
        wrong = await client.delete("/api/instances")
        assert (problem(wrong, 405)["code"], wrong.headers["allow"]) == ("METHOD_NOT_ALLOWED", "GET")


async def test_a_problem_says_where_it_was_and_what_it_is_called(people):
    async with people("alice") as client:
        found = problem(await client.get("/api/entities/unicorn"), 404)
    assert (found["type"], found["title"]) == ("urn:assent:problem:UNKNOWN_ENTITY_TYPE", "Not found")
    assert found["instance"] == "/api/entities/unicorn"
    assert "unicorn" in found["detail"]


class Failing:
    """A database of which every transaction and every glance fails."""

    def __init__(self, database, error):
        self.clock, self.settings = database.clock, database.settings
        self._error = error

    def transaction(self, *_, **__):
        raise self._error

    def glance(self):
        raise self._error


def _database_error(state):
    return asyncpg.PostgresError.new({"C": state, "M": "secret of the schema", "S": "ERROR"})


async def _answer(database, error, clock, path="/api/instances"):
    door = create_app(app, Failing(database, error), SETTINGS)
    transport = httpx.ASGITransport(door, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://assent") as client:
        return await client.get(path, headers=bearer(token(clock.now(), "alice")))


@pytest.mark.parametrize("state", sorted(BUSY_STATES))
async def test_a_busy_database_says_when_to_try_again(database, clock, state):
    found = await _answer(database, _database_error(state), clock)
    assert (problem(found, 503)["code"], found.headers["retry-after"]) == ("BUSY", "1")
    assert "secret" not in found.text


@pytest.mark.parametrize(
    "error",
    [
        StoreError("no connection to secret"),
        ConnectionRefusedError("secret"),
        asyncpg.InterfaceError("secret"),
    ],
)
async def test_a_database_that_is_away_is_told(database, clock, error):
    for path in ("/api/instances", "/readyz"):
        found = await _answer(database, error, clock, path)
        assert problem(found, 503)["code"] == "UNAVAILABLE"
        assert "secret" not in found.text


@pytest.mark.parametrize("reveals_errors", [True, False])
@pytest.mark.parametrize(
    "error",
    [TimeoutError(), ConnectionResetError(), StoreError(), asyncpg.InterfaceError("")],
    ids=lambda error: type(error).__name__,
)
def test_a_database_that_is_away_is_told_in_words(error, reveals_errors):
    rejection = rejection_from(error, reveals_errors=reveals_errors)
    assert rejection is not None
    assert rejection.code == "UNAVAILABLE"
    assert "database" in rejection.message


@pytest.mark.parametrize("error", [RuntimeError("secret"), _database_error("23505")])
async def test_a_mistake_of_ours_tells_nothing_of_the_inside(database, clock, error, caplog):
    found = await _answer(database, error, clock)
    assert problem(found, 500)["code"] == "UNEXPECTED"
    assert "secret" not in found.text
    assert "a request failed" in caplog.text


async def test_health_needs_nobody_and_readiness_knows_the_schema(people, furnished, door):
    async with people("alice") as client:
        client.headers.pop("authorization")
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/readyz")).json() == {"status": "ok"}
        async with furnished.transaction(None) as connection:
            newest = await connection.fetchval("SELECT max(version) FROM assent.schema_migrations")
            await connection.execute("DELETE FROM assent.schema_migrations WHERE version = $1", newest)
        assert problem(await client.get("/readyz"), 503)["hint"] == "run `assent migrate`"
        assert (await client.get("/healthz")).status_code == 200


async def test_an_instance_whose_row_is_behind_its_steps_is_a_conflict(people, furnished):
    async with people("alice") as client:
        started = await client.post("/api/flows/orders.approval/start", json={"order_id": "7"})
    instance_id = started.json()["id"]
    async with furnished.transaction(None) as connection:
        # The step that follows has its receipt; the row of the instance does not know of it.
        key = step_key(instance_id, "process", "0", 0)
        await insert(connection, "workflow_step_receipts", instance_id=instance_id, idempotency_key=key)
    async with people("bob") as client:
        reply = await client.post(f"/api/instances/{instance_id}/advance", json={"event": "approved"})
    found = problem(reply, 409)
    assert (found["code"], found["hint"]) == ("PROJECTION_BEHIND", f"run `assent rebuild {instance_id}`")


@pytest.mark.parametrize("reveals_errors", [True, False])
@pytest.mark.parametrize("audit_id", [None, UUID(int=7)])
def test_a_lost_commit_is_an_unknown_outcome_in_the_shared_mapping(reveals_errors, audit_id):
    rejection = rejection_from(OutcomeUnknown("acme", audit_id), reveals_errors=reveals_errors)
    assert rejection.code == "OUTCOME_UNKNOWN"
    assert "nothing was changed" not in rejection.message
    if not reveals_errors and audit_id:
        assert str(audit_id) in rejection.hint
