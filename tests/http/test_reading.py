"""Whoever may not read an object never gets its content: not in an answer, not in a header, not in a list.

The routes come from the route table. Each is called by a member without roles, and by one who may do everything that
takes a capability and may read nothing; a secret is planted in the content of every object.
"""

import json
import re
from pathlib import Path
from uuid import UUID

import pytest

import assent.http
from assent.bodies.instances import (
    ApprovalToDecideBody,
    Descriptor,
    DiffBody,
    EntityBody,
    EntityCountsBody,
    FormBody,
    InboxCountsBody,
    InboxItemBody,
    InstancePathBody,
    InstanceSummary,
    StepDetailsBody,
    TimelineStep,
    VersionBody,
)
from assent.bodies.operations import EntityAuditBody, TaskBody, TaskItemBody, TaskTreeBody
from assent.definitions import publish_flow
from assent.http.routes.entity_history import DecisionRecordBody
from assent.kernel.entities import read_actor
from assent.model.actor import SYSTEM, Actor
from assent.model.cursor import ItemPage
from assent.model.mutation import Refused
from assent.people.inbox import InboxPage
from tests.http.application import PEOPLE as COMPANY
from tests.http.callers import CALLBACKS, SETTINGS, People, problem
from tests.http.doors import create_app
from tests.http.hidden import DIARY, LEDGER, MARK, app, furnish_hidden
from tests.http.route_table import ROUTES
from tests.http.test_other_orgs import CASES, attach_row
from tests.rows import insert, insert_version_with_file
from tests.world import rows

BODIES = {name: (body, headers) for name, (_, body, headers) in CASES.items()} | {
    "keep_approval_chain": ({"steps": []}, {}),
    "create_entity": ({"data": {"title": "a new one"}}, {}),
    "change_entity": ({"data": {"pages": 3}}, {"If-Match": "*"}),
    "act_on_entity": ({"data": {"pages": 4}}, {}),
    "reassign_approval": ({"from_user": "fin", "to_user": "bob"}, {}),
    "reassign_form": ({"from_user": "max", "to_user": "bob"}, {}),
    "submit_task": ({"type": "report.build", "input": {"month": "May"}}, {}),
    "submit_task_batch": (
        {
            "tasks": [{"type": "report.build", "input": {"month": "May"}}],
            "then": {"type": "report.build", "input": {"month": "all"}},
        },
        {},
    ),
    "start_flow": ({}, {}),
    "advance_instance": ({"event": "approved", "step": "sign"}, {}),
    "save_filter_of_caller": ({"filter": {"state": ["draft"]}}, {}),
    "create_document": ({"document_type": "passport", "subject": "client-17"}, {}),
    "create_requirement": ({"subject": "client-17", "doc_type": "passport"}, {}),
    "save_rejection_code": (
        {"category": "quality", "client_message": "c", "ops_message": "o", "next_action": "n"},
        {},
    ),
}
OF_ORG = {
    "list_filters_of_caller": "olivia",
    "show_filter": "olivia",
    "list_documents": "olivia",
    "show_document": "olivia",
    "list_requirements": "olivia",
    "show_requirement": "olivia",
}
READS = {
    "memo": OF_ORG
    | {
        "show_instance": "mia",
        "show_entity": "mia",
        "list_entities_of_type": "mia",
        "list_entity_versions": "mia",
        "list_entity_audit": "mia",
        "list_instance_approvals": "mia",
        "list_entity_comments": "mia",
        "list_entity_attachments": "mia",
        "list_approval_questions": "fin",
        "show_approval_question": "mia",
        "show_approval": "fin",
        "show_form": "max",
        "show_request": "mia",
        "show_task": "olivia",
    },
    "diary": OF_ORG
    | {
        "show_instance": "alice",
        "list_approval_questions": "fin",
        "show_approval_question": "alice",
        "show_form": "max",
        "show_request": "alice",
        "show_task": "olivia",
    },
}
"""Routes that do show the secret, and somebody to whom: a test that found it nowhere would prove nothing."""


@pytest.fixture
async def hidden(furnished, clock) -> People:
    await furnish_hidden(furnished, DIARY, LEDGER)
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name, roles) VALUES ('acme', 'olivia', 'O', '{chief}')"
        )
        await connection.execute(
            "INSERT INTO assent.role_capabilities (org_id, role, capability) VALUES ('acme', 'chief', '*')"
        )
    settings = SETTINGS.replace(stream_s_max=1)
    return People(create_app(app, furnished, settings, CALLBACKS), clock.now())


async def planted(hidden, furnished, kind) -> dict[str, str]:
    """An object of every noun, with the secret in it: of an entity that is hidden, or of a flow."""
    if kind == "memo":
        async with hidden("mia") as client:
            entity = (await client.post("/api/entities/memo", json={"data": {"title": MARK}})).json()
            place = f"/api/entities/memo/{entity['id']}"
            await client.patch(place, json={"data": {"pages": 2}}, headers={"If-Match": "*"})
            mia = Actor("mia", roles=frozenset({"manager"}))
            attached = await attach_row(furnished, app, "memo", entity["id"], mia, file_name=MARK)
            moved = await client.post(f"{place}/transitions/submit")
            assert moved.status_code == 200, moved.text
            instance = moved.json()["instance"]
    else:
        entity = {"id": "01890a5d-ac96-774b-bcce-b302099a8057"}
        attached = entity["id"]
        async with hidden("alice") as client:
            started = await client.post(f"/api/flows/{kind}/start", json={"secret": MARK})
            assert started.status_code == 201, started.text
            instance = started.json()
    steps = {step["name"]: step for step in instance["steps"]}
    async with hidden("max") as client:
        kept = await client.put(f"/api/forms/{steps['fill']['step_id']}/draft", json={"data": {"note": MARK}})
        assert kept.status_code == 200, kept.text
    async with hidden("fin") as client:
        path = f"/api/approvals/{steps['sign']['request_id']}/questions"
        question = await client.post(path, json={"text": MARK})
        assert question.status_code == 201, question.text
    async with hidden("olivia") as client:
        body = {"filter": {"created_by": MARK}, "shared": True}
        shared = await client.put("/api/filters/memo/submit", json=body)
        assert shared.status_code == 200, shared.text
    async with furnished.transaction(None) as connection:
        about = {"org_id": "acme", "subject": MARK}
        document = await insert(connection, "documents", **about)
        of_document = {"org_id": "acme", "document_id": document["id"]}
        version = await insert_version_with_file(connection, **of_document, structured_data={"note": MARK})
        requirement = await insert(
            connection, "document_requirements", **about, instance_id=UUID(instance["id"])
        )
    (asked,) = await rows(furnished, "outside_requests")
    (task,) = [row for row in await rows(furnished, "jobs") if row["kind"] == "task"]
    definitions = await rows(furnished, "workflow_definitions")
    (flow,) = [row for row in definitions if row["key"] == "diary"]
    return {
        "flow": "diary",
        "entity_type": "memo",
        "entity_id": entity["id"],
        "attachment_id": attached,
        "instance_id": instance["id"],
        "request_id": steps["sign"]["request_id"],
        "question_id": question.json()["id"],
        "step_id": steps["fill"]["step_id"],
        "taken_id": steps["fill"]["step_id"],
        "asked_id": str(asked["id"]),
        "task_id": str(task["id"]),
        "definition_id": str(flow["id"]),
        "other_id": str(flow["id"]),
        "draft_id": str(flow["id"]),
        "letter_id": str(task["id"]),
        "key_id": entity["id"],
        "delegation_id": entity["id"],
        "filter_of": "memo",
        "document_id": str(document["id"]),
        "version_id": str(version["id"]),
        "requirement_id": str(requirement["id"]),
        "code": "UNREADABLE",
        "user_id": "max",
        "verb": "update",
        "name": "submit",
        "role": "clerk",
        "kind": "asked",
        "language": "en",
        "key": "k",
        "token": "t",
        "a": "1",
        "b": "2",
    }


async def call(hidden, user, route, ids, **more):
    body, headers = BODIES.get(route.name, (None, {}))
    given = ids | {"request_id": ids["asked_id"]} if "/api/outside-requests/" in route.path else ids
    given = given | {"doc_type": "passport"}
    (method,) = route.methods
    async with hidden(user) as client:
        path = route.path.format(**given)
        return await client.request(method, path, json=body, headers={**headers, **more})


def shows(answer) -> bool:
    return MARK in answer.text or MARK in str(answer.headers)


@pytest.mark.parametrize("kind", ["memo", "diary"])
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
async def test_no_answer_shows_what_its_caller_may_not_read(hidden, furnished, route, kind):
    ids = await planted(hidden, furnished, kind)
    for user in ("nobody", "agent"):
        answer = await call(hidden, user, route, ids)
        assert not shows(answer), (user, answer.status_code, answer.text)
        again = await call(hidden, user, route, ids, **{"Idempotency-Key": "again"})
        assert not shows(again), (user, again.status_code, again.text)


@pytest.mark.parametrize("kind", ["memo", "diary"])
async def test_those_who_may_read_are_shown_it(hidden, furnished, kind):
    ids = await planted(hidden, furnished, kind)
    for route in ROUTES:
        user = READS[kind].get(route.name)
        if user is not None:
            answer = await call(hidden, user, route, ids)
            assert shows(answer), (route.name, user, answer.text)


@pytest.mark.parametrize(
    ("path", "user"),
    [
        ("/api/instances/{instance_id}", "nobody"),
        ("/api/instances/{instance_id}/steps", "nobody"),
        ("/api/instances/{instance_id}/steps/{taken_id}", "nobody"),
        ("/api/instances/{instance_id}/path", "nobody"),
        ("/api/instances/{instance_id}/events", "nobody"),
        ("/api/approvals/{request_id}", "nobody"),
        ("/api/forms/{step_id}", "nobody"),
        ("/api/outside-requests/{asked_id}", "nobody"),
        ("/api/tasks/{task_id}", "ned"),
        ("/api/tasks/{task_id}/tree", "ned"),
        ("/api/tasks/{task_id}/events", "ned"),
        ("/api/requirements/{requirement_id}", "ned"),
    ],
)
@pytest.mark.parametrize("kind", ["memo", "diary"])
async def test_an_object_is_refused_to_those_who_may_not_read_it(hidden, furnished, path, user, kind):
    ids = await planted(hidden, furnished, kind)
    async with hidden(user) as client:
        assert problem(await client.get(path.format(**ids)), 403)["code"] == "POLICY_DENIED"


@pytest.mark.parametrize("kind", ["memo", "diary"])
@pytest.mark.parametrize(
    "path", ["/api/instances", "/api/outside-requests", "/api/tasks", "/api/requirements"]
)
async def test_a_list_leaves_out_what_its_reader_may_not_read(hidden, furnished, path, kind):
    """FINDINGS: x13, W21."""
    await planted(hidden, furnished, kind)
    async with hidden("ned") as client:
        assert (await client.get(path)).json()["items"] == []
    async with hidden("olivia") as client:
        assert len((await client.get(path)).json()["items"]) == 1


@pytest.mark.parametrize("kind", ["memo", "diary"])
async def test_a_command_that_is_allowed_to_one_who_may_not_read_answers_with_nothing(
    hidden, furnished, kind
):
    """FINDINGS: B9, B10, and their class."""
    ids = await planted(hidden, furnished, kind)
    to_bob = {"reason": "away", "to_user": "bob"}
    async with hidden("agent") as client:
        for method, path, body in (
            ("POST", "/api/approvals/{request_id}/reassign", {"from_user": "fin", **to_bob}),
            ("POST", "/api/approvals/{request_id}/release", None),
            ("POST", "/api/forms/{step_id}/reassign", {"from_user": "max", **to_bob}),
            ("POST", "/api/forms/{step_id}/release", None),
            ("POST", "/api/instances/{instance_id}/pause", {}),
            ("POST", "/api/instances/{instance_id}/resume", None),
            ("POST", "/api/tasks/{task_id}/cancel", None),
            ("POST", "/api/requirements/{requirement_id}/waive", {"reason": "x"}),
            ("POST", "/api/requirements/{requirement_id}/reset", {"reason": "x"}),
            ("POST", "/api/operations/instances/{instance_id}/force-fail", {"reason": "x"}),
        ):
            answer = await client.request(method, path.format(**ids), json=body)
            assert (answer.status_code, answer.text) == (204, ""), (path, answer.text)
        # Nor does it let them read what they have operated.
        assert (
            problem(await client.get(f"/api/instances/{ids['instance_id']}"), 403)["code"] == "POLICY_DENIED"
        )


async def test_an_entity_is_written_without_being_shown_to_one_who_may_not_read_it(hidden, furnished):
    async with hidden("agent") as client:
        made = await client.post("/api/entities/memo", json={"data": {"title": "mine"}})
        assert (made.status_code, made.text) == (204, "")
        assert made.headers["etag"] == '"1"'
        place = made.headers["location"]
        changed = await client.patch(place, json={"data": {"pages": 1}}, headers={"If-Match": '"1"'})
        assert (changed.status_code, changed.text, changed.headers["etag"]) == (204, "", '"2"')
        moved = await client.post(f"{place}/transitions/submit", headers={"If-Match": '"2"'})
        assert (moved.status_code, moved.text) == (204, "")
        assert problem(await client.get(place), 403)["code"] == "POLICY_DENIED"


@pytest.mark.parametrize("kind", ["memo", "diary"])
async def test_nobody_releases_a_form_that_is_none_of_theirs(hidden, furnished, kind):
    """FINDINGS: B10."""
    ids = await planted(hidden, furnished, kind)
    async with hidden("nobody") as client:
        refused = await client.post(f"/api/forms/{ids['step_id']}/release")
        assert problem(refused, 403)["code"] == "POLICY_DENIED"
    async with hidden("max") as client:
        assert (await client.post(f"/api/forms/{ids['step_id']}/release")).status_code == 200
        assert (await client.post(f"/api/forms/{ids['step_id']}/claim")).status_code == 200
        assert (await client.post(f"/api/forms/{ids['step_id']}/release")).json()["claimed_by"] is None


async def test_a_draft_is_for_those_who_could_answer(hidden, furnished):
    """FINDINGS: W20. Who may read the flow sees the form, and not what somebody has begun to write."""
    ids = await planted(hidden, furnished, "ledger")
    path = f"/api/forms/{ids['step_id']}"
    async with hidden("ned") as client:
        seen = (await client.get(path)).json()
    assert (seen["draft"], seen["draft_problems"], seen["draft_by"]) == (None, None, "max")
    async with hidden("max") as client:
        assert (await client.get(path)).json()["draft"] == {"note": MARK}


async def test_those_who_take_part_in_a_flow_read_it(hidden, furnished):
    """Who started it, who is asked, who stands in for them, and holders of a capability; nobody else."""
    ids = await planted(hidden, furnished, "diary")
    path = f"/api/instances/{ids['instance_id']}"

    async def sees(user) -> tuple[int, int]:
        async with hidden(user) as client:
            listed = (await client.get("/api/instances")).json()["items"]
            counted = (await client.get("/api/instances/count")).json()
            assert counted == {"count": len(listed), "more": False}
            return (await client.get(path)).status_code, len(listed)

    assert {user: await sees(user) for user in ("alice", "fin", "max", "olga", "olivia")} == dict.fromkeys(
        ("alice", "fin", "max", "olga", "olivia"), (200, 1)
    )
    assert {user: await sees(user) for user in ("nobody", "agent", "bob", "mia", "ned")} == dict.fromkeys(
        ("nobody", "agent", "bob", "mia", "ned"), (403, 0)
    )
    async with hidden("fin") as client:
        made = await client.post("/api/delegations", json={"to_user": "bob"})
        assert made.status_code == 201, made.text
    assert await sees("bob") == (200, 1)
    async with hidden("bob") as client:
        assert (await client.get(f"/api/approvals/{ids['request_id']}")).status_code == 200


async def test_an_approver_reads_a_flow_when_their_turn_has_come(hidden, furnished):
    ask = {"id": "ask", "type": "approval", "mode": "sequence", "approvers": {"rule": '["mia", "bob"]'}}
    ends = [{"id": name, "type": "terminal"} for name in ("yes", "no")]
    in_turn = {
        "flow": "in_turn",
        "version": 1,
        "start": "ask",
        "steps": [ask, *ends],
        "transitions": [
            {"from": "ask", "event": "approved", "to": "yes"},
            {"from": "ask", "event": "rejected", "to": "no"},
        ],
    }
    async with furnished.transaction(None) as connection:
        await publish_flow(connection, "acme", in_turn, SYSTEM, furnished.clock.now())
    async with hidden("alice") as client:
        started = (await client.post("/api/flows/in_turn/start", json={"secret": MARK})).json()
    flow, request = f"/api/instances/{started['id']}", f"/api/approvals/{started['steps'][0]['request_id']}"

    async def reads(user) -> list[int]:
        async with hidden(user) as client:
            return [(await client.get(path)).status_code for path in (flow, request)]

    assert (await reads("mia"), await reads("bob")) == ([200, 200], [403, 403])
    async with hidden("mia") as client:
        assert (await client.post(f"{request}/decide", json={"answer": "approved"})).status_code == 200
    assert await reads("bob") == [200, 200]


async def test_trying_a_step_again_lets_nobody_read_what_follows(hidden, furnished):
    """The steps that follow are recorded as the operator's, and are none that they answered."""
    broken = {
        "flow": "broken",
        "version": 1,
        "start": "break",
        "steps": [
            {"id": "break", "type": "webhook_out", "url": "{workflow.url}"},
            {"id": "done", "type": "terminal"},
        ],
        "transitions": [{"from": "break", "to": "done"}],
    }
    async with furnished.transaction(None) as connection:
        await publish_flow(connection, "acme", broken, SYSTEM, furnished.clock.now())
    async with hidden("alice") as client:
        body = {"secret": MARK, "url": ""}
        started = (await client.post("/api/flows/broken/start", json=body)).json()
    assert started["status"] == "paused"
    async with hidden("agent") as client:
        tried = await client.post(f"/api/instances/{started['id']}/retry", json={})
        assert (tried.status_code, tried.text) == (204, "")
        assert problem(await client.get(f"/api/instances/{started['id']}"), 403)
    assert "agent" in {row["actor_user_id"] for row in await rows(furnished, "workflow_step_executions")}


async def test_a_flow_names_the_roles_that_may_read_it(hidden, furnished):
    ids = await planted(hidden, furnished, "ledger")
    async with hidden("ned") as client:  # an auditor, who takes no part
        assert MARK in (await client.get(f"/api/instances/{ids['instance_id']}")).text
        assert len((await client.get("/api/instances")).json()["items"]) == 1
        assert len((await client.get("/api/outside-requests")).json()["items"]) == 1
        assert MARK in (await client.get(f"/api/tasks/{ids['task_id']}")).text
    async with hidden("mia") as client:
        assert problem(await client.get(f"/api/instances/{ids['instance_id']}"), 403)


async def test_a_flow_is_read_with_a_capability_of_its_own(hidden, furnished):
    ids = await planted(hidden, furnished, "diary")
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.role_capabilities (org_id, role, capability) VALUES ('acme', 'auditor', 'diary:read')"
        )
    async with hidden("ned") as client:
        assert (await client.get(f"/api/instances/{ids['instance_id']}")).status_code == 200
        assert len((await client.get("/api/instances")).json()["items"]) == 1


async def test_definitions_are_named_to_everybody_and_read_by_those_who_may(hidden, furnished):
    """FINDINGS: W14."""
    ids = await planted(hidden, furnished, "diary")
    async with hidden("nobody") as client:
        listed = (await client.get("/api/definitions?kind=flow&own=true")).json()["items"]
        assert "diary" in {one["key"] for one in listed}
        for path in ("", "/diagram", f"/diff/{ids['definition_id']}"):
            refused = await client.get(f"/api/definitions/{ids['definition_id']}{path}")
            assert problem(refused, 403)["code"] == "POLICY_DENIED"
    async with hidden("adam") as client:
        assert MARK in (await client.get(f"/api/definitions/{ids['definition_id']}")).text


@pytest.mark.parametrize("kind", ["memo", "ledger"])
async def test_a_kept_answer_is_shown_only_while_its_caller_may_read_it(hidden, furnished, kind):
    """FINDINGS: W35."""
    ids = await planted(hidden, furnished, kind)
    path = {"memo": "/api/entities/memo/{entity_id}/actions/update", "ledger": "/api/tasks/{task_id}/cancel"}[
        kind
    ]
    body = {"data": {"pages": 9}} if kind == "memo" else None
    user, role = {"memo": ("mia", "manager"), "ledger": ("olivia", "chief")}[kind]
    repeat = {"Idempotency-Key": "k"}

    async def send():
        async with hidden(user) as client:
            return await client.post(path.format(**ids), json=body, headers=repeat)

    first, second = await send(), await send()
    assert first.status_code == 200
    assert MARK in first.text
    assert second.text == first.text
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.members SET roles = '{clerk}' WHERE org_id = 'acme' AND user_id = $1", user
        )
    third = await send()
    assert (third.status_code, third.text) == (204, "")
    assert third.headers["Idempotent-Replayed"] == "true"
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.members SET roles = ARRAY[$2] WHERE org_id = 'acme' AND user_id = $1", user, role
        )
    assert (await send()).text == first.text


MADE_IN = {
    "ApprovalBody": {"approvals.py", "instances.py"},
    "AttachmentBody": {"attachments.py"},
    "CommentBody": {"comments.py"},
    "DecidedBody": {"approvals.py"},
    "Descriptor": {"instances.py"},
    "DefinitionBody": {"definitions.py", "drafts.py"},
    "DocumentBody": {"documents.py"},
    "DocumentDetailsBody": {"documents.py"},
    "DraftBody": {"drafts.py"},
    "EntityBody": {"entities.py"},
    "FilterBody": {"filters.py"},
    "FormBody": {"forms.py"},
    "InstanceBody": {"instances.py", "approvals.py", "entities.py"},
    "OutsideRequestBody": {"outside_requests.py"},
    "OutsideRequestDetails": {"outside_requests.py"},
    "RequirementBody": {"documents.py"},
    "RequirementDetailsBody": {"documents.py"},
    "TaskBody": {"tasks.py"},
    "TransitionBody": {"entities.py"},
}
"""The bodies with content of an object, and the modules that make them: each asks whether its caller may read it."""


def test_content_leaves_through_the_module_of_its_noun():
    made = re.compile(rf"\b({'|'.join(MADE_IN)})(?:\.of\w*|\()")
    found: dict[str, set[str]] = {}
    for path in Path(assent.http.__file__).parent.rglob("*.py"):
        for line in path.read_text().splitlines():
            if not line.lstrip().startswith(("class ", "def ")):
                for match in made.finditer(line):
                    found.setdefault(match[1], set()).add(path.name)
    assert found == MADE_IN


def test_members_of_the_company_are_those_of_the_other_tests():
    assert {"alice", "fin", "max", "olga", "bob", "adam"} <= COMPANY.keys()


def python_reads(acme, ids):
    """Route → its read in Python, with the body that shows it."""
    memo = {"entity_type": "memo"}
    entity_id, instance_id = UUID(ids["entity_id"]), UUID(ids["instance_id"])
    entities, inst, asked = acme.entities, acme.instances, acme.approvals
    return {
        "show_entity": (entities.get(entity_id, **memo), EntityBody.of),
        "list_entities_of_type": (entities.list("memo"), EntityBody.of),
        "count_entities_of_type": (entities.count("memo"), EntityCountsBody.of),
        "list_entity_versions": (entities.versions(entity_id, **memo), VersionBody.of),
        "compare_entity_versions": (entities.compare(entity_id, 1, 2, **memo), DiffBody.of),
        "list_entity_audit": (entities.audit(entity_id, **memo), EntityAuditBody.of),
        "list_entity_approvals": (entities.decisions(entity_id, **memo), DecisionRecordBody.of),
        "list_instances_of_org": (inst.list(), InstanceSummary.of),
        "show_instance": (inst.get(instance_id), Descriptor.of_details),
        "list_instance_steps": (inst.history(instance_id), TimelineStep.of),
        "show_instance_step": (
            inst.step(instance_id, UUID(ids["taken_id"])),
            StepDetailsBody.of_step,
        ),
        "show_instance_path": (inst.path(instance_id), InstancePathBody.of),
        "show_approval": (
            asked.get(UUID(ids["request_id"]), with_answers=True),
            ApprovalToDecideBody.of_details,
        ),
        "show_inbox": (asked.inbox(), InboxItemBody.of),
        "count_inbox_of_caller": (asked.count_inbox(), InboxCountsBody.of),
        "show_form": (acme.forms.get(UUID(ids["step_id"])), FormBody.of),
        "list_tasks_of_org": (acme.tasks.list(), TaskItemBody.of),
        "show_task": (acme.tasks.get(UUID(ids["task_id"])), TaskBody.of),
        "show_task_tree": (acme.tasks.tree(UUID(ids["task_id"])), TaskTreeBody.of),
    }


async def outcome_of(read, body_of):
    """Return what a read in Python returns, as JSON, or the code with which it is refused."""
    try:
        found = await read
    except Refused as refused:
        return refused.code
    if isinstance(found, ItemPage | InboxPage):
        items = [json.loads(body_of(item).model_dump_json(by_alias=True)) for item in found.items]
        return {"items": items, "next": found.next}
    return json.loads(body_of(found).model_dump_json(by_alias=True))


@pytest.mark.parametrize("kind", ["memo", "diary"])
@pytest.mark.parametrize("user", ["nobody", "agent", "mia", "ned", "fin", "max", "alice", "olivia"])
async def test_python_reads_the_same_values_with_the_same_rights(hidden, furnished, user, kind):
    ids = await planted(hidden, furnished, kind)
    async with furnished.transaction("acme") as connection:
        actor = await read_actor(connection, "acme", user)
    for name, (read, body_of) in python_reads(app.runtime(furnished).org("acme", actor), ids).items():
        (route,) = [route for route in ROUTES if route.name == name]
        answer = await call(hidden, user, route, ids)
        expected = answer.json() if answer.status_code == 200 else answer.json()["code"]
        assert await outcome_of(read, body_of) == expected, name


async def test_python_reads_page_by_page_and_only_its_partition(hidden, furnished):
    acme = app.runtime(furnished).org("acme", Actor("mia", roles=frozenset({"manager"})))
    made = [(await acme.entities.mutate("memo.create", {"title": f"M{n}"})).entity.id for n in range(5)]
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = await acme.entities.list("memo", cursor=cursor, limit=2)
        seen += [entity.id for entity in page.items]
        cursor, pages = page.next, pages + 1
    assert (seen, pages) == (made[::-1], 3)
    for refused in (
        acme.entities.list("memo", limit=0),
        acme.entities.list("memo", cursor="x"),
        app.runtime(furnished).org("acme", SYSTEM, "north").entities.get(made[0]),
    ):
        with pytest.raises(Refused, match=r"BAD_VALUE|BAD_CURSOR|NOT_FOUND"):
            await refused


@pytest.mark.parametrize(
    ("user", "kind", "refused"),
    [
        ("nobody", "memo", {"show_entity", "show_instance", "show_approval", "show_form", "show_task"}),
        ("nobody", "memo", {"list_entities_of_type", "count_entities_of_type"}),
        ("alice", "diary", {"show_task", "list_tasks_of_org"}),
    ],
)
async def test_python_refuses_reads_to_those_without_the_right(hidden, furnished, user, kind, refused):
    ids = await planted(hidden, furnished, kind)
    async with furnished.transaction("acme") as connection:
        actor = await read_actor(connection, "acme", user)
    reads = python_reads(app.runtime(furnished).org("acme", actor), ids)
    outcomes = {name: await outcome_of(*read) for name, read in reads.items()}
    assert {name: outcomes[name] for name in refused} == dict.fromkeys(refused, "POLICY_DENIED")
    if kind == "diary":
        assert outcomes["show_instance"]["id"] == ids["instance_id"]
