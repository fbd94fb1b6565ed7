"""Every route tried by another org, with everything that is somebody else's: not found, and nothing changed.

The last test walks the routes, so that a new one without a case here turns it red.
"""

from uuid import UUID

import pytest

from assent.http.app import ROUTERS
from tests.http.application import INVOICE_DATA
from tests.http.callers import client_of, problem
from tests.runtime.flows import rows

TABLES = (
    "entities",
    "entity_versions",
    "audit_log",
    "workflow_instances",
    "workflow_step_executions",
    "workflow_events_outbox",
    "workflow_side_effects_outbox",
    "approval_requests",
    "approval_decisions",
    "workflow_seats",
    "http_replies",
)

CASES = {
    "show_workflow": ("alice", None, {}),
    "list_workflow_steps": ("alice", None, {}),
    "advance_workflow": ("bob", {"event": "approved"}, {}),
    "cancel_workflow": ("olga", {"reason": "mine now"}, {}),
    "pause_workflow": ("olga", {}, {}),
    "resume_workflow": ("olga", {}, {}),
    "retry_workflow": ("olga", {}, {}),
    "show_entity": ("alice", None, {}),
    "change_entity": ("alice", {"data": {"grand_total": 1}}, {"If-Match": "*"}),
    "act_on_entity": ("alice", {"data": {"grand_total": 1}}, {}),
    "move_entity": ("max", {}, {}),
    "list_entity_versions": ("alice", None, {}),
    "compare_entity_versions": ("alice", None, {}),
    "list_entity_audit": ("alice", None, {}),
    "show_approval": ("fin", None, {}),
    "decide_approval": ("fin", {"answer": "approved"}, {}),
    "reassign_approval": ("olga", {"from_user": "fin", "to_user": "max"}, {}),
    "claim_approval": ("fin", {}, {}),
    "release_approval": ("olga", {}, {}),
}
"""Who tries it — somebody whom the same request in their own org is granted to — with which body and headers."""

NOTHING_TO_NAME = {
    "healthz",
    "readyz",
    "start_workflow",
    "list_workflows",
    "create_entity",
    "list_entities_of_type",
    "emit_event",
}
"""Routes that name nothing of an org's; what they show and write is their caller's own."""

ROUTES = [route for router in ROUTERS for route in router.routes]


@pytest.fixture
async def theirs(people) -> dict[str, str]:
    """What acme has: an invoice that waits for approval."""
    async with people("alice") as client:
        created = (await client.post("/api/entities/invoice", json={"data": INVOICE_DATA})).json()
        await client.patch(
            f"/api/entities/invoice/{created['id']}",
            json={"data": {"grand_total": 2}},
            headers={"If-Match": "*"},
        )
        moved = (await client.post(f"/api/entities/invoice/{created['id']}/transitions/submit")).json()
    return {
        "entity_type": "invoice",
        "entity_id": created["id"],
        "instance_id": moved["instance"]["id"],
        "request_id": moved["instance"]["steps"][0]["request_id"],
        "verb": "update",
        "name": "cancel",
        "a": "1",
        "b": "2",
    }


async def ask(people, route, theirs, org):
    user, body, headers = CASES[route.name]
    async with people(user, org) as client:
        (method,) = route.methods
        return await client.request(method, route.path.format(**theirs), json=body, headers=headers)


@pytest.mark.parametrize("route", [r for r in ROUTES if r.name in CASES], ids=lambda route: route.name)
async def test_what_is_another_orgs_is_not_there_and_stays_as_it_is(people, furnished, theirs, route):
    before = [await rows(furnished, table) for table in TABLES]
    refused = problem(await ask(people, route, theirs, "globex"), 404)
    assert refused["code"] == "NOT_FOUND"
    assert [await rows(furnished, table) for table in TABLES] == before
    granted = await ask(people, route, theirs, "acme")  # the same request, and only the org was wrong
    assert granted.status_code not in (404, 401), granted.text


async def test_lists_and_events_are_of_ones_own_org(people, furnished, theirs):
    async with people("olga", "globex") as client:
        assert (await client.get("/ui/workflows")).json()["items"] == []
        assert (await client.get("/api/entities/invoice")).json()["items"] == []
        await client.post("/api/events/k")
    events = [
        row["org_id"]
        for row in await rows(furnished, "workflow_events_outbox")
        if row["event_type"] == "on_event"
    ]
    assert events == ["globex"]


async def test_ids_of_another_org_are_free_for_ones_own(people, theirs):
    async with people("alice", "globex") as client:
        body = {"data": INVOICE_DATA, "id": theirs["entity_id"]}
        mine = await client.post("/api/entities/invoice", json=body)
        assert (mine.status_code, mine.json()["version"]) == (201, 1)
    async with people("alice") as client:
        assert (await client.get(f"/api/entities/invoice/{theirs['entity_id']}")).json()["version"] == 3
        assert UUID(theirs["entity_id"])


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
async def test_every_route_but_health_asks_who_calls(door, route):
    path = route.path.format_map(dict.fromkeys(route.param_convertors, "x"))
    async with client_of(door) as client:
        for method in route.methods:
            answer = await client.request(method, path, json={})
            assert answer.status_code == (200 if route.name in ("healthz", "readyz") else 401), route.name


def test_every_route_has_a_case():
    names = [route.name for route in ROUTES]
    assert len(names) == len(set(names))
    assert set(names) == CASES.keys() | NOTHING_TO_NAME


def test_a_route_that_names_something_is_tried_with_it():
    for route in ROUTES:
        named = set(route.param_convertors) - {"workflow_id", "entity_type", "key"}
        assert bool(named) == (route.name in CASES), route.name
