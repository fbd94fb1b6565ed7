"""The OpenAPI document keeps its word: every status that it names for a route is provoked there."""

import re
from uuid import uuid4

import pytest
from jsonschema import Draft202012Validator

from assent.http.settings import HttpSettings
from assent.people.api_keys import create_api_key
from assent.refusals import codes_of
from tests.http.application import INVOICE_DATA, app
from tests.http.callers import (
    AUDIENCE,
    CALLBACKS,
    ISSUER,
    SECRET,
    SETTINGS,
    People,
    bearer,
    client_of,
    problem,
    token_of,
)
from tests.http.doors import create_app
from tests.http.route_table import DOCUMENT
from tests.http.test_other_orgs import ALICE, attach_row
from tests.postgres import START, past_the_guards
from tests.rows import insert, insert_document_version
from tests.runtime.definitions import tamper
from tests.world import rows

HEALTH = "healthz"
"""It asks no database: `tests/worker/test_watchdog.py` provokes its 503."""
OPERATIONS = {
    operation["operationId"]: (method, path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
BODIES = {
    "advance_instance": {"event": "completed"},
    "create_entity": {"data": {"title": "Taxi", "total": 1}},
    "change_entity": {"data": {}},
    "decide_approval": {"answer": "approved"},
    "add_entity_comment": {"text": "Is it right?"},
    "remove_entity_attachment": {"reason": "the wrong one"},
    "erase_entity_attachment": {"reason": "asked for"},
    "ask_question": {"text": "Which project is this for?"},
    "answer_question": {"text": "For the new office."},
    "reassign_approval": {"from_user": "bob", "to_user": "max"},
    "reassign_form": {"from_user": "alice", "to_user": "max"},
    "keep_form_draft": {"data": {}},
    "create_delegation": {"to_user": "ghost"},
    "check_definitions": {"sources": [{"name": "a", "text": "b"}]},
    "publish_definitions": {"sources": [{"name": "a", "text": "b"}]},
    "create_draft_of_org": {"source": {"flow": "f"}},
    "change_draft_of_org": {"source": {"flow": "f"}},
    "create_member_of_org": {"user_id": "alice", "name": "Alice"},
    "set_role": {"capabilities": []},
    "create_key": {"name": "k", "user": "ghost"},
    "create_source": {"name": "bank", "key_prefix": "payment:"},
    "discard_dead_letter": {"reason": "gone"},
    "force_fail_instance": {"reason": "gone"},
    "skip_step": {"step": "tell", "edge": "tell->end"},
    "cancel_token": {"token": "0"},
    "edit_variables": {"variables": {"url": "x"}},
    "push_result": {"key": "k", "items": [{"cargo": "external://vault/7"}]},
    "push_result_by_callback": {"key": "k", "items": [{"cargo": "external://vault/7"}]},
    "save_mail_template_of_org": {"subject": "{what}"},
    "save_filter_of_caller": {"filter": {"state": ["draft"]}},
    "complete_task": {
        "task_id": str(uuid4()),
        "idempotency_key": "k",
        "items": [{"cargo_ref": f"version://assent/{uuid4()}"}],
    },
    "create_document": {"document_type": "passport", "subject": "c-1", "parent_id": str(uuid4())},
    "add_document_version": {"structured_data": {"number": "C01X00T47"}},
    "reject_version": {"code": "UNREADABLE"},
    "erase_document_version": {"reason": "asked for"},
    "create_requirement": {"subject": "c-1", "doc_type": "passport", "instance_id": str(uuid4())},
    "solicit_documents": {"subject": "c-1", "doc_types": ["passport"], "instance_id": str(uuid4())},
    "run_verb": {"call": f"(requirement.status :requirement-id {uuid4()})"},
    "waive_requirement": {"reason": "known"},
    "reset_requirement": {"reason": "mistaken"},
    "save_rejection_code": {
        "category": "quality",
        "client_message": "It is folded.",
        "ops_message": "Folded.",
        "next_action": "Please unfold it.",
    },
    "fail_background_task": {"message": "no paper"},
    "submit_task": {"type": "report.build", "input": {"month": "May"}},
    "submit_task_batch": {
        "tasks": [{"type": "report.build", "input": {"month": "May"}}],
        "then": {"type": "report.build", "input": {"month": "all"}},
    },
    "save_schedule_of_org": {"task": "report.build", "cron": "0 9 * * *", "input": {"month": "May"}},
}
NAMES = {
    "flow": "pair",
    "entity_type": "expense",
    "filter_of": "expense",
    "verb": "update",
    "name": "post",
    "a": "1",
    "b": "1",
    "key": "k",
    "code": "UNREADABLE",
    "user_id": "ghost",
    "role": "clerk",
    "kind": "asked",
    "language": "en",
    "token": token_of(uuid4()),
}
IDS = (
    "instance_id",
    "entity_id",
    "attachment_id",
    "request_id",
    "question_id",
    "step_id",
    "taken_id",
    "definition_id",
    "other_id",
    "delegation_id",
    "key_id",
    "letter_id",
    "task_id",
    "document_id",
    "version_id",
    "requirement_id",
)
CALLBACK = "push_result_by_callback"
"""It has a token of its own, and needs no sign-in."""

BY_LINK = {"download_by_link", "show_asked_uploads", "hand_in_document"}
"""They have a token of their own too."""
OF_FILES = {
    "upload_document_version",
    "download_document_version",
    "attach_file_to_entity",
    "download_entity_attachment",
}
OF_PAGES = {"show_sign_in", "create_session"}
"""Before there is a session; `tests/http/test_sessions.py` comes as a page does."""
TRIED_ELSEWHERE = {"show_metrics"} | OF_FILES | BY_LINK | OF_PAGES
"""Metrics are off unless the settings say otherwise; `test_operations` has their statuses. Those of files are in
`tests/documents`, where there are some."""

SIGNED_IN = [name for name, (_, _, operation) in OPERATIONS.items() if "security" in operation]
ANYWHERE = {400, 401, 403, 413, 422, 429, 503}
"""What can be provoked at any route that names it, by the same means."""


def documented(status: int) -> list[str]:
    return [
        name
        for name, (_, _, operation) in OPERATIONS.items()
        if str(status) in operation["responses"] and name not in TRIED_ELSEWHERE
    ]


async def call(client, name, given=None, **more):
    method, path, _ = OPERATIONS[name]
    ids = {name: uuid4() for name in IDS}
    headers = {"If-Match": "*", **more.pop("headers", {})}
    body = {"json": BODIES.get(name, {})} if method != "get" and "content" not in more else {}
    return await client.request(
        method, path.format(**{**NAMES, **ids, **(given or {})}), headers=headers, **body, **more
    )


@pytest.mark.parametrize("name", documented(400))
async def test_a_body_that_is_no_json(people, name):
    async with people("alice") as client:
        answer = await call(client, name, content=b"{", headers={"content-type": "application/json"})
    assert problem(answer, 400)["code"] in codes_of(400)


@pytest.mark.parametrize("name", sorted(set(documented(403)) - {CALLBACK}))
async def test_a_key_without_scopes(furnished, door, clock, name):
    async with furnished.transaction("acme") as connection:
        text, _ = await create_api_key(connection, "acme", "robot", "none", clock.now(), scopes=())
    async with client_of(door, bearer(text)) as client:
        assert problem(await call(client, name), 403)["code"] == "SCOPE_MISSING"


@pytest.mark.parametrize("name", documented(413))
async def test_a_request_that_is_too_large(people, name):
    async with people("alice") as client:
        answer = await call(client, name, content=b"x" * (SETTINGS.request_bytes_max + 1))
    assert problem(answer, 413)["code"] in codes_of(413)


@pytest.mark.parametrize("name", documented(422))
async def test_a_request_with_something_wrong_in_it(people, name):
    method, path, operation = OPERATIONS[name]
    bad = {"params": {"limit": "many"}} if "parameters" in operation else {}
    if ("{" not in path and method != "get") or name == CALLBACK:
        bad = {"content": b"[]", "headers": {"content-type": "application/json"}}
    if method in ("post", "delete") and "{" not in path and "requestBody" not in operation:
        bad = {"headers": {"Idempotency-Key": "x" * 256}}
    if method == "get" and "parameters" not in operation:
        bad = {"params": {"unknown": "1"}}
    if name == "stream_inbox":
        bad = {"headers": {"Last-Event-ID": "x" * 101}}
    given = dict.fromkeys(IDS, "no-uuid") | dict.fromkeys(NAMES, "%00") | {"token": NAMES["token"]}
    async with people("alice") as client:
        assert problem(await call(client, name, given, **bad), 422)["problems"]


@pytest.mark.parametrize("name", documented(429))
async def test_a_request_too_many(furnished, clock, name):
    rates = {f"rate_{rate}_per_minute": 1 for rate in ("workflows", "entities", "reads", "checks")}
    settings = HttpSettings(jwt_key=SECRET, jwt_issuer=ISSUER, jwt_audience=AUDIENCE, stream_s_max=1, **rates)
    people = People(create_app(app, furnished, settings, CALLBACKS), clock.now())
    async with people("alice") as client:
        assert (await call(client, name)).status_code != 429
        answer = await call(client, name)
        assert problem(answer, 429)["code"] in codes_of(429)
        assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("name", sorted(set(documented(410)) - {"create_upload_link"}))
async def test_a_start_whose_instance_was_deleted(people, furnished, name):
    async with people(USERS.get(name, "alice")) as client:
        started = await call(client, name, headers={"Idempotency-Key": "k1"})
        assert started.status_code == 201
        async with past_the_guards(furnished.url) as connection:
            await connection.execute("DELETE FROM assent.workflow_instances WHERE org_id = 'acme'")
            await connection.execute("DELETE FROM assent.http_replies WHERE org_id = 'acme'")
        gone = await call(client, name, headers={"Idempotency-Key": "k1"})
        assert problem(gone, 410)["code"] in codes_of(410)


@pytest.mark.parametrize("name", [name for name in documented(503) if name != HEALTH])
async def test_a_database_that_is_away(database, clock, name):
    door = create_app(app, database, SETTINGS, CALLBACKS)
    await database.close()
    people = People(door, clock.now())
    async with people("alice") as client:
        assert problem(await call(client, name), 503)["code"] in codes_of(503)


OF_A_TYPE = {
    "create_entity",
    "list_entities_of_type",
    "count_entities_of_type",
    "list_entity_indexes",
    "show_entity_contract",
    "save_filter_of_caller",
}
"""Routes of which nothing but the entity type can be missing."""


@pytest.mark.parametrize("name", documented(404))
async def test_something_that_is_not_there(people, name):
    names = {
        "flow": "no.such",
        "kind": "unicorn",
        "entity_type": "unicorn" if name in OF_A_TYPE else "expense",
        "filter_of": "unicorn" if name in OF_A_TYPE else "expense",
    }
    more = {"params": {"saved": "unicorn"}} if name == "show_inbox" else {}
    async with people(USERS.get(name, "alice")) as client:
        assert problem(await call(client, name, names, **more), 404)["code"] in codes_of(404)


@pytest.fixture
async def ended(people, furnished) -> dict[str, str]:
    """An instance, a locked entity and a request about which nothing more can be done."""
    async with people("alice") as client:
        created = (await client.post("/api/entities/invoice", json={"data": INVOICE_DATA})).json()
        erased = {"status": "deleted", "deleted_at": START}
        attachment_id = await attach_row(furnished, app, "invoice", created["id"], ALICE, **erased)
        moved = (await client.post(f"/api/entities/invoice/{created['id']}/transitions/submit")).json()
    found = {
        "attachment_id": attachment_id,
        "entity_type": "invoice",
        "entity_id": created["id"],
        "instance_id": moved["instance"]["id"],
        "request_id": moved["instance"]["steps"][0]["request_id"],
        "taken_id": moved["instance"]["steps"][0]["step_id"],
    }
    async with people("fin") as client:
        path = f"/api/approvals/{found['request_id']}"
        asked = (await client.post(f"{path}/questions", json=BODIES["ask_question"])).json()
        await client.post(f"{path}/decide", json={"answer": "approved"})
    found["question_id"] = asked["id"]
    return found | await _answered_form(people) | await _cancelled_task(people) | await _reviewed(furnished)


async def _reviewed(database) -> dict[str, str]:
    """A version that was reviewed and erased, a requirement that nothing was asked for, and a schedule of the code."""
    async with database.transaction(None) as connection:
        version = await insert_document_version(
            connection,
            status="verified",
            verified_by="olga",
            verified_at=START,
            structured_data=None,
            erased_at=START,
            erased_by="olga",
        )
        missing = await insert(connection, "document_requirements")
        waived = {"status": "waived", "waived_by": "olga", "satisfied_at": START}
        found = await insert(connection, "document_requirements", **waived)
        await insert(connection, "schedules", name=NAMES["name"], declared=True)
        await connection.execute("INSERT INTO assent.declared_names VALUES ('schedule:post', '2999-01-01')")
    ids = {"requirement_id": missing["id"], "waived_id": found["id"]}
    return {"document_id": str(version["document_id"]), "version_id": str(version["id"])} | ids


async def _cancelled_task(people) -> dict[str, str]:
    async with people("adam") as client:
        task = (await client.post("/api/tasks", json=BODIES["submit_task"])).json()
        await client.post(f"/api/tasks/{task['id']}/cancel")
    return {"task_id": task["id"]}


async def _answered_form(people) -> dict[str, str]:
    async with people("alice") as client:
        started = (await client.post("/api/flows/survey/start", json={"order": 7})).json()
        answer = {"event": "completed", "input": {"rating": 5}}
        await client.post(f"/api/instances/{started['id']}/advance", json=answer)
    return {"step_id": started["steps"][0]["step_id"]}


async def _definition(people, kind) -> dict[str, str]:
    async with people("alice") as client:
        (found,) = (await client.get(f"/api/definitions?kind={kind}&own=true")).json()["items"]
    return {"definition_id": found["id"], "other_id": found["id"]}


USERS = {
    **dict.fromkeys(("create_upload_link", "revoke_upload_links"), "adam"),
    **dict.fromkeys(("decide_approval", "claim_approval", "release_approval", "ask_question"), "fin"),
    **dict.fromkeys(
        ("cancel_instance", "pause_instance", "resume_instance", "retry_instance", "reassign_approval"),
        "olga",
    ),
    **{
        name: "adam"
        for name, (_, _, operation) in OPERATIONS.items()
        if {
            "definitions",
            "drafts",
            "members",
            "keys",
            "event sources",
            "secrets",
            "operations",
            "tasks",
            "schedules",
            "documents",
            "verbs",
            "rules",
            "org",
            "mail templates",
        }
        & set(operation["tags"])
    },
    "erase_entity_attachment": "adam",
}
ELSEWHERE = {
    "create_requirement",
    "solicit_documents",
    "run_verb",
    "start_flow",
    "show_instance",
    "show_instance_path",
    "create_entity",
    "move_entity",
    "rebuild_instance",
}
"""Here below, in other ways; the next in modules of their own."""
IN_MODULES = {"create_draft_of_org", "create_source", "retry_dead_letter"} | {
    "change_member_of_org",
    "create_key",
    "deactivate_member",
    "set_role",
}


@pytest.mark.parametrize("name", sorted(set(documented(409)) - ELSEWHERE - IN_MODULES))
async def test_something_that_cannot_be_done_any_more(people, ended, name):
    kind = "org_patch" if name in ("draw_definition", "compare_definitions") else "effective"
    given = ended | await _definition(people, kind)
    if name == "waive_requirement":
        given["requirement_id"] = ended["waived_id"]
    async with people(USERS.get(name, "alice")) as client:
        assert problem(await call(client, name, given), 409)["code"] in codes_of(409)


async def test_what_stands_still_is_not_moved(people):
    async with people("alice") as client:
        created = (await client.post("/api/entities/invoice", json={"data": INVOICE_DATA})).json()
        moved = (await client.post(f"/api/entities/invoice/{created['id']}/transitions/submit")).json()
    async with people("olga") as client:
        await client.post(f"/api/instances/{moved['instance']['id']}/pause", json={})
    async with people("max") as client:
        given = {"entity_type": "invoice", "entity_id": created["id"], "name": "cancel"}
        assert problem(await call(client, "move_entity", given), 409)["code"] == "WORKFLOW_NOT_ACTIVE"


async def test_what_is_there_is_not_created_again(people):
    body = {"data": {"title": "Taxi", "total": 1}, "id": str(uuid4())}
    async with people("alice") as client:
        answers = [await client.post("/api/entities/expense", json=body) for _ in range(2)]
    assert problem(answers[1], 409)["code"] == "ALREADY_EXISTS"


async def test_what_is_waived_is_neither_asked_for_nor_waived_again(people):
    wanted = {"subject": "c-1", "doc_types": ["passport"]}
    async with people("adam") as client:
        asked = (await client.post("/api/requirements/solicit", json=wanted)).json()
        (requirement_id,) = asked["requirement_ids"]
        await client.post(f"/api/requirements/{requirement_id}/waive", json={"reason": "known"})
        again = await client.post("/api/requirements/solicit", json=wanted)
        call = f"(requirement.waive :requirement-id {requirement_id} :reason known)"
        waived = await client.post("/api/verbs/run", json={"call": call})
    assert [problem(one, 409)["code"] for one in (again, waived)] == ["REQUIREMENT_STATUS"] * 2


@pytest.mark.parametrize("name", ["start_flow", "show_instance", "show_instance_path", "rebuild_instance"])
async def test_a_definition_that_somebody_touched_does_not_run(people, furnished, name, clock):
    async with people("alice") as client:
        found = (await client.post("/api/flows/pair/start", json={})).json()
    for row in await rows(furnished, "workflow_definitions"):
        if row["key"] == "pair":
            await tamper(furnished, row["id"], compiled_json={**row["compiled_json"], "name": "touched"})
    people = People(create_app(app, furnished, SETTINGS), clock.now())
    async with people(USERS.get(name, "alice")) as client:
        answer = await call(client, name, {"instance_id": found["id"]})
    assert problem(answer, 409)["code"] == "WORKFLOW_HASH_MISMATCH"


@pytest.mark.parametrize("name", documented(412))
async def test_another_version_than_is_meant(people, furnished, name):
    async with furnished.transaction("acme") as connection:
        await connection.execute(
            "INSERT INTO assent.role_capabilities (org_id, role, capability) VALUES ('acme', 'clerk', 'expense:*')"
        )
    async with people("adam") as client:
        draft = (await client.post("/api/drafts", json=BODIES["create_draft_of_org"])).json()
    async with people("alice" if "entity" in name else "adam") as client:
        if "entity" in name:
            created = (await client.post("/api/entities/expense", json=BODIES["create_entity"])).json()
            given = {"entity_id": created["id"]}
        else:
            given = {"definition_id": draft["id"]}
        answer = await call(client, name, given, headers={"If-Match": '"7"'})
    assert problem(answer, 412)["code"] == "VERSION_CONFLICT"


@pytest.mark.parametrize("name", documented(428))
async def test_no_version_at_all(people, name):
    method, path, _ = OPERATIONS[name]
    where = path.format(**NAMES, **{name: uuid4() for name in IDS})
    async with people("alice") as client:
        answer = await client.request(method, where, json=BODIES.get(name))
    assert problem(answer, 428)["code"] in codes_of(428)


def test_no_status_is_documented_that_nothing_here_provokes():
    named = {int(status) for _, _, operation in OPERATIONS.values() for status in operation["responses"]}
    assert named == {200, 201, 202, 204} | ANYWHERE | {206, 304, 404, 409, 410, 412, 416, 428}


def test_every_route_says_what_it_is_for():
    for name, (_, _, operation) in OPERATIONS.items():
        assert operation["summary"], name
        assert operation["description"], name
        assert operation["tags"], name
        assert re.fullmatch(r"[a-z_]+", name)


def test_all_problems_have_one_shape_and_their_codes_are_examples():
    for _, _, operation in OPERATIONS.values():
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                (media_type,) = response["content"]
                assert media_type == "application/problem+json"
                assert set(response["content"][media_type]["examples"]) == set(codes_of(int(status)))


def test_every_body_and_every_answer_has_an_example_that_its_schema_takes():
    for name, (_, _, operation) in OPERATIONS.items():
        for holder in (operation.get("requestBody", {}), *operation["responses"].values()):
            for media_type, content in holder.get("content", {}).items():
                examples = [each["value"] for each in content.get("examples", {}).values()]
                examples += [content["example"]] if "example" in content else []
                assert examples, (name, media_type)
                if media_type == "application/json":
                    schema = {**content["schema"], "components": DOCUMENT["components"]}
                    assert list(Draft202012Validator(schema).iter_errors(examples[0])) == [], name


def test_generators_get_names_that_people_can_read():
    assert len(OPERATIONS) == sum(len(methods) for methods in DOCUMENT["paths"].values())
    for name in DOCUMENT["components"]["schemas"]:
        # A page of something has the name of both; anything else with underscores is a clash of two shapes.
        assert re.fullmatch(r"[A-Z][A-Za-z]+|Page_[A-Z][A-Za-z]+_", name), name


def test_every_route_but_health_documents_how_to_sign_in():
    assert set(OPERATIONS) - set(SIGNED_IN) == {"healthz", "readyz", CALLBACK} | BY_LINK | OF_PAGES
