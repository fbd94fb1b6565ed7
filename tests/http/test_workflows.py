"""Workflows through HTTP: start, list, see, answer, stop; each refusal with its code."""

import pytest
from fastapi.routing import APIRoute

from assent.http.app import NEW_PREFIXES, OLD_PREFIX, aliases
from tests.authored import END, arrows
from tests.http.callers import client_of, problem
from tests.http.route_table import ROUTES
from tests.world import publish_steps, rows

ORDER = {"order_id": "ord-123", "customer_email": "bob@example.com"}


async def started(people, flow="orders.approval", user="alice", data=ORDER) -> dict:
    async with people(user) as client:
        response = await client.post(f"/api/flows/{flow}/start", json=data)
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"/api/instances/{response.json()['id']}"
    return response.json()


async def post(people, user, path, json=None, **more):
    async with people(user, **more) as client:
        return await client.post(path, json=json)


async def get(people, user, path, **more):
    async with people(user, **more) as client:
        return await client.get(path)


async def test_start_answers_with_where_it_stands(people):
    found = await started(people)
    assert (found["workflow_id"], found["status"], found["context"]) == ("orders.approval", "running", ORDER)
    (step,) = found["steps"]
    assert (step["name"], step["kind"], step["asked"]) == ("review", "approval", ["bob", "carol"])


async def test_a_flow_that_nobody_published_is_not_found(people):
    found = await post(people, "alice", "/api/flows/no.such/start", {})
    assert problem(found, 404)["code"] == "NOT_FOUND"


async def test_start_takes_the_capability_that_the_flow_asks_for(people, furnished):
    found = await post(people, "bob", "/api/flows/orders.approval/start", ORDER)
    assert problem(found, 403)["code"] == "POLICY_DENIED"
    assert await rows(furnished, "workflow_instances") == []


async def test_start_without_a_body_is_a_start_with_nothing(people):
    async with people("alice") as client:
        assert (await client.post("/api/flows/survey/start")).json()["context"] == {}


async def test_whoever_is_asked_sees_what_they_can_answer_and_others_do_not(people):
    found = await started(people)
    seen = (await get(people, "bob", f"/api/instances/{found['id']}")).json()
    assert seen["steps"][0]["events"] == ["abstained", "approved", "rejected"]
    for user in ("alice", "olga"):
        theirs = (await get(people, user, f"/api/instances/{found['id']}")).json()
        assert (theirs["steps"][0]["name"], theirs["steps"][0]["events"]) == ("review", [])
    refused = await get(people, "max", f"/api/instances/{found['id']}")  # takes no part in it
    assert problem(refused, 403)["code"] == "POLICY_DENIED"


async def test_a_form_is_shown_to_whoever_may_fill_it_in(people):
    found = await started(people, "survey", data={"order": 7})
    mine = (await get(people, "alice", f"/api/instances/{found['id']}")).json()
    assert mine["steps"][0]["events"] == ["completed"]
    assert mine["steps"][0]["form"]["rating"]["type"] == "integer"
    theirs = (await get(people, "olga", f"/api/instances/{found['id']}")).json()
    assert (theirs["steps"][0]["events"], theirs["steps"][0]["form"]) == ([], {})
    assert problem(await get(people, "bob", f"/api/instances/{found['id']}"), 403)


async def test_looking_changes_nothing(people, furnished):
    found = await started(people)
    before = [await rows(furnished, table) for table in ("workflow_instances", "workflow_step_executions")]
    for user in ("alice", "bob"):
        await get(people, user, f"/api/instances/{found['id']}")
    assert [
        await rows(furnished, table) for table in ("workflow_instances", "workflow_step_executions")
    ] == before


async def test_advance_of_an_approval_is_the_decision_with_all_its_rules(people):
    found = await started(people)
    path = f"/api/instances/{found['id']}/advance"
    refused = await post(people, "alice", path, {"event": "approved"})
    assert problem(refused, 403)["code"] == "SEPARATION_OF_DUTIES"
    refused = await post(people, "max", path, {"event": "approved"})
    assert problem(refused, 403)["code"] == "POLICY_DENIED"
    done = (await post(people, "bob", path, {"event": "approved", "input": {"notes": "fine"}})).json()
    assert done["status"] == "completed"
    assert done["context"]["confirmed_at"] == "2026-03-02T10:45:00Z"


async def test_the_timeline_says_who_started_and_who_approved(people):
    found = await started(people)
    await post(people, "bob", f"/api/instances/{found['id']}/advance", {"event": "approved"})
    seen = (await get(people, "alice", f"/api/instances/{found['id']}")).json()
    steps = {step["step"]: step for step in seen["timeline"]}
    review = steps["review"]
    assert (review["actor"], review["finished_by"], review["outcome"]) == ("alice", "bob", "approved")
    assert [step["step"] for step in seen["timeline"]][-4:] == ["review", "process", "notify", "approved"]
    assert seen["status"] == "completed"
    assert seen["completed_at"]


async def test_an_event_that_nothing_answers(people):
    found = await started(people, "survey")
    refused = await post(people, "alice", f"/api/instances/{found['id']}/advance", {"event": "dance"})
    assert problem(refused, 422)["code"] == "INVALID_TRANSITION"


async def test_a_form_tells_each_field_that_is_wrong(people):
    found = await started(people, "survey")
    body = {"event": "completed", "input": {"rating": 9, "colour": "red"}}
    refused = problem(await post(people, "alice", f"/api/instances/{found['id']}/advance", body), 422)
    assert {tuple(each["path"]) for each in refused["problems"]} == {("input", "rating"), ("input", "colour")}


async def test_where_several_steps_wait_the_caller_names_one(people):
    found = await started(people, "pair")
    path = f"/api/instances/{found['id']}/advance"
    refused = await post(people, "alice", path, {"event": "completed"})
    assert problem(refused, 422)["code"] == "AMBIGUOUS_STEP"
    assert (await post(people, "alice", path, {"event": "completed", "step": "left"})).status_code == 200
    assert (await post(people, "alice", path, {"event": "completed"})).json()["status"] == "completed"


async def test_what_has_ended_takes_no_answer(people):
    found = await started(people, "pair")
    await post(people, "alice", f"/api/instances/{found['id']}/cancel", {"reason": "no need"})
    for command, body in (("advance", {"event": "completed"}), ("cancel", {})):
        refused = await post(people, "alice", f"/api/instances/{found['id']}/{command}", body)
        assert problem(refused, 409)["code"] == "WORKFLOW_NOT_ACTIVE"


async def test_whoever_started_it_may_cancel_and_operators_may(people):
    mine, theirs = await started(people), await started(people)
    refused = await post(people, "bob", f"/api/instances/{mine['id']}/cancel", {})
    assert problem(refused, 403)["code"] == "POLICY_DENIED"
    assert (await post(people, "alice", f"/api/instances/{mine['id']}/cancel", {})).json()[
        "status"
    ] == "cancelled"
    body = {"reason": "fraud"}
    assert (await post(people, "olga", f"/api/instances/{theirs['id']}/cancel", body)).json()[
        "status"
    ] == "cancelled"
    seen = (await get(people, "alice", f"/api/instances/{theirs['id']}")).json()
    assert (seen["timeline"][-1]["actor"], seen["timeline"][-1]["reason"]) == ("olga", "fraud")


async def test_pause_resume_and_retry_are_for_operators(people):
    found = await started(people, "pair")
    for command in ("pause", "resume", "retry"):
        refused = await post(people, "alice", f"/api/instances/{found['id']}/{command}")
        assert problem(refused, 403)["code"] == "POLICY_DENIED"
    path = f"/api/instances/{found['id']}"
    assert problem(await post(people, "olga", f"{path}/resume"), 409)["code"] == "WORKFLOW_NOT_PAUSED"
    assert problem(await post(people, "olga", f"{path}/retry"), 409)["code"] == "NOTHING_FAILED"
    assert (await post(people, "olga", f"{path}/pause", {"reason": "audit"})).json()["status"] == "paused"
    refused = await post(people, "alice", f"{path}/advance", {"event": "completed", "step": "left"})
    assert problem(refused, 409)["code"] == "WORKFLOW_NOT_ACTIVE"
    assert (await get(people, "alice", path)).json()["steps"][0]["events"] == []
    assert (await post(people, "olga", f"{path}/resume")).json()["status"] == "running"


async def test_resume_after_an_incident_tries_the_failed_step_again(people, furnished):
    tell = {"id": "tell", "type": "webhook_out", "url": "{org.erp}"}
    await publish_steps(furnished, "telling", [tell, END], arrows("tell", "end"))
    found = await started(people, "telling")
    path = f"/api/instances/{found['id']}"
    assert (found["status"], found["incident"]["code"]) == ("paused", "URL_MISSING")
    assert (await post(people, "olga", f"{path}/resume")).json()["status"] == "paused"
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.orgs SET settings = settings || '{\"erp\": \"https://erp.example\"}' WHERE org_id = 'acme'"
        )
    assert (await post(people, "olga", f"{path}/resume")).json()["status"] == "completed"


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 4),
        ("status=active", 2),
        ("status=running", 2),
        ("status=suspended", 1),
        ("status=active&status=cancelled", 3),
        ("workflow=pair", 3),
        ("workflow=pair&status=active", 1),
        ("subject=alice", 4),
        ("subject=bob", 0),
        ("entity_id=01890a5d-ac96-774b-bcce-b302099a8057", 0),
    ],
)
async def test_the_list_is_filtered(people, query, count):
    await started(people)
    for _ in range(3):
        last = await started(people, "pair")
        end = {0: "cancel", 1: "pause"}.get(_)
        if end:
            await post(people, "olga", f"/api/instances/{last['id']}/{end}")
    found = (await get(people, "olga", f"/api/instances?{query}")).json()
    assert len(found["items"]) == count


async def test_a_word_that_is_no_status_is_told(people):
    refused = problem(await get(people, "bob", "/api/instances?status=asleep"), 422)
    assert refused["problems"][0]["path"][:2] == ["query", "status"]


async def test_pages_show_everything_once_also_when_new_ones_come_meanwhile(people):
    ids = [(await started(people, "pair"))["id"] for _ in range(5)]
    seen, cursor = [], ""
    for _ in range(3):
        page = (await get(people, "olga", f"/api/instances?limit=2{cursor}")).json()
        seen += [item["id"] for item in page["items"]]
        await started(people, "pair")
        cursor = f"&cursor={page['next']}"
    assert seen == ids[::-1]
    assert page["next"] is None


async def test_steps_come_in_pages(people):
    found = await started(people)
    await post(people, "bob", f"/api/instances/{found['id']}/advance", {"event": "approved"})
    path, seen, cursor = f"/api/instances/{found['id']}/steps", [], ""
    while cursor is not None:
        page = (await get(people, "alice", f"{path}?limit=2{cursor}")).json()
        seen += [item["id"] for item in page["items"]]
        cursor = f"&cursor={page['next']}" if page["next"] else None
    timeline = (await get(people, "alice", f"/api/instances/{found['id']}")).json()["timeline"]
    assert seen[::-1] == [step["id"] for step in timeline]


@pytest.mark.parametrize("cursor", ["x", "bm8", "WzFd", "%00", "ÿ", "e30", "a" * 400])
async def test_a_cursor_of_ones_own_making_is_refused(people, cursor):
    found = await started(people)
    for path in ("/api/instances", f"/api/instances/{found['id']}/steps"):
        assert problem(await get(people, "bob", f"{path}?cursor={cursor}"), 422)["code"] in (
            "BAD_CURSOR",
            "INVALID_REQUEST",
        )


async def test_a_partition_is_a_world_of_its_own(people):
    async with people("alice", partition_id="north") as client:
        found = (await client.post("/api/flows/pair/start", json={})).json()
    path = f"/api/instances/{found['id']}"
    for partition, status in (("north", 200), ("south", 404), (None, 200)):
        more = {"partition_id": partition} if partition else {}
        assert (await get(people, "alice", path, **more)).status_code == status
        listed = (await get(people, "alice", "/api/instances", **more)).json()["items"]
        assert len(listed) == (status == 200)
    for command, body in (("advance", {"event": "completed", "step": "left"}), ("cancel", {}), ("pause", {})):
        refused = await post(people, "olga", f"{path}/{command}", body, partition_id="south")
        assert problem(refused, 404)["code"] == "NOT_FOUND"


async def test_a_step_that_raises_leaves_everything_as_it_was(people, furnished, door, clock):
    found = await started(people, data={**ORDER, "order_id": "ord-broken"})
    path = f"/api/instances/{found['id']}"
    answer = await post(people, "bob", f"{path}/advance", {"event": "approved"})
    assert problem(answer, 500)["code"] == "STEP_FAILED"
    assert "warehouse" not in answer.text  # what went wrong inside is for the log
    seen = (await get(people, "bob", path)).json()
    assert seen["steps"][0]["events"] == ["abstained", "approved", "rejected"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, ["event"]),
        ({"event": ""}, ["event"]),
        ({"event": 7}, ["event"]),
        ({"event": "x", "input": []}, ["input"]),
        ({"event": "x", "evnet": "y"}, ["evnet"]),
        ({"event": "x\u0000"}, ["event"]),
        ([], []),
        ("text", []),
        (None, []),
    ],
)
async def test_a_body_that_is_not_as_expected_is_told_by_field(people, body, path):
    found = await started(people, "pair")
    refused = problem(await post(people, "alice", f"/api/instances/{found['id']}/advance", body), 422)
    assert (refused["code"], refused["problems"][0]["path"]) == ("INVALID_REQUEST", path)


@pytest.mark.parametrize("content", [b"{", b"", b'{"event": ', b"\xff\xfe", b"[" * 100_000])
async def test_a_body_that_is_no_json_is_told(people, content):
    found = await started(people, "pair")
    async with people("alice") as client:
        headers = {"content-type": "application/json"}
        answer = await client.post(f"/api/instances/{found['id']}/advance", content=content, headers=headers)
    assert answer.status_code in (400, 413, 422)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/api/instances", "/api/entities/expense"])
async def test_a_list_costs_the_same_however_long_it_is(people, statement_counter, path):
    async def cost() -> int:
        statement_counter.clear()
        await get(people, "bob", path)
        return len(statement_counter)

    body = {"data": {"title": "Taxi", "total": 1}}
    await cost()  # the first look also asks about types
    empty = await cost()
    for _ in range(5):
        await started(people, "pair")
        await post(people, "alice", "/api/entities/expense", body)
    assert await cost() == empty


ALIASED = [route for route in ROUTES if route.path.startswith(NEW_PREFIXES)]


@pytest.mark.parametrize("route", ALIASED, ids=lambda route: route.name)
def test_flows_and_instances_have_the_same_handlers_under_their_old_prefix(route):
    (method,) = route.methods
    prefix = next(prefix for prefix in NEW_PREFIXES if route.path.startswith(prefix))
    path = OLD_PREFIX + route.path.removeprefix(prefix)
    found = [
        each
        for each in aliases().routes
        if isinstance(each, APIRoute) and (each.path, each.methods) == (path, {method})
    ]
    assert [each.endpoint for each in found] == [route.endpoint]
    assert not found[0].include_in_schema


async def test_the_old_prefix_serves_a_whole_walk(people, door):
    async with people("alice") as client:
        started = await client.post("/ui/workflows/orders.approval/start", json=ORDER)
        assert started.headers["location"] == f"/api/instances/{started.json()['id']}"
        path = f"/ui/workflows/{started.json()['id']}"
        assert (await client.get(path)).json() == (await client.get(started.headers["location"])).json()
        assert started.json()["id"] in {
            row["id"] for row in (await client.get("/ui/workflows")).json()["items"]
        }
    async with people("bob") as client:
        advanced = await client.post(f"{path}/advance", json={"event": "approved"})
        assert advanced.status_code == 200, advanced.text
    async with client_of(door) as client:
        assert problem(await client.post(f"{path}/cancel", json={}), 401)["code"] == "NOT_SIGNED_IN"
