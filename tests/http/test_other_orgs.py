"""Every route tried by another org, with everything that is somebody else's: not found, and nothing changed.

The last test walks the routes, so that a new one without a case here turns it red.
"""

from uuid import UUID

import pytest

from assent.model.actor import Actor
from assent.model.mutation import Command
from tests.http.application import CHAIN, INVOICE_DATA, LEAVE, RULE, SCHEDULE, app
from tests.http.callers import client_of, problem
from tests.http.route_table import ROUTES
from tests.rows import insert, insert_effect, insert_version_with_file
from tests.world import rows

TABLES = """
SELECT relname FROM pg_class
 WHERE relnamespace = 'assent'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname
"""
DIGEST = (
    "SELECT '{0}', md5(string_agg(r::text, '|' ORDER BY r::text)) FROM assent.{0} r "
    "WHERE to_jsonb(r) ->> 'action' IS DISTINCT FROM 'command.refused'"
)
"""Of everything but the attempts that were refused, which are in the audit log of whoever tried."""

CASES = {
    "show_instance": ("alice", None, {}),
    "list_instance_steps": ("alice", None, {}),
    "show_instance_step": ("alice", None, {}),
    "show_instance_path": ("alice", None, {}),
    "list_instance_approvals": ("alice", None, {}),
    "compare_instance": ("adam", None, {}),
    "advance_instance": ("bob", {"event": "approved"}, {}),
    "cancel_instance": ("olga", {"reason": "mine now"}, {}),
    "pause_instance": ("olga", {}, {}),
    "resume_instance": ("olga", {}, {}),
    "retry_instance": ("olga", {}, {}),
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
    "list_entity_comments": ("alice", None, {}),
    "add_entity_comment": ("alice", {"text": "mine now"}, {}),
    "list_entity_attachments": ("alice", None, {}),
    "attach_file_to_entity": ("alice", {"as": "a file"}, {}),
    "download_entity_attachment": ("alice", None, {}),
    "remove_entity_attachment": ("alice", {"reason": "mine now"}, {}),
    "erase_entity_attachment": ("adam", {"reason": "mine now"}, {}),
    "list_approval_questions": ("fin", None, {}),
    "ask_question": ("fin", {"text": "mine now"}, {}),
    "show_approval_question": ("alice", None, {}),
    "answer_question": ("alice", {"text": "mine now"}, {}),
    "release_approval": ("olga", {}, {}),
    "stream_instance": ("alice", None, {}),
    "list_entity_approvals": ("alice", None, {}),
    "revoke_delegation": ("adam", None, {}),
    "show_approval_chain": ("alice", None, {}),
    "show_form": ("alice", None, {}),
    "claim_form": ("alice", None, {}),
    "release_form": ("alice", None, {}),
    "keep_form_draft": ("alice", {"data": {}}, {}),
    "reassign_form": ("adam", {"from_user": "alice", "to_user": "max"}, {}),
    "show_definition": ("alice", None, {}),
    "draw_definition": ("alice", None, {}),
    "compare_definitions": ("alice", None, {}),
    "archive_definition": ("adam", None, {}),
    "roll_definition_back": ("adam", None, {}),
    "show_draft": ("adam", None, {}),
    "change_draft_of_org": ("adam", {"source": {**LEAVE, "flow": "draft"}}, {"If-Match": "*"}),
    "discard_draft_of_org": ("adam", None, {}),
    "publish_draft_of_org": ("adam", None, {"If-Match": "*"}),
    "show_member": ("alice", None, {}),
    "change_member_of_org": ("adam", {"roles": ["admin"]}, {}),
    "deactivate_member": ("adam", None, {}),
    "revoke_key": ("adam", None, {}),
    "rotate_source": ("adam", {}, {}),
    "retire_source_secret": ("adam", None, {}),
    "delete_source": ("adam", None, {}),
    "delete_secret_of_org": ("adam", None, {}),
    "show_filter": ("adam", None, {}),
    "delete_filter_of_caller": ("adam", None, {}),
    "show_rule": ("adam", None, {}),
    "delete_rule_of_org": ("adam", None, {}),
    "retry_dead_letter": ("adam", None, {}),
    "discard_dead_letter": ("adam", {"reason": "mine now"}, {}),
    "rebuild_instance": ("adam", None, {}),
    "reenqueue_instance": ("adam", None, {}),
    "show_task": ("adam", None, {}),
    "show_task_log": ("adam", None, {}),
    "show_task_tree": ("adam", None, {}),
    "stream_task": ("adam", None, {}),
    "cancel_task": ("adam", None, {}),
    "complete_background_task": ("adam", {"output": {"pages": 3}}, {}),
    "fail_background_task": ("adam", {"message": "no paper"}, {}),
    "retry_task": ("adam", None, {}),
    "show_schedule": ("adam", None, {}),
    "list_next_times": ("adam", None, {}),
    "pause_schedule_of_org": ("adam", None, {}),
    "resume_schedule_of_org": ("adam", None, {}),
    "run_schedule": ("adam", None, {}),
    "delete_schedule_of_org": ("adam", None, {}),
    "force_fail_instance": ("adam", {"reason": "mine now"}, {}),
    "skip_step": ("adam", {"step": "review", "edge": "review->end"}, {}),
    "cancel_token": ("adam", {"token": "0"}, {}),
    "edit_variables": ("adam", {"variables": {"order_id": "9"}}, {}),
    "list_pending_tasks": ("alice", None, {}),
    "show_document": ("adam", None, {}),
    "add_document_version": ("adam", {"structured_data": {"number": "mine now"}}, {}),
    "upload_document_version": ("adam", {"as": "a file"}, {}),
    "download_document_version": ("adam", None, {}),
    "link_document_version": ("adam", None, {}),
    "create_upload_link": ("adam", {}, {}),
    "revoke_upload_links": ("adam", {}, {}),
    "verify_version": ("adam", {}, {}),
    "reject_version": ("adam", {"code": "UNREADABLE"}, {}),
    "erase_document_version": ("adam", {"reason": "mine now"}, {}),
    "show_requirement": ("adam", None, {}),
    "waive_requirement": ("adam", {"reason": "mine now"}, {}),
    "reset_requirement": ("adam", {"reason": "mine now"}, {}),
    "show_request": ("alice", None, {}),
    "push_result": ("olga", {"key": "k", "items": [{"cargo": "external://vault/7"}]}, {}),
}
"""Who tries it — somebody whom the same request in their own org is granted to — with which body and headers."""

ALICE = Actor("alice", roles={"clerk"})
SECRET_OF_OURS = {"value": "kT8vw-2fQ9xL", "hosts": ["erp.example"]}

NOTHING_TO_NAME = {
    "show_sign_in",
    "create_session",
    "show_session",
    "renew_session_of_caller",
    "end_session",
    "show_entity_contract",
    "healthz",
    "readyz",
    "start_flow",
    "list_instances_of_org",
    "count_instances_of_org",
    "create_entity",
    "list_entities_of_type",
    "count_entities_of_type",
    "list_filters_of_caller",
    "save_filter_of_caller",
    "list_entity_indexes",
    "emit_event",
    "list_requests",
    "push_result_by_callback",
    "download_by_link",
    "show_asked_uploads",
    "hand_in_document",
    "show_inbox",
    "count_inbox_of_caller",
    "stream_inbox",
    "list_delegations_of_org",
    "create_delegation",
    "list_approval_chains",
    "keep_approval_chain",
    "list_definitions",
    "check_definitions",
    "publish_definitions",
    "create_draft_of_org",
    "list_templates",
    "show_template",
    "list_members_of_org",
    "create_member_of_org",
    "list_roles_of_org",
    "show_role",
    "set_role",
    "list_keys",
    "create_key",
    "list_sources",
    "list_secrets_of_org",
    "put_secret_of_org",
    "list_signing_secrets_of_org",
    "rotate_signing_secret",
    "retire_signing_secrets",
    "show_question",
    "decide_by_link",
    "post_test_alert",
    "delete_mail_template_of_org",
    "list_mail_templates_of_org",
    "show_mail_template",
    "list_services",
    "save_mail_template_of_org",
    "preview_mail_of_org",
    "show_preferences",
    "change_preferences_of_caller",
    "show_org",
    "list_partitions_of_org",
    "save_settings_of_org",
    "change_settings_of_org",
    "list_rules_of_org",
    "save_rule_of_org",
    "list_evaluations_of_rule",
    "submit_task",
    "submit_task_batch",
    "list_task_resources",
    "show_task_resource",
    "list_schedules_of_org",
    "save_schedule_of_org",
    "complete_task",
    "create_document",
    "list_documents",
    "create_requirement",
    "list_requirements",
    "count_requirements_of_org",
    "solicit_documents",
    "list_verbs",
    "run_verb",
    "list_rejection_codes_of_org",
    "save_rejection_code",
    "list_tasks_of_org",
    "create_source",
    "search_audit_log",
    "show_health",
    "list_nodes_of_fleet",
    "list_dead_letters",
    "list_stuck",
    "list_open_items",
    "list_incident_groups",
    "list_incidents",
    "show_metrics",
}
"""Routes that name nothing of an org's; what they show and write is their caller's own."""


@pytest.fixture
async def theirs(people, furnished) -> dict[str, str]:
    return await settle_acme(people, furnished)


async def attach_row(database, application, entity_type, entity_id, who, **blob) -> str:
    """Attach a file whose bytes are nowhere; return its id."""
    async with database.transaction(None) as connection:
        row = await insert(connection, "blobs", org_id="acme", entity_id=UUID(entity_id), **blob)
    change = {str(row["id"]): row["sha256"]}
    command = Command("acme", f"{entity_type}.update", who, {}, UUID(entity_id), attachments=change)
    await application.runtime(database).core.kernel.mutate(command)
    return str(row["id"])


async def settle_acme(people, furnished) -> dict[str, str]:
    """Give acme an invoice that waits for approval, and some of everything else; return the parts of their paths."""
    async with people("alice") as client:
        created = (await client.post("/api/entities/invoice", json={"data": INVOICE_DATA})).json()
        await client.patch(
            f"/api/entities/invoice/{created['id']}",
            json={"data": {"grand_total": 2}},
            headers={"If-Match": "*"},
        )
        attachment_id = await attach_row(furnished, app, "invoice", created["id"], ALICE)
        moved = (await client.post(f"/api/entities/invoice/{created['id']}/transitions/submit")).json()
    request_id = moved["instance"]["steps"][0]["request_id"]
    async with people("fin") as client:
        asked = await client.post(f"/api/approvals/{request_id}/questions", json={"text": "Why?"})
    return await _administered(people, furnished) | {
        "question_id": asked.json()["id"],
        "entity_type": "invoice",
        "filter_of": "invoice",
        "entity_id": created["id"],
        "attachment_id": attachment_id,
        "instance_id": moved["instance"]["id"],
        "request_id": request_id,
        "taken_id": moved["instance"]["steps"][0]["step_id"],
        "verb": "update",
        "name": "cancel",
        "a": "1",
        "b": "2",
    }


async def _administered(people, furnished) -> dict[str, str]:
    async with people("adam") as client:

        async def made(path, body, method="POST"):
            answer = await client.request(method, path, json=body, headers={"If-Match": "*"})
            assert answer.status_code in (200, 201, 202), answer.text
            return answer.json()

        flow = await made("/api/drafts", {"source": LEAVE})
        flow = await made(f"/api/drafts/{flow['id']}/publish", None)
        await made("/api/approval-chains/cancel", CHAIN, "PUT")
        await made("/api/event-sources", {"name": "cancel", "key_prefix": "payment:"})
        await made("/api/secrets/cancel", SECRET_OF_OURS, "PUT")
        await made("/api/rules/invoice/cancel", RULE, "PUT")
        await made("/api/schedules/cancel", SCHEDULE, "PUT")
        await made("/api/filters/invoice/cancel", {"filter": {"state": ["draft"]}}, "PUT")
        await made("/api/members", {"user_id": "dora", "name": "Dora"})
        found = {
            "draft_id": (await made("/api/drafts", {"source": {**LEAVE, "flow": "draft"}}))["id"],
            "delegation_id": (await made("/api/delegations", {"to_user": "max"}))["id"],
            "key_id": (await made("/api/keys", {"name": "mine"}))["id"],
            "task_id": (await made("/api/tasks", {"type": "report.build", "input": {"month": "May"}}))["id"],
        }
    async with people("alice") as client:
        survey = (await client.post("/api/flows/survey/start", json={"order": 7})).json()
        await client.post("/api/flows/screening/start", json={"client": "c-1"})
        (asked,) = (await client.get("/api/outside-requests")).json()["items"]
    async with furnished.transaction(None) as connection:
        letter = await insert_effect(connection, org_id="acme", status="dead", lane="mail")
        version = await insert_version_with_file(connection, org_id="acme")
        requirement = await insert(connection, "document_requirements", org_id="acme")
    return found | {
        "definition_id": flow["definition"]["id"],
        "other_id": flow["definition"]["id"],
        "step_id": survey["steps"][0]["step_id"],
        "letter_id": str(letter["id"]),
        "asked_id": asked["id"],
        "document_id": str(version["document_id"]),
        "version_id": str(version["id"]),
        "requirement_id": str(requirement["id"]),
        "user_id": "dora",
    }


async def ask(people, route, theirs, org, **more):
    user, body, headers = CASES[route.name]
    given = theirs | {"definition_id": theirs["draft_id"]} if "/drafts/" in route.path else theirs
    given = given | {"request_id": theirs["asked_id"]} if "/api/outside-requests/" in route.path else given
    async with people(user, org, **more) as client:
        (method,) = route.methods
        return await client.request(method, route.path.format(**given), json=body, headers=headers)


async def everything(database) -> dict[str, str]:
    """Every table of the schema, with a digest of all its rows."""
    async with database.transaction(None) as connection:
        names = [row["relname"] for row in await connection.fetch(TABLES)]
        return dict(await connection.fetch(" UNION ALL ".join(DIGEST.format(name) for name in names)))


async def test_a_change_of_any_table_would_be_seen(furnished):
    before = await everything(furnished)
    assert len(before) > 25
    async with furnished.transaction(None) as connection:
        await insert_effect(connection, org_id="acme")
    after = await everything(furnished)
    assert sorted(name for name in before if before[name] != after[name]) == ["effects", "jobs"]


@pytest.mark.parametrize("route", [r for r in ROUTES if r.name in CASES], ids=lambda route: route.name)
async def test_what_is_another_orgs_is_not_there_and_stays_as_it_is(people, furnished, theirs, route):
    before = await everything(furnished)
    refused = problem(await ask(people, route, theirs, "globex"), 404)
    assert refused["code"] == "NOT_FOUND"
    assert await everything(furnished) == before
    assert {
        row["org_id"] for row in await rows(furnished, "audit_log") if row["action"] == "command.refused"
    } <= {"globex"}
    granted = await ask(people, route, theirs, "acme")  # the same request, and only the org was wrong
    assert granted.status_code not in (404, 401), granted.text


async def test_lists_and_events_are_of_ones_own_org(people, furnished, theirs):
    async with people("olga", "globex") as client:
        assert (await client.get("/api/instances")).json()["items"] == []
        assert (await client.get("/api/instances/count")).json()["count"] == 0
        assert (await client.get("/api/entities/invoice")).json()["items"] == []
    async with people("adam", "globex") as client:
        for path in (
            "/api/inbox",
            "/api/delegations?all=true",
            "/api/approval-chains",
            "/api/definitions?kind=flow&own=true",
            "/api/keys?all=true",
            "/api/event-sources",
            "/api/secrets",
            "/api/signing-secrets",
            "/api/rules",
            "/api/filters",
            "/api/rules/invoice/cancel/evaluations",
            "/api/outside-requests",
            "/api/tasks",
            "/api/documents",
            "/api/requirements",
            "/api/audit?channel=http",
            "/api/operations/dead-letters",
        ):
            assert (await client.get(path)).json()["items"] == [], path
        assert "dora" not in (await client.get("/api/members")).text
        assert (await client.get("/api/operations/health")).json()["dead_letters"] == []
    async with people("olga", "globex") as client:
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
        assert (await client.get(f"/api/entities/invoice/{theirs['entity_id']}")).json()["version"] == 4
        assert UUID(theirs["entity_id"])


ASKS_OTHERWISE = {
    "healthz": 200,
    "readyz": 200,
    "show_metrics": 404,
    "show_question": 410,  # by the token in its address
    "decide_by_link": 410,
    "download_by_link": 404,
    "show_asked_uploads": 404,
    "hand_in_document": 404,
    "show_sign_in": 200,
    "create_session": 403,  # it has to come from a page of the server
}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
async def test_every_route_but_health_asks_who_calls(door, route):
    path = route.path.format_map(dict.fromkeys(route.param_convertors, "x"))
    async with client_of(door) as client:
        for method in route.methods:
            answer = await client.request(method, path, json={})
            assert answer.status_code == ASKS_OTHERWISE.get(route.name, 401), route.name


def test_every_route_has_a_case():
    names = [route.name for route in ROUTES]
    assert len(names) == len(set(names))
    assert set(names) == CASES.keys() | NOTHING_TO_NAME


def test_a_route_that_names_something_is_tried_with_it():
    for route in ROUTES:
        named = set(route.param_convertors) - {
            "flow",
            "entity_type",
            "key",
            "role",
            "token",
            "doc_type",
            "kind",
            "language",
        }
        if route.name not in (
            "show_template",
            "show_task_resource",
            "keep_approval_chain",
            "put_secret_of_org",
            "save_rule_of_org",
            "save_schedule_of_org",
            "save_filter_of_caller",
            "save_rejection_code",
            "list_evaluations_of_rule",
        ):  # everybody's, and one's own by any name
            assert bool(named) == (route.name in CASES), route.name
