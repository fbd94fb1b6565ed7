"""Forms through HTTP: seen, taken on, drafted, handed on."""

from uuid import uuid4

import pytest

from tests.http.callers import ask, problem


@pytest.fixture
async def form(people) -> dict[str, str]:
    """A survey that asks clerks: the step and the instance."""
    started = (await ask(people, "alice", "POST", "/api/flows/survey/start", {"order": 7})).json()
    return {"instance": started["id"], "path": f"/api/forms/{started['steps'][0]['step_id']}"}


async def test_a_form_says_what_it_asks(people, form):
    shown = (await ask(people, "alice", "GET", form["path"])).json()
    assert (shown["status"], shown["node_name"], shown["asked"]) == ("open", "ask", ["alice"])
    assert shown["form_schema"]["required"] == ["rating"]
    (item,) = (await ask(people, "alice", "GET", "/api/inbox?kind=form")).json()["items"]
    assert form["path"].endswith(item["request_id"])


async def test_a_draft_is_kept_right_or_wrong_and_says_what_is_wrong(people, form):
    kept = (await ask(people, "alice", "PUT", f"{form['path']}/draft", {"data": {"note": "so far"}})).json()
    assert (kept["draft"], kept["draft_by"]) == ({"note": "so far"}, "alice")
    assert [(found["code"], found["path"]) for found in kept["draft_problems"]] == [
        ("MISSING_FIELD", ["data", "rating"])
    ]
    right = (await ask(people, "alice", "PUT", f"{form['path']}/draft", {"data": {"rating": 5}})).json()
    assert right["draft_problems"] == []


async def test_a_claimed_form_is_claimed_until_it_is_released(people, form, furnished):
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.members SET roles = '{clerk}' WHERE org_id = 'acme' AND user_id = 'bob'"
        )
    assert (await ask(people, "alice", "POST", f"{form['path']}/claim")).json()["claimed_by"] == "alice"
    assert problem(await ask(people, "bob", "POST", f"{form['path']}/claim"), 409)["code"] == "CLAIMED"
    assert (await ask(people, "alice", "POST", f"{form['path']}/release")).json()["claimed_by"] is None


async def test_a_form_is_handed_on_and_answered_by_whoever_has_it_now(people, form):
    body = {"from_user": "alice", "to_user": "max", "reason": "on holiday"}
    assert problem(await ask(people, "bob", "POST", f"{form['path']}/reassign", body), 403)
    assert (await ask(people, "alice", "POST", f"{form['path']}/reassign", body)).json()["asked"] == ["max"]
    answer = {"event": "completed", "input": {"rating": 3}}
    done = await ask(people, "max", "POST", f"/api/instances/{form['instance']}/advance", answer)
    assert done.status_code == 200
    assert (await ask(people, "max", "GET", form["path"])).json()["status"] == "answered"
    late = await ask(people, "max", "PUT", f"{form['path']}/draft", {"data": {}})
    assert problem(late, 409)["code"] in ("FORM_CLOSED", "WORKFLOW_NOT_ACTIVE")


async def test_whoever_is_not_asked_does_nothing_about_it(people, form):
    for method, verb, body in (("POST", "claim", None), ("PUT", "draft", {"data": {"rating": 1}})):
        refused = await ask(people, "bob", method, f"{form['path']}/{verb}", body)
        assert problem(refused, 403)["code"] == "POLICY_DENIED"


async def test_a_form_of_another_partition_is_not_there(people):
    async with people("alice", partition_id="north") as client:
        started = (await client.post("/api/flows/survey/start", json={"order": 8})).json()
    path = f"/api/forms/{started['steps'][0]['step_id']}"
    for method, verb in (("GET", ""), ("POST", "/claim")):
        assert problem(await ask(people, "alice", method, f"{path}{verb}", partition_id="south"), 404)
    assert problem(await ask(people, "alice", "GET", f"/api/forms/{uuid4()}"), 404)["code"] == "NOT_FOUND"
