"""The way of an instance on its graph, and one of its steps: what readers see, and what operators see besides."""

from uuid import UUID, uuid4

import pytest

from tests.authored import END, arrows
from tests.http.callers import problem
from tests.http.test_workflows import get, post
from tests.world import publish_steps

ROUTED = {
    "steps": [
        {"id": "ask", "type": "action"},
        {"id": "route", "type": "condition"},
        {"id": "wait", "type": "wait_event", "key": "payment:{workflow.order}"},
        END,
    ],
    "transitions": [
        {"from": "ask", "event": "completed", "to": "route"},
        {"from": "route", "to": "wait", "condition": "workflow.order > 5", "priority": 1},
        {"from": "route", "to": "end", "priority": 2},
        {"from": "wait", "event": "completed", "to": "end"},
    ],
}


@pytest.fixture
async def routed(people, furnished) -> str:
    """An instance that took the way of a large order, and waits for its payment."""
    await publish_steps(furnished, "routed", ROUTED["steps"], ROUTED["transitions"])
    found = (await post(people, "alice", "/api/flows/routed/start", {"order": 9})).json()
    moved = await post(people, "alice", f"/api/instances/{found['id']}/advance", {"event": "completed"})
    assert moved.status_code == 200, moved.text
    return found["id"]


async def path_seen(people, user, instance_id) -> dict:
    answer = await get(people, user, f"/api/instances/{instance_id}/path")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_path_has_what_was_taken_and_where_the_tokens_are(people, routed):
    found = await path_seen(people, "alice", routed)
    names = {node["id"]: node["name"] for node in found["nodes"]}
    visits = {names[node["id"]]: node["visits"] for node in found["nodes"]}
    assert (visits["ask"], visits["route"], visits["wait"], visits["end"]) == (1, 1, 1, 0)
    taken = {(names[edge["source"]], names[edge["target"]]): edge["taken"] for edge in found["edges"]}
    assert (taken["route", "wait"], taken["route", "end"], taken["wait", "end"]) == (1, 0, 0)
    (token,) = found["tokens"]
    assert (names[token["node_id"]], token["state"], token["event_key"]) == ("wait", "resting", "payment:9")
    assert found["ways_out"] == []


async def test_conditions_and_what_steps_gave_are_for_operators_and_authors(people, routed):
    for user, sees in (("alice", False), ("olga", True)):
        found = await path_seen(people, user, routed)
        assert any(edge["condition"] for edge in found["edges"]) is sees, user
        (route,) = [node for node in found["nodes"] if node["name"] == "route"]
        step = (await get(people, user, f"/api/instances/{routed}/steps/{route['last_step_id']}")).json()
        assert (step["step"], step["outcome"], step["shown"]) == ("route", "completed", sees)
        assert [one["result"] for one in step["evaluations"]] == [True] * sees
        assert len(step["edges"]) == 1


async def test_a_step_of_another_instance_is_not_found(people, routed):
    other = (await post(people, "alice", "/api/flows/routed/start", {"order": 1})).json()
    for step in (other["steps"][0]["step_id"], str(uuid4())):
        found = await get(people, "alice", f"/api/instances/{routed}/steps/{step}")
        assert problem(found, 404)["code"] == "NOT_FOUND"


async def test_the_ways_out_of_an_incident_are_those_that_the_caller_may_take(people, routed, furnished):
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.workflow_instances SET status = 'paused', incident = $2 WHERE org_id = 'acme' AND id = $1",
            UUID(routed),
            {"code": "URL_MISSING", "message": "no url", "node": "wait"},
        )
    ways = {
        user: {way["name"]: way["route"] for way in (await path_seen(people, user, routed))["ways_out"]}
        for user in ("alice", "adam")
    }
    assert set(ways["alice"]) == {"cancel"}  # of what she started
    assert set(ways["adam"]) == {"retry", "skip", "edit_variables", "cancel", "force_fail"}
    assert ways["adam"]["retry"] == f"/api/instances/{routed}/retry"


async def test_a_loop_is_counted_and_gives_its_tokens_a_generation(people, furnished):
    steps = [{"id": "fill", "type": "action"}, {"id": "check", "type": "action"}, END]
    ways = [
        *arrows("fill", "check"),
        *arrows("check", "end"),
        {"from": "check", "event": "rejected", "to": "fill"},
    ]
    await publish_steps(furnished, "again", steps, ways)
    started = (await post(people, "alice", "/api/flows/again/start", {})).json()
    for event in ("completed", "rejected"):
        moved = await post(people, "alice", f"/api/instances/{started['id']}/advance", {"event": event})
        assert moved.status_code == 200, moved.text
    found = await path_seen(people, "alice", started["id"])
    names = {node["id"]: node for node in found["nodes"]}
    (token,) = found["tokens"]
    assert (names[token["node_id"]]["name"], token["generation"], found["generation"]) == ("fill", 1, 1)
    assert names[token["node_id"]]["visits"] == 2
    assert [edge["taken"] for edge in found["edges"] if edge["loop"]] == [1]
