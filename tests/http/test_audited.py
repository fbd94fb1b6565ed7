"""Whatever is written through HTTP is audited, once: who, what, when, from where, how, why, in which trace."""

import json
from urllib.parse import quote

import pytest

from assent.model.actor import Actor
from tests.http.application import CHAIN, INVOICE_DATA, LEAVE, RULE, SCHEDULE
from tests.http.callers import PLACE
from tests.http.route_table import ROUTES
from tests.http.test_other_orgs import CASES, ask, theirs  # noqa: F401 - a fixture
from tests.world import rows

ORDER = {"order_id": "ord-1", "customer_email": "bob@example.com"}
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

WRITES = [route for route in ROUTES if not route.methods & {"GET", "HEAD"} and route.name in CASES]
UNTOUCHED = {
    "link_document_version": "it changes nothing",
    "create_upload_link": "the request asks for no documents",
    "retry_task": "it is not dead",
    "complete_background_task": "it is not in the background",
    "fail_background_task": "it is not in the background",
    "reset_requirement": "nothing was asked for it yet",
    "advance_instance": "bob is not asked",
    "reassign_form": "adam is not asked, and may not either",
    "roll_definition_back": "it is the version that is published",
    "change_draft_of_org": "it says what it said",
    "resume_instance": "it is not paused",
    "resume_schedule_of_org": "it is not paused",
    "edit_variables": "it is not paused",
    "skip_step": "there is no such step",
    "cancel_token": "there is no such token",
    "retry_instance": "nothing failed in it",
    "retire_source_secret": "there is one secret only, and that holds",
}
SIGNED_IN_BY_NOBODY = {"push_result_by_callback", "decide_by_link", "hand_in_document"}
"""Whoever was given a signed address; what came by it is kept with the request that it answers.
`tests/http/test_decision_links.py` finds the decision of a link under its person."""
AUDITED_ELSEWHERE = {
    "retire_signing_secrets": "tests/http/test_org.py: it retires what was rotated before",
    "post_test_alert": "tests/effects/test_alerts.py: it takes a setting",
    "delete_mail_template_of_org": "tests/store/test_audit_guards.py: it takes a template of the org",
    "create_session": "tests/http/test_sessions.py: it comes from a page",
    "renew_session_of_caller": "tests/http/test_sessions.py: it is not, for it comes every ten minutes",
    "end_session": "tests/http/test_sessions.py: it comes from a page",
    "complete_task": "tests/documents/test_guide.py: it reports what a flow asked for",
}
BATCH = {
    "tasks": [{"type": "report.build", "input": {"month": month}} for month in ("May", "June")],
    "then": {"type": "report.build", "input": {"month": "all"}},
}
CREATING = {
    "create_document": (
        "adam",
        "POST",
        "/api/documents",
        {"document_type": "passport", "subject": "c-1"},
        "document.create",
    ),
    "create_requirement": (
        "adam",
        "POST",
        "/api/requirements",
        {"subject": "c-1", "doc_type": "passport"},
        "requirement.create",
    ),
    "solicit_documents": (
        "adam",
        "POST",
        "/api/requirements/solicit",
        {"subject": "c-1", "doc_types": ["passport"]},
        "requirement.solicit",
    ),
    "run_verb": ("adam", "POST", "/api/verbs/run", {"call": "(requirement.list)"}, "verb.run"),
    "save_rejection_code": (
        "adam",
        "PUT",
        "/api/rejection-codes/FOLDED",
        {"category": "quality", "client_message": "a", "ops_message": "b", "next_action": "c"},
        "rejection_code.save",
    ),
    "submit_task": (
        "adam",
        "POST",
        "/api/tasks",
        {"type": "report.build", "input": {"month": "May"}},
        "task.submit",
    ),
    "submit_task_batch": ("adam", "POST", "/api/tasks/batches", BATCH, "task.submit"),
    "start_flow": ("alice", "POST", "/api/flows/orders.approval/start", ORDER, "workflow.start"),
    "create_entity": ("alice", "POST", "/api/entities/invoice", {"data": INVOICE_DATA}, "invoice.create"),
    "emit_event": ("olga", "POST", "/api/events/payment:7", {"data": {}}, "event.emit"),
    "create_delegation": ("adam", "POST", "/api/delegations", {"to_user": "max"}, "delegation.create"),
    "keep_approval_chain": ("adam", "PUT", "/api/approval-chains/new", CHAIN, "chain.create"),
    "create_draft_of_org": (
        "adam",
        "POST",
        "/api/drafts",
        {"source": {**LEAVE, "flow": "n"}},
        "definition.create",
    ),
    "publish_definitions": (
        "adam",
        "POST",
        "/api/definitions/publish",
        {"sources": [{"name": "n.yaml", "text": json.dumps({**LEAVE, "flow": "n"})}]},
        "definition.publish",
    ),
    "create_member_of_org": (
        "adam",
        "POST",
        "/api/members",
        {"user_id": "eve", "name": "Eve"},
        "member.create",
    ),
    "set_role": ("adam", "PUT", "/api/roles/reader", {"capabilities": ["audit:read"]}, "role.give"),
    "create_key": ("adam", "POST", "/api/keys", {"name": "mine"}, "api_key.create"),
    "create_source": (
        "adam",
        "POST",
        "/api/event-sources",
        {"name": "n", "key_prefix": "n:"},
        "event_source.create",
    ),
    "save_settings_of_org": ("adam", "PUT", "/api/org/settings", {"budget": 7}, "org.change"),
    "change_settings_of_org": ("adam", "PATCH", "/api/org/settings", {"budget": 7}, "org.change"),
    "save_mail_template_of_org": (
        "adam",
        "PUT",
        "/api/mail-templates/asked/en",
        {"subject": "{what}"},
        "mail_template.create",
    ),
    "change_preferences_of_caller": (
        "alice",
        "PATCH",
        "/api/preferences",
        {"language": "de"},
        "preferences.create",
    ),
    "save_filter_of_caller": (
        "alice",
        "PUT",
        "/api/filters/invoice/mine",
        {"filter": {"state": ["draft"]}},
        "saved_filter.create",
    ),
    "save_schedule_of_org": ("adam", "PUT", "/api/schedules/new", SCHEDULE, "schedule.create"),
    "save_rule_of_org": ("adam", "PUT", "/api/rules/invoice/cap", RULE, "rule.create"),
    "rotate_signing_secret": ("adam", "POST", "/api/signing-secrets/rotate", None, "effect_secret.create"),
    "put_secret_of_org": (
        "adam",
        "PUT",
        "/api/secrets/erp",
        {"value": "kT8vw-2fQ9xL", "hosts": ["erp.example"]},
        "secret.create",
    ),
}


async def entries(database):
    found = await rows(database, "audit_log")
    return sorted((row for row in found if row["channel"] == "http"), key=lambda row: row["id"])


@pytest.mark.parametrize("route", WRITES, ids=lambda route: route.name)
async def test_a_write_that_was_done_is_audited_with_its_caller_and_their_address(
    people,
    furnished,
    theirs,  # noqa: F811
    route,
):
    before = {row["id"] for row in await entries(furnished)}
    answer = await ask(people, route, theirs, "acme")
    found = [row for row in await entries(furnished) if row["id"] not in before]
    new = [row for row in found if row["action"] != "command.refused"]
    assert len(found) - len(new) == int(answer.is_error), answer.text
    assert bool(new) == (route.name not in UNTOUCHED), answer.text
    assert not (answer.is_error and new)
    for row in found:
        assert (row["actor_id"], row["place"], row["org_id"]) == (CASES[route.name][0], PLACE, "acme")


@pytest.mark.parametrize("name", CREATING)
async def test_what_begins_something_is_audited_too(people, furnished, name):
    user, method, path, body, action = CREATING[name]
    headers = {"Assent-Reason": quote("Urlaubsvertretung für März"), "traceparent": TRACE, "If-Match": "*"}
    async with people(user) as client:
        answer = await client.request(method, path, json=body, headers=headers)
    assert answer.status_code < 300, answer.text
    first = (await entries(furnished))[0]
    assert (first["action"], first["actor_id"], first["place"]) == (action, user, PLACE)
    assert (first["reason"], first["trace_id"]) == ("Urlaubsvertretung für März", TRACE)


def test_every_route_that_writes_is_tried_here():
    writing = {
        route.name
        for route in ROUTES
        if not route.methods & {"GET", "HEAD"}
        and route.name not in ("check_definitions", "preview_mail_of_org")
    }
    assert writing - SIGNED_IN_BY_NOBODY == (
        {route.name for route in WRITES} | CREATING.keys() | AUDITED_ELSEWHERE.keys()
    )


async def test_a_command_is_one_row_that_says_what_was_asked(people, furnished):
    async with people("alice") as client:
        started = (await client.post("/api/flows/orders.approval/start", json=ORDER)).json()
    async with people("bob") as client:
        request = started["steps"][0]["request_id"]
        body = {"answer": "rejected", "reason": "too much"}
        await client.post(f"/api/approvals/{request}/decide", json=body)
    start, decide = await entries(furnished)
    assert (start["action"], decide["action"]) == ("workflow.start", "approval.decide")
    assert (decide["subject_kind"], decide["subject_id"]) == ("instance", started["id"])
    assert decide["details"] == {"request_id": request, "answer": "rejected"}
    assert (decide["actor_id"], decide["reason"]) == ("bob", "too much")


async def test_a_refused_command_leaves_a_row_of_its_refusal_only(people, furnished):
    async with people("alice") as client:
        started = (await client.post("/api/flows/orders.approval/start", json=ORDER)).json()
        refused = await client.post(f"/api/instances/{started['id']}/advance", json={"event": "nonsense"})
    assert refused.status_code == 422
    assert {row["action"] for row in await entries(furnished)} == {"workflow.start", "command.refused"}


async def test_a_repeat_under_a_key_is_not_audited_twice(people, furnished):
    async with people("alice") as client:
        for _ in range(2):
            headers = {"Idempotency-Key": "k"}
            await client.post("/api/flows/orders.approval/start", json=ORDER, headers=headers)
    assert [row["action"] for row in await entries(furnished)] == ["workflow.start"]


async def test_a_gate_writes_by_the_way_of_whoever_brought_the_token(people, furnished):
    async with people("alice") as client:
        created = (await client.post("/api/entities/invoice", json={"data": INVOICE_DATA})).json()
        await client.post(f"/api/entities/invoice/{created['id']}/transitions/submit")
    gate = [row for row in await entries(furnished) if row["to_state"] == "submitted"]
    assert [(row["actor_id"], row["place"], row["channel"]) for row in gate] == [("alice", PLACE, "http")]
    assert gate[0]["instance_id"] is not None


async def test_what_a_worker_writes_of_an_event_is_the_workflows_own(people, furnished, door):
    """Somebody else's edit moves the token to the amendment branch; that the command drained the event is no matter."""
    async with people("alice") as client:
        created = (await client.post("/api/entities/invoice", json={"data": INVOICE_DATA})).json()
        where = f"/api/entities/invoice/{created['id']}"
        await client.post(f"{where}/transitions/submit")
        await client.patch(where, json={"data": {"grand_total": 7}}, headers={"If-Match": "*"})
        await client.post(f"{where}/transitions/submit")  # drains the event, whose gate makes it `amended`
    found = [row for row in await rows(furnished, "audit_log") if row["to_state"] == "amended"]
    assert [(row["channel"], row["place"]) for row in found] == [("workflow", None)]


async def test_python_is_a_way_too(furnished, door):
    runtime = door.state.services.runtime
    actor = Actor("alice", capabilities=frozenset({"*"}))
    await runtime.org("acme", actor).instances.start("orders.approval", ORDER)
    (entry,) = [row for row in await rows(furnished, "audit_log") if row["subject_kind"] == "instance"]
    assert (entry["channel"], entry["place"], entry["actor_id"]) == ("python", None, "alice")
