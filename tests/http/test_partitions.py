"""Every route tried by a caller of the partition `north`, with everything that is of `south`: not there, and unchanged.

The routes come from the route table and the cases from `test_other_orgs`, so that a new route is tried here as well.
"""

import inspect
from collections.abc import Iterator
from typing import cast
from uuid import UUID

import pytest

from assent.definitions import publish_flow
from assent.kernel.rules import save_rule
from assent.model.actor import Actor
from assent.model.mutation import Refused
from assent.model.outside_request import Bundle, BundleItem
from assent.runtime import OrgRuntime
from assent.runtime.core import Core, OrgScope
from tests.http.application import INVOICE_DATA, SCHEDULE, app
from tests.http.callers import CALLBACKS, SETTINGS, People, problem
from tests.http.doors import create_app
from tests.http.route_table import ROUTES
from tests.http.test_other_orgs import ALICE, CASES, NOTHING_TO_NAME, ask, attach_row, everything
from tests.postgres import START
from tests.rows import insert, insert_effect, insert_event, insert_version_with_file
from tests.world import drain, rows

NORTH, SOUTH = {"partition_id": "north"}, {"partition_id": "south"}
MARK = "southern-secret"
"""It stands in the content of everything that is of the partition `south`."""

OF_WHOLE_ORG = {
    "revoke_delegation",
    "show_approval_chain",
    "show_definition",
    "draw_definition",
    "compare_definitions",
    "archive_definition",
    "roll_definition_back",
    "show_draft",
    "change_draft_of_org",
    "discard_draft_of_org",
    "publish_draft_of_org",
    "show_member",
    "change_member_of_org",
    "deactivate_member",
    "revoke_key",
    "rotate_source",
    "retire_source_secret",
    "delete_source",
    "delete_secret_of_org",
    "show_filter",
    "delete_filter_of_caller",
    "show_rule",
    "delete_rule_of_org",
}
"""Routes about people, definitions, keys, event sources, secrets, rules and filters, which belong to no partition."""

CONFINED = [route for route in ROUTES if route.name in CASES.keys() - OF_WHOLE_ORG]
LISTS = [route for route in ROUTES if route.name in NOTHING_TO_NAME and route.methods == {"GET"}]

TOUCH = {
    "flow": "touch",
    "version": 1,
    "start": "change",
    "steps": [
        {
            "id": "change",
            "type": "mutation",
            "action": "expense.update",
            "entity": "workflow.target",
            "payload": {"title": "changed by a flow"},
        },
        {"id": "done", "type": "terminal"},
        {"id": "refused", "type": "terminal"},
    ],
    "transitions": [
        {"from": "change", "event": "completed", "to": "done"},
        {"from": "change", "event": "error", "to": "refused"},
    ],
}
TELL = {
    "name": "tell",
    "entity_type": "expense",
    "action": "create",
    "timing": "after",
    "condition": "entity.total > 0",
    "outcome": "emit",
    "then": {"key": "payment:{entity.total}"},
}
MAKE = {
    "flow": "make",
    "version": 1,
    "start": "create",
    "steps": [
        {
            "id": "create",
            "type": "mutation",
            "action": "expense.create",
            "payload": {"title": "made by a flow", "total": 1},
            "output": {"made": "result.id"},
        },
        {"id": "done", "type": "terminal"},
    ],
    "transitions": [{"from": "create", "event": "completed", "to": "done"}],
}


@pytest.fixture
async def theirs(people, furnished) -> dict[str, str]:
    """One of everything that can be of a partition, made by callers of `south`."""
    async with people("alice", **SOUTH) as client:
        data = INVOICE_DATA | {"number": MARK}
        created = (await client.post("/api/entities/invoice", json={"data": data})).json()
        place = f"/api/entities/invoice/{created['id']}"
        await client.patch(place, json={"data": {"grand_total": 2}}, headers={"If-Match": "*"})
        attachment_id = await attach_row(furnished, app, "invoice", created["id"], ALICE, file_name=MARK)
        moved = (await client.post(f"{place}/transitions/submit")).json()
        survey = (await client.post("/api/flows/survey/start", json={"order": MARK})).json()
        await client.put(f"/api/forms/{survey['steps'][0]['step_id']}/draft", json={"data": {"note": MARK}})
        await client.post("/api/flows/screening/start", json={"client": MARK})
        (asked,) = (await client.get("/api/outside-requests")).json()["items"]
    request_id = moved["instance"]["steps"][0]["request_id"]
    async with people("fin", **SOUTH) as client:
        question = await client.post(f"/api/approvals/{request_id}/questions", json={"text": MARK})
        assert question.is_success, question.text
    async with people("adam", **SOUTH) as client:
        body = {"type": "report.build", "input": {"month": MARK}, "key": "monthly"}
        task = (await client.post("/api/tasks", json=body)).json()
        schedule = await client.put("/api/schedules/cancel", json={**SCHEDULE, "input": {"month": MARK}})
        assert schedule.is_success, schedule.text
    async with furnished.transaction(None) as connection:
        letter = await insert_effect(
            connection,
            org_id="acme",
            status="dead",
            lane="mail",
            instance_id=moved["instance"]["id"],
            error=MARK,
        )
        event = await insert_event(
            connection, org_id="acme", status="dead", instance_id=survey["id"], error=MARK
        )
        of_south = {"org_id": "acme", "subject": MARK, **SOUTH}
        document = await insert(connection, "documents", **of_south)
        version = await insert_version_with_file(
            connection, org_id="acme", document_id=document["id"], structured_data={"number": MARK}
        )
        requirement = await insert(connection, "document_requirements", **of_south)
    return {
        "entity_type": "invoice",
        "entity_id": created["id"],
        "attachment_id": attachment_id,
        "instance_id": moved["instance"]["id"],
        "request_id": request_id,
        "question_id": question.json()["id"],
        "taken_id": moved["instance"]["steps"][0]["step_id"],
        "step_id": survey["steps"][0]["step_id"],
        "asked_id": asked["id"],
        "task_id": task["id"],
        "letter_id": str(letter["id"]),
        "event_letter": str(event["id"]),
        "document_id": str(document["id"]),
        "version_id": str(version["id"]),
        "requirement_id": str(requirement["id"]),
        "draft_id": created["id"],
        "survey_id": survey["id"],
        "verb": "update",
        "name": "cancel",
        "a": "1",
        "b": "2",
    }


def ids_of(theirs) -> set[str]:
    return {found for found in theirs.values() if len(found) == 36}


@pytest.mark.parametrize("route", CONFINED, ids=lambda route: route.name)
async def test_what_is_of_another_partition_is_not_there_and_stays_as_it_is(people, furnished, theirs, route):
    before = await everything(furnished)
    answer = await ask(people, route, theirs, "acme", **NORTH)
    assert problem(answer, 404)["code"] == "NOT_FOUND"
    assert MARK not in answer.text
    assert await everything(furnished) == before
    granted = await ask(
        people, route, theirs, "acme", **SOUTH
    )  # the same request: only the partition was wrong
    assert granted.status_code not in (401, 404), granted.text


@pytest.mark.parametrize("user", ["adam", "olga", "max", "fin"])
async def test_no_list_stream_count_or_page_of_health_has_another_partitions(people, theirs, user):
    for route in LISTS:
        parts = {
            "entity_type": "invoice",
            "role": "clerk",
            "name": "cancel",
            "kind": "asked",
            "language": "en",
        }
        path = route.path.format(**parts, token="none")
        async with people(user, **NORTH) as client:
            answer = await client.get(path)
        assert MARK not in answer.text, route.name
        assert not [found for found in ids_of(theirs) if found in answer.text], route.name


async def test_partitions_of_an_org_are_listed_page_by_page(people, furnished):
    places = {
        "documents": {},
        "document_requirements": {},
        "workflow_instances": {},
        "api_keys": {"user_id": "alice"},
    }
    async with furnished.transaction(None) as connection:
        for number, (table, about) in enumerate(places.items()):
            for _ in range(3):
                await insert(connection, table, org_id="acme", partition_id=f"p{number}", **about)
        await insert(connection, "documents", org_id="globex", partition_id="theirs")
        revoked = {"partition_id": "left", "revoked_at": START, "user_id": "alice"}
        await insert(connection, "api_keys", org_id="acme", **revoked)
    for number in (4, 5, 0):
        async with people("alice", partition_id=f"p{number}") as client:
            for kind, data in (("expense", {"title": "Taxi", "total": 1}), ("invoice", INVOICE_DATA)):
                assert (await client.post(f"/api/entities/{kind}", json={"data": data})).is_success
    seen, cursor = [], None
    async with people("adam") as client:
        while cursor is not None or not seen:
            more = {} if cursor is None else {"cursor": cursor}
            page = (await client.get("/api/org/partitions", params={"limit": 4, **more})).json()
            seen += [[item["partition_id"] for item in page["items"]]]
            cursor = page["next"]
    assert seen == [["p0", "p1", "p2", "p3"], ["p4", "p5"]]
    async with people("adam", partition_id="p4") as client:
        assert (await client.get("/api/org/partitions")).json()["items"] == [{"partition_id": "p4"}]
    async with people("olga") as client:
        assert problem(await client.get("/api/org/partitions"), 403)["code"] == "POLICY_DENIED"


async def test_lists_have_ones_own_partition(people, theirs):
    for path, user, wanted in (
        ("/api/entities/invoice", "alice", "entity_id"),
        ("/api/instances", "adam", "survey_id"),
        ("/api/outside-requests", "adam", "asked_id"),
        ("/api/tasks", "adam", "task_id"),
        ("/api/documents", "adam", "document_id"),
        ("/api/requirements", "adam", "requirement_id"),
        ("/api/audit", "adam", "entity_id"),
        ("/api/inbox", "fin", "request_id"),
        ("/api/operations/dead-letters", "adam", "letter_id"),
        ("/api/operations/dead-letters", "adam", "event_letter"),
    ):
        async with people(user, **SOUTH) as client:
            assert theirs[wanted] in (await client.get(path)).text, path
        async with people(user, **NORTH) as client:
            assert (await client.get(path)).json()["items"] == [], path
    for partition, wanted in ((SOUTH, True), (NORTH, False)):
        async with people("adam", **partition) as client:
            assert ((await client.get("/api/instances/count")).json()["count"] > 0) == wanted


async def test_requests_to_outside_parties_are_listed_in_their_partition_only(people, theirs):
    """FINDINGS: x12."""
    async with people("adam", **NORTH) as client:
        assert (await client.get("/api/outside-requests")).json()["items"] == []
        assert (await client.get("/api/outside-requests?status=pending")).json()["items"] == []
    async with people("adam", **SOUTH) as client:
        assert [one["id"] for one in (await client.get("/api/outside-requests")).json()["items"]] == [
            theirs["asked_id"]
        ]


async def test_an_operator_of_a_partition_sees_how_it_goes_there(people, furnished, theirs):
    async with people("adam", **NORTH) as client:
        health = (await client.get("/api/operations/health")).json()
        assert (health["dead_letters"], health["stuck"], health["problems"]) == ([], [], [])
        assert {(one["pending"], one["delayed"], one["dead"]) for one in health["queues"]} == {(0, 0, 0)}
        assert (await client.get("/api/operations/stuck")).json()["items"] == []
    async with people("adam", **SOUTH) as client:
        health = (await client.get("/api/operations/health")).json()
    found = {one["name"]: (one["pending"], one["dead"]) for one in health["queues"]}
    assert found == {
        "events": (0, 1),
        "effects": (1, 1),
        "results": (0, 0),
        "tasks": (1, 0),
        "timers": (0, 0),
        "people": (2, 0),
    }
    assert {(one["queue"], one["number"]) for one in health["dead_letters"]} == {
        ("events", 1),
        ("effects", 1),
    }


async def test_health_of_a_whole_org_counts_every_partition(people, theirs):
    async with people("adam") as client:
        whole = (await client.get("/api/operations/health")).json()
    async with people("adam", **SOUTH) as client:
        part = (await client.get("/api/operations/health")).json()
    assert whole["queues"] == part["queues"]
    assert whole["dead_letters"] == part["dead_letters"]


async def test_a_dead_letter_of_ones_own_partition_is_tried_again(people, theirs):
    path = f"/api/operations/dead-letters/{theirs['event_letter']}/retry"
    async with people("adam", **NORTH) as client:
        assert problem(await client.post(path), 404)["code"] == "NOT_FOUND"
    async with people("adam", **SOUTH) as client:
        assert (await client.post(path)).json()["kind"] == "event"


async def test_metrics_of_all_orgs_are_not_shown_to_a_caller_of_one_partition(furnished, clock):

    shown = People(create_app(app, furnished, SETTINGS.replace(metrics="operators"), CALLBACKS), clock.now())
    async with shown("adam", **NORTH) as client:
        assert problem(await client.get("/metrics"), 404)["code"] == "NO_SUCH_ROUTE"
    async with shown("adam") as client:
        assert (await client.get("/metrics")).status_code == 200


async def expense(people, **more) -> str:
    async with people("alice", **more) as client:
        body = {"data": {"title": MARK, "total": 100}}
        created = await client.post("/api/entities/expense", json=body)
        assert created.status_code == 201, created.text
        return created.json()["id"]


@pytest.fixture
async def flows(furnished, clock):
    async with furnished.transaction(None) as connection:
        for flow in (TOUCH, MAKE):
            await publish_flow(connection, "acme", flow, Actor("system", "system"), clock.now())


async def test_a_flow_of_a_partition_writes_no_entity_of_another(people, flows):
    """FINDINGS: B11."""
    target = await expense(people, **SOUTH)
    async with people("alice", **NORTH) as client:
        started = await client.post("/api/flows/touch/start", json={"target": target})
    assert started.status_code in (201, 404), started.text
    assert MARK not in started.text
    async with people("alice", **SOUTH) as client:
        found = (await client.get(f"/api/entities/expense/{target}")).json()
    assert (found["version"], found["data"]["title"]) == (1, MARK)


async def test_a_flow_of_a_partition_sees_another_partitions_entity_as_one_that_is_not_there(people, flows):
    target = await expense(people, **SOUTH)
    missing = "01890a5d-ac96-774b-bcce-b302099a8057"
    answers = []
    for one in (target, missing):
        async with people("alice", **NORTH) as client:
            started = await client.post("/api/flows/touch/start", json={"target": one})
        answers.append((started.status_code, started.text.replace(one, "…")))
    assert answers[0][0] == answers[1][0]
    assert "NOT_FOUND" in answers[0][1] or answers[0][0] == 201


async def test_a_flow_writes_entities_of_its_own_partition_and_makes_them_there(people, flows):
    target = await expense(people, **NORTH)
    async with people("alice", **NORTH) as client:
        await client.post("/api/flows/touch/start", json={"target": target})
        assert (await client.get(f"/api/entities/expense/{target}")).json()["version"] == 2
        made = (await client.post("/api/flows/make/start", json={})).json()["context"]["made"]
        assert (await client.get(f"/api/entities/expense/{made}")).json()["partition_id"] == "north"
    async with people("alice", **SOUTH) as client:
        assert (await client.get(f"/api/entities/expense/{made}")).status_code == 404


async def test_a_flow_of_the_whole_org_writes_entities_of_every_partition(people, flows):
    target = await expense(people, **SOUTH)
    async with people("alice") as client:
        await client.post("/api/flows/touch/start", json={"target": target})
    async with people("alice", **SOUTH) as client:
        assert (await client.get(f"/api/entities/expense/{target}")).json()["version"] == 2


async def waiting_for_payment(people, order, **more) -> str:
    async with people("alice", **more) as client:
        started = (await client.post("/api/flows/survey/start", json={"order": order})).json()
        body = {"event": "completed", "input": {"rating": 3}}
        answered = await client.post(f"/api/instances/{started['id']}/advance", json=body)
        assert answered.status_code == 200, answered.text
        return started["id"]


async def status_of(people, instance_id) -> str:
    async with people("olga") as client:
        return (await client.get(f"/api/instances/{instance_id}")).json()["status"]


async def tell(people, key, **more):
    async with people("olga", **more) as client:
        return await client.post(f"/api/events/{key}", json={"cause": "evt_1"})


async def test_an_event_of_a_partition_reaches_only_those_who_wait_there(people, furnished):
    """FINDINGS: W18."""
    south = await waiting_for_payment(people, 7, **SOUTH)
    north = await waiting_for_payment(people, 7, **NORTH)
    whole = await waiting_for_payment(people, 7)
    await tell(people, "payment:7", **NORTH)
    await drain(app.runtime(furnished))
    assert [await status_of(people, one) for one in (north, south, whole)] == [
        "completed",
        "running",
        "running",
    ]
    again = await tell(people, "payment:7", **SOUTH)  # one cause is told once in each partition
    assert again.json()["new"]
    await drain(app.runtime(furnished))
    assert [await status_of(people, one) for one in (south, whole)] == ["completed", "running"]
    await tell(people, "payment:7")
    await drain(app.runtime(furnished))
    assert await status_of(people, whole) == "completed"


async def test_an_event_of_the_whole_org_reaches_those_who_wait_in_every_partition(people, furnished):
    waiting = [await waiting_for_payment(people, 7, **part) for part in (NORTH, SOUTH, {})]
    await tell(people, "payment:7")
    await drain(app.runtime(furnished))
    assert [await status_of(people, one) for one in waiting] == ["completed"] * 3


async def test_an_event_that_is_kept_is_kept_for_its_partition(people, furnished):
    await tell(people, "payment:8", **NORTH)
    await drain(app.runtime(furnished))
    south = await waiting_for_payment(people, 8, **SOUTH)
    whole = await waiting_for_payment(people, 8)
    assert [await status_of(people, one) for one in (south, whole)] == ["running", "running"]
    north = await waiting_for_payment(people, 8, **NORTH)
    assert await status_of(people, north) == "completed"
    assert await rows(furnished, "workflow_kept_events") == []


async def test_events_of_two_partitions_in_one_batch_each_reach_their_own(people, furnished):
    south = await waiting_for_payment(people, 9, **SOUTH)
    north = await waiting_for_payment(people, 9, **NORTH)
    await tell(people, "payment:9", **NORTH)
    await tell(people, "payment:9", **SOUTH)
    await drain(app.runtime(furnished))
    assert [await status_of(people, one) for one in (north, south)] == ["completed", "completed"]
    assert await rows(furnished, "workflow_kept_events") == []


async def test_a_rule_of_an_entity_tells_its_own_partition_only(people, furnished):
    """The same by another way: what an entity of `north` emits moves nothing of `south`."""
    async with furnished.transaction("acme") as connection:
        await save_rule(connection, app.registry, "acme", TELL, furnished.clock.now())
    south = await waiting_for_payment(people, 100, **SOUTH)
    north = await waiting_for_payment(people, 100, **NORTH)
    await expense(people, **NORTH)
    await drain(app.runtime(furnished))
    assert [await status_of(people, one) for one in (north, south)] == ["completed", "running"]


async def submit(people, month, **more):
    async with people("adam", **more) as client:
        body = {"type": "report.build", "input": {"month": month}, "key": "monthly"}
        return await client.post("/api/tasks", json=body)


async def test_a_key_of_another_partitions_task_is_free_and_tells_nothing(people, theirs):
    """FINDINGS: W19."""
    for month in (MARK, "May"):
        mine = await submit(people, month, partition_id=f"north-{month}")
        assert mine.status_code == 202, mine.text
        assert mine.json()["id"] != theirs["task_id"]
    assert (await submit(people, MARK, **SOUTH)).json()["id"] == theirs["task_id"]
    assert problem(await submit(people, "May", **SOUTH), 422)["code"] == "IDEMPOTENCY_KEY_REUSED"
    whole = await submit(people, "June")
    assert whole.status_code == 202, "a key of the whole org is another one too"


async def test_a_key_of_another_partitions_instance_is_free(furnished, people):
    runtime = app.runtime(furnished)
    alice = Actor("alice", roles=frozenset({"clerk"}))
    start = {"idempotency_key": "k", "data": {"order": 1}}
    south = await runtime.org("acme", alice, partition_id="south").instances.start("survey", **start)
    north = await runtime.org("acme", alice, partition_id="north").instances.start("survey", **start)
    whole = await runtime.org("acme", alice).instances.start("survey", **start)
    assert len({south.id, north.id, whole.id}) == 3
    again = await runtime.org("acme", alice, partition_id="south").instances.start("survey", **start)
    assert again.id == south.id


async def test_a_signature_is_asked_of_no_request_of_another_partition(people, theirs):
    """Else 403 instead of 404 would tell that it is there."""
    async with people("adam") as client:
        made = await client.post("/api/event-sources", json={"name": "vendor", "key_prefix": "result:"})
        assert made.status_code == 201, made.text
    path = f"/api/outside-requests/{theirs['asked_id']}/results"
    body = {"key": "k", "items": [{"cargo": "external://vault/7"}]}
    async with people("olga", **NORTH) as client:
        assert problem(await client.post(path, json=body), 404)["code"] == "NOT_FOUND"
    async with people("olga", **SOUTH) as client:
        assert problem(await client.post(path, json=body), 403)["code"] == "SIGNATURE_MISSING"


async def test_an_inbox_stream_does_not_tell_of_another_partition(people, furnished, clock):
    """What it is known by stays the same when something comes in another partition."""

    async def first_id(**more) -> str:
        async with people("bob", **more) as client:
            text = (await client.get("/api/inbox/events")).text
        return next(line for line in text.splitlines() if line.startswith("id: "))

    before = await first_id(**NORTH), await first_id(**SOUTH)
    async with people("alice", **SOUTH) as client:
        order = {"order_id": "ord-1", "customer_email": "c@example.com", "total_amount": 5}
        started = await client.post("/api/flows/orders.approval/start", json=order)
        assert started.status_code == 201, started.text
    after = await first_id(**NORTH), await first_id(**SOUTH)
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_every_route_of_an_object_is_confined_or_of_the_whole_org():
    assert {route.name for route in CONFINED} | OF_WHOLE_ORG == CASES.keys()


NAMED = (
    "instance_id",
    "entity_id",
    "request_id",
    "step_id",
    "taken_id",
    "task_id",
    "letter_id",
    "document_id",
    "requirement_id",
)
"""Parameters of methods in Python that name something of a partition."""
VAULT = {"cargo": "external://vault/7"}
ARGUMENTS = {
    "action": "invoice.update",
    "answer": "approved",
    "base_url": "https://flows.example.com",
    "bundle": Bundle(key="k", items=(BundleItem(cargo=VAULT["cargo"]),)),
    "code": "UNREADABLE",
    "data": {},
    "edge": "paid->done",
    "event": "completed",
    "first": 1,
    "from_user": "fin",
    "items": [VAULT],
    "key": "k",
    "name": "cancel",
    "reason": "enough",
    "second": 1,
    "content": b"file",
    "doc_types": ["passport"],
    "message": "out of paper",
    "source": "python",
    "step": "paid",
    "structured_data": {"number": "7"},
    "subject": MARK,
    "text": "Why?",
    "to_user": "bob",
    "token": "0",
    "variables": {"order": 8},
}
ALWAYS_GIVEN = {"base_url", "items", "step", "structured_data", *NAMED}
MADE_BY_PARTS = {"instances.start", "instances.start_many", "documents.create", "requirements.create"}
"""What begins something, in the partition of its caller; the others name what is there."""


def named_methods() -> Iterator[tuple[str, str]]:
    """Yield each method of the Python API that names something, and the parameter that does."""
    org = OrgRuntime(OrgScope(cast("Core", None), "acme"))
    for noun in sorted(set(OrgRuntime.__slots__) - {"scope"}):
        commands = type(getattr(org, noun))
        for name, method in inspect.getmembers(commands, inspect.iscoroutinefunction):
            taken = inspect.signature(method).parameters
            found = [one for one in NAMED if one in taken]
            if found and not name.startswith("_") and f"{noun}.{name}" not in MADE_BY_PARTS | LISTED:
                yield f"{noun}.{name}", found[0]


LISTED = {
    "audit.search",
    "documents.list",
    "instances.count",
    "instances.list",
    "requests.list",
    "requirements.count",
    "requirements.list",
    "tasks.list",
}
"""Lists, which the partition of their caller confines, whatever they are asked for."""
METHODS = dict(named_methods())


async def code_of(attempt) -> str | None:
    """Return the code with which a command is refused."""
    try:
        await attempt
    except Refused as refused:
        return f"{refused.code} with a secret" if MARK in str(refused) else refused.code
    return None


@pytest.mark.parametrize("method", METHODS)
async def test_python_finds_nothing_of_another_partition(furnished, theirs, method, tmp_path, monkeypatch):
    monkeypatch.setenv("ASSENT_BLOBS", tmp_path.joinpath("files").as_uri())
    noun, _, name = method.partition(".")
    ids = theirs | ({"request_id": theirs["asked_id"]} if noun == "requests" else {})
    able = Actor("fin", roles=frozenset({"clerk", "finance_manager"}), capabilities=frozenset({"*"}))

    def call(partition):
        command = getattr(getattr(app.runtime(furnished).org("acme", able, partition), noun), name)
        taken = inspect.signature(command).parameters.values()
        given = {one.name for one in taken if one.default is one.empty or one.name in ALWAYS_GIVEN}
        arguments = ARGUMENTS | {"path": tmp_path / f"of {partition}"}
        return command(
            **{
                one: UUID(ids[one]) if one in (*NAMED, "version_id", "attachment_id") else arguments[one]
                for one in given
            }
        )

    before = await everything(furnished)
    assert await code_of(call("north")) == "NOT_FOUND"
    assert await everything(furnished) == before
    # The same command: only the partition was wrong.
    assert (await code_of(call("south")) == "NOT_FOUND") is (method == "tasks.retry"), "the task is not dead"


async def test_retrying_all_of_a_partition_leaves_those_of_another(furnished, theirs):
    runtime, adam = app.runtime(furnished), Actor("adam", capabilities=frozenset({"*"}))
    assert await runtime.org("acme", adam, "north").dead_letters.retry_all("effect") == 0
    assert await runtime.org("acme", adam, "south").dead_letters.retry_all("effect") == 1


async def test_what_is_started_in_the_background_begins_in_the_partition_of_its_caller(furnished, people):
    alice = Actor("alice", roles=frozenset({"clerk"}))
    runtime = app.runtime(furnished)
    (started,) = await runtime.org("acme", alice, "north").instances.start_many("survey", [{"order": 3}])
    await drain(runtime)
    (row,) = [row for row in await rows(furnished, "workflow_instances") if row["id"] == started]
    assert row["partition_id"] == "north"


async def test_a_document_of_another_partition_is_required_without_a_word_of_it(people, theirs):
    """The same document of the same subject: a refusal would say that it is required there."""
    required = {"subject": "client-7", "doc_type": "passport"}
    for partition in (SOUTH, NORTH, {}):
        async with people("adam", **partition) as client:
            assert (await client.post("/api/requirements", json=required)).status_code == 201
            again = await client.post("/api/requirements", json=required)
            assert problem(again, 409)["code"] == "ALREADY_EXISTS"


IN_BODIES = {
    "parent_id": ("/api/documents", {"document_type": "passport", "subject": "s"}, "document_id"),
    "requirement_id": ("/api/documents", {"document_type": "passport", "subject": "s"}, "requirement_id"),
    "instance_id": ("/api/requirements", {"subject": "s", "doc_type": "visa"}, "instance_id"),
    "task_id": (
        "/api/workflow/task-complete",
        {"idempotency_key": "k", "status": "failed", "error": "e"},
        "asked_id",
    ),
}
"""What bodies of commands name of a partition: the path, the rest of the body, and what is named."""


@pytest.mark.parametrize("name", IN_BODIES)
async def test_what_a_body_names_of_another_partition_is_not_there(people, furnished, theirs, name):
    path, body, of = IN_BODIES[name]
    before, statuses = await everything(furnished), []
    for user in ("adam", "olga"):
        async with people(user, **NORTH) as client:
            answer = await client.post(path, json={**body, name: theirs[of]})
            statuses.append(answer.status_code)
            assert MARK not in answer.text
    assert 404 in statuses
    assert set(statuses) <= {403, 404}
    assert await everything(furnished) == before
