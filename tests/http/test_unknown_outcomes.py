"""The answer to COMMIT is lost while a server works: what its clients hear, and what a repeat does."""

import pytest

from assent.store.database import Database
from tests.faults.proxy import COMMIT, Fault, Proxy
from tests.http.application import app
from tests.http.callers import CALLBACKS, SETTINGS, People, problem
from tests.http.doors import create_app
from tests.http.test_approvals import submitted
from tests.http.test_decision_links import LINKS, decide_by_mail, path_for, set_allowed
from tests.http.test_decision_links import post as post_link
from tests.postgres import SETTINGS as STORE_SETTINGS
from tests.world import rows

EXPENSES = "/api/entities/expense"
TAXI = {"data": {"title": "Taxi", "total": 1000}}
MEMBER = {"user_id": "zoe", "name": "Zoe", "roles": []}
RAISING = """
CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the server says so' USING ERRCODE = 'STATE';
END
$$;
CREATE TRIGGER writes_fail BEFORE INSERT ON assent.entity_versions FOR EACH ROW EXECUTE FUNCTION public.fail();
"""
COMMAND = 1
"""The transaction of a command over HTTP: the only one. Sign-in is a statement without one."""


@pytest.fixture
async def proxy(database_url):
    async with Proxy.before(database_url) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy, database):
    """The server's database by way of the proxy; `furnished` is the same one without it."""
    settings = STORE_SETTINGS.replace(outcome_lookup_timeout_ms=300)
    far = await Database.open(proxy.url, settings=settings, clock=database.clock)
    try:
        yield far
    finally:
        await far.close()


@pytest.fixture
def people(far, clock):
    return People(create_app(app, far, SETTINGS, CALLBACKS), clock.now())


async def post(people, path=EXPENSES, body=TAXI, user="alice", **headers):
    async with people(user) as client:
        return await client.post(path, json=body, headers=headers)


async def test_the_transactions_of_a_command_are_these(people, proxy):
    await post(people)
    assert proxy.statements[COMMIT] == COMMAND


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k1"}])
async def test_a_command_whose_answer_was_lost_is_looked_up(people, proxy, furnished, headers):
    proxy.arm(Fault(COMMIT, nth=COMMAND))
    made = await post(people, **headers)
    assert made.status_code == 201
    assert [str(row["id"]) for row in await rows(furnished, "entities")] == [made.json()["id"]]


async def test_what_cannot_be_looked_up_is_unknown_and_the_answer_says_how_to_find_out(
    people, proxy, furnished
):
    proxy.arm(Fault(COMMIT, nth=COMMAND, on_strike=proxy.refuse))
    answer = await post(people)
    unknown = problem(answer, 503)
    assert (unknown["code"], answer.headers["retry-after"]) == ("OUTCOME_UNKNOWN", "5")
    assert "may have been carried out or not" in unknown["detail"]
    entries = [str(row["id"]) for row in await rows(furnished, "audit_log")]
    assert any(entry in unknown["hint"] for entry in entries)
    assert len(await rows(furnished, "entities")) == 1


async def test_a_repeat_under_the_same_key_gets_the_answer_that_was_lost(people, proxy, furnished):
    proxy.arm(Fault(COMMIT, nth=COMMAND, on_strike=proxy.refuse))
    unknown = problem(await post(people, **{"Idempotency-Key": "k1"}), 503)
    assert unknown["code"] == "OUTCOME_UNKNOWN"
    assert "same `Idempotency-Key`" in unknown["hint"]
    proxy.admit()
    again = await post(people, **{"Idempotency-Key": "k1"})
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert [str(row["id"]) for row in await rows(furnished, "entities")] == [again.json()["id"]]


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k1"}])
async def test_a_command_that_never_arrived_changed_nothing_and_the_answer_says_so(
    people, proxy, furnished, headers
):
    proxy.arm(Fault(COMMIT, nth=COMMAND, moment="before"))
    refused = problem(await post(people, **headers), 503)
    assert (refused["code"], "nothing was changed" in refused["detail"]) == ("UNAVAILABLE", True)
    assert await rows(furnished, "entities") == []


async def test_a_lost_answer_to_the_sign_in_changes_nothing(people, proxy, furnished):
    proxy.arm(Fault("read_caller"))
    assert problem(await post(people), 503)["code"] == "UNAVAILABLE"
    assert await rows(furnished, "entities") == []
    assert (await post(people)).status_code == 201


async def test_a_decision_is_done_also_when_its_answer_cannot_be_read(people, proxy, furnished):
    _, request_id = await submitted(people)
    proxy.arm(Fault(COMMIT, nth=COMMAND, action="cut", on_strike=proxy.refuse, moment="after"))
    path, body = f"/api/approvals/{request_id}/decide", {"answer": "approved"}
    unknown = problem(await post(people, path, body, user="fin"), 503)
    assert unknown["code"] == "OUTCOME_UNKNOWN"
    proxy.admit()
    assert len(await rows(furnished, "approval_decisions")) == 1


async def test_a_decision_by_a_link_whose_answer_was_lost_is_looked_up(far, proxy, furnished, clock):
    await set_allowed(furnished, "true")
    await decide_by_mail(furnished, "fin")
    door = create_app(app, far, SETTINGS, CALLBACKS, LINKS)
    _, request_id = await submitted(People(door, clock.now()))
    path = await path_for(furnished, request_id, "fin")
    proxy.arm(Fault(COMMIT, nth=COMMAND))
    decided = await post_link(door, path)
    assert (decided.status_code, len(await rows(furnished, "approval_decisions"))) == (200, 1)


async def test_an_answer_that_fails_after_the_decision_never_says_that_nothing_was_changed(
    people, proxy, furnished
):
    """What is shown to an approver is at hand; for a delegate it is read, in a transaction after the command's."""
    _, request_id = await submitted(people)
    assert (await post(people, "/api/delegations", {"to_user": "max"}, user="fin")).status_code == 201
    proxy.arm(Fault("enter_org", nth=2, moment="before", on_strike=proxy.refuse))
    path, body = f"/api/approvals/{request_id}/decide", {"answer": "approved", "on_behalf_of": "fin"}
    answer = problem(await post(people, path, body, user="max"), 503)
    assert (answer["code"], answer["detail"]) == (
        "OUTCOME_UNKNOWN",
        "the command was carried out, but its reply could not be read",
    )
    assert len(await rows(furnished, "approval_decisions")) == 1


async def test_what_is_administered_under_a_key_is_done_once_and_answered(people, proxy, furnished):
    proxy.arm(Fault(COMMIT, nth=COMMAND))
    made = await post(people, "/api/members", MEMBER, user="adam", **{"Idempotency-Key": "k1"})
    assert (made.status_code, made.headers["idempotent-replayed"]) == (201, "true")


async def test_what_is_administered_without_a_key_is_unknown(people, proxy, furnished):
    proxy.arm(Fault(COMMIT, nth=COMMAND))
    unknown = problem(await post(people, "/api/members", MEMBER, user="adam"), 503)
    assert unknown["code"] == "OUTCOME_UNKNOWN"


@pytest.mark.parametrize(
    ("path", "body"),
    [("/api/keys", {"name": "laptop"}), ("/api/event-sources", {"name": "bank", "key_prefix": "payment:"})],
)
async def test_an_answer_with_a_secret_is_shown_once_and_a_repeat_says_that_it_was_done(people, path, body):
    first = await post(people, path, body, user="adam", **{"Idempotency-Key": "k1"})
    assert first.status_code == 201
    secret = first.json().get("key") or first.json()["secret"]
    again = await post(people, path, body, user="adam", **{"Idempotency-Key": "k1"})
    assert problem(again, 409)["code"] == "SHOWN_ONCE"
    assert secret not in again.text


@pytest.mark.parametrize("sqlstate", ["08006", "53100", "53300", "57P01", "57P03", "58030", "25006"])
async def test_a_server_that_is_starting_full_or_ending_is_unavailable_and_not_our_mistake(
    people, far, sqlstate
):
    async with far.transaction(None) as connection:
        await connection.execute(RAISING.replace("STATE", sqlstate))
    answer = await post(people)
    assert (problem(answer, 503)["code"], answer.headers["retry-after"]) == ("UNAVAILABLE", "5")
