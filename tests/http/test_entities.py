"""Entities through HTTP: versions as tags, changes that name their version, and everything that was."""

import asyncio
from uuid import uuid4

import pytest

from assent.kernel.rules import save_rule
from tests.faults.tables import Tables
from tests.http.application import INVOICE_DATA, app
from tests.http.callers import PLACE, problem
from tests.world import rows

TAXI = {"data": {"title": "Taxi", "total": 1000}}
EXPENSES = "/api/entities/expense"
INVOICES = "/api/entities/invoice"


async def created(people, path=EXPENSES, body=TAXI, **more) -> str:
    async with people("alice", **more) as client:
        response = await client.post(path, json=body)
    assert response.status_code == 201, response.text
    assert response.headers["etag"] == '"1"'
    return response.headers["location"]


async def test_an_entity_is_created_and_read(people):
    place = await created(people)
    async with people("bob") as client:
        found = await client.get(place)
    assert found.headers["etag"] == '"1"'
    body = found.json()
    assert (body["type"], body["state"], body["version"], body["data"]) == (
        "expense",
        "draft",
        1,
        TAXI["data"],
    )
    assert body["edit_window"] == "editable"


async def test_every_bad_field_is_told_with_its_place(people):
    async with people("alice") as client:
        refused = problem(await client.post(EXPENSES, json={"data": {"total": "much", "colour": "red"}}), 422)
    assert {(each["code"], *each["path"]) for each in refused["problems"]} == {
        ("WRONG_TYPE", "data", "total"),
        ("UNKNOWN_FIELD", "data", "colour"),
    }


async def test_a_role_that_may_not_create_is_refused(people, furnished):
    async with people("bob") as client:
        assert problem(await client.post(EXPENSES, json=TAXI), 403)["code"] == "POLICY_DENIED"
    assert await rows(furnished, "entities") == []


async def test_an_unknown_type_and_an_unknown_id_are_not_found(people):
    place = await created(people)
    async with people("alice") as client:
        assert problem(await client.get("/api/entities/unicorn"), 404)["code"] == "UNKNOWN_ENTITY_TYPE"
        assert (
            problem(await client.post("/api/entities/unicorn", json=TAXI), 404)["code"]
            == "UNKNOWN_ENTITY_TYPE"
        )
        assert problem(await client.get(f"{EXPENSES}/{uuid4()}"), 404)["code"] == "NOT_FOUND"
        assert problem(await client.get(place.replace("expense", "invoice")), 404)["code"] == "NOT_FOUND"


async def test_a_change_says_which_version_it_changes(people):
    place = await created(people)
    change = {"data": {"total": 2000}, "reason": "forgot the tip"}
    async with people("alice") as client:
        assert problem(await client.patch(place, json=change), 428)["code"] == "IF_MATCH_REQUIRED"
        changed = await client.patch(place, json=change, headers={"If-Match": '"1"'})
        assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
        stale = await client.patch(place, json={"data": {"total": 3}}, headers={"If-Match": '"1"'})
        assert problem(stale, 412)["code"] == "VERSION_CONFLICT"
        whichever = await client.patch(place, json={"data": {"total": 3000}}, headers={"If-Match": "*"})
        assert whichever.headers["etag"] == '"3"'


async def test_of_two_changes_of_one_version_one_wins(people, furnished):
    place = await created(people)

    async def change(total):
        async with people("alice") as client:
            return await client.patch(place, json={"data": {"total": total}}, headers={"If-Match": '"1"'})

    answers = await asyncio.gather(*(change(total) for total in range(2000, 2008)))
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7
    (entity,) = await rows(furnished, "entities")
    assert entity["version"] == 2


async def test_a_change_that_changes_nothing_makes_no_version(people):
    place = await created(people)
    async with people("alice") as client:
        same = await client.patch(place, json={"data": {"total": 1000}}, headers={"If-Match": '"1"'})
    assert (same.status_code, same.headers["etag"]) == (200, '"1"')


@pytest.mark.parametrize("tag", ['"x"', "1", 'W/"1"', '"1", "2"', '"0"', '""', '"99999999999"'])
async def test_a_tag_that_is_none_is_told(people, tag):
    place = await created(people)
    async with people("alice") as client:
        refused = await client.patch(place, json={"data": {}}, headers={"If-Match": tag})
    assert problem(refused, 422)["problems"][0]["path"] == ["header", "If-Match"]


async def test_the_audit_says_who_what_when_where_how_and_why(people, clock):
    place = await created(people)
    async with people("alice") as client:
        await client.patch(
            place, json={"data": {"total": 2000}, "reason": "forgot the tip"}, headers={"If-Match": '"1"'}
        )
        (last, first) = (await client.get(f"{place}/audit")).json()["items"]
    assert (first["action"], first["channel"], first["place"]) == ("expense.create", "http", PLACE)
    assert (last["actor_id"], last["actor_roles"], last["reason"]) == ("alice", ["clerk"], "forgot the tip")
    assert (last["changes"], last["from_version"], last["to_version"]) == ({"total": [1000, 2000]}, 1, 2)


async def test_versions_are_listed_and_compared(people):
    place = await created(people)
    async with people("alice") as client:
        for version, change in enumerate([{"total": 2000}, {"note": "late"}, {"note": None}], start=1):
            await client.patch(place, json={"data": change}, headers={"If-Match": f'"{version}"'})
        page = (await client.get(f"{place}/versions?limit=3")).json()
        rest = (await client.get(f"{place}/versions?cursor={page['next']}")).json()
        assert [item["version"] for item in page["items"] + rest["items"]] == [4, 3, 2, 1]
        diff = (await client.get(f"{place}/versions/1/diff/3")).json()
        assert diff["fields"] == {
            "note": {"before": None, "after": "late"},
            "total": {"before": 1000, "after": 2000},
        }
        assert (await client.get(f"{place}/versions/2/diff/4")).json()["fields"] == {}
        assert problem(await client.get(f"{place}/versions/1/diff/9"), 404)["code"] == "NOT_FOUND"


async def test_actions_of_the_application_run(people):
    place = await created(people, body={"data": {"title": "Taxi", "total": 1234}})
    async with people("alice") as client:
        denied = await client.post(f"{place}/actions/round", json={"data": {"to": 100}})
        assert problem(denied, 403)["code"] == "POLICY_DENIED"
        unknown = await client.post(f"{place}/actions/rounds", json={})
        assert problem(unknown, 404)["code"] == "UNKNOWN_ACTION"
        again = await client.post(f"{place}/actions/create", json={"data": {}})
        assert problem(again, 404)["code"] == "UNKNOWN_ACTION"


async def test_an_action_runs_for_whoever_holds_its_capability(people, furnished):
    place = await created(people, body={"data": {"title": "Taxi", "total": 1234}})
    async with furnished.transaction("acme") as connection:
        await connection.execute(
            "INSERT INTO assent.role_capabilities (org_id, role, capability) VALUES ('acme', 'clerk', 'expense:round')"
        )
    async with people("alice") as client:
        bad = problem(await client.post(f"{place}/actions/round", json={"data": {"to": 0}}), 422)
        assert bad["problems"][0]["path"] == ["data", "to"]
        done = await client.post(
            f"{place}/actions/round", json={"data": {"to": 100}}, headers={"If-Match": '"1"'}
        )
        assert (done.json()["data"]["total"], done.headers["etag"]) == (1200, '"2"')
        stale = await client.post(
            f"{place}/actions/round", json={"data": {"to": 7}}, headers={"If-Match": '"1"'}
        )
        assert problem(stale, 412)["code"] == "VERSION_CONFLICT"


async def test_an_entity_without_a_workflow_moves_at_once_and_is_amended_when_locked(people):
    place = await created(people)
    async with people("max") as client:
        moved = await client.post(f"{place}/transitions/post")
        assert (moved.json()["entity"]["state"], moved.json()["instance"]) == ("posted", None)
        again = await client.post(f"{place}/transitions/post")
        assert problem(again, 422)["code"] == "ILLEGAL_TRANSITION"
    async with people("alice") as client:
        locked = await client.patch(place, json={"data": {"total": 1}}, headers={"If-Match": "*"})
        assert problem(locked, 409)["code"] == "WORKFLOW_EDIT_LOCKED"
        amended = await client.post(f"{place}/actions/amend", json={"data": {"total": 1}})
        assert amended.status_code == 201
        assert amended.headers["location"] != place
        assert place.endswith(amended.json()["amended_from_id"])


async def test_a_transition_goes_through_the_workflow(people):
    place = await created(people, INVOICES, {"data": INVOICE_DATA})
    async with people("alice") as client:
        moved = (await client.post(f"{place}/transitions/submit", headers={"If-Match": '"1"'})).json()
        assert (moved["entity"]["state"], moved["entity"]["edit_window"]) == ("submitted", "amend_only")
        assert [step["name"] for step in moved["instance"]["steps"]] == ["one"]
        seen = (await client.get(f"/api/instances/{moved['instance']['id']}")).json()
        assert seen["transitions"] == []
    async with people("max") as client:
        seen = (await client.get(f"/api/instances/{moved['instance']['id']}")).json()
        assert seen["transitions"] == ["cancel"]
        gone = (await client.post(f"{place}/transitions/cancel")).json()
        assert gone["entity"]["state"] == "cancelled"


async def test_a_transition_of_another_version_is_refused(people):
    place = await created(people, INVOICES, {"data": INVOICE_DATA})
    async with people("alice") as client:
        await client.patch(place, json={"data": {"grand_total": 5}}, headers={"If-Match": '"1"'})
        stale = await client.post(f"{place}/transitions/submit", headers={"If-Match": '"1"'})
        assert problem(stale, 412)["code"] == "VERSION_CONFLICT"
        assert (await client.get(place)).json()["state"] == "draft"
        unknown = await client.post(f"{place}/transitions/fly")
        assert problem(unknown, 422)["code"] == "INVALID_TRANSITION"
        denied = await client.post(f"{place}/transitions/cancel")
        assert problem(denied, 403)["code"] == "POLICY_DENIED"


async def test_the_list_is_filtered_by_state_and_paged(people):
    places = [await created(people) for _ in range(5)]
    async with people("max") as client:
        for place in places[:2]:
            await client.post(f"{place}/transitions/post")
        drafts = (await client.get(f"{EXPENSES}?state=draft")).json()["items"]
        assert [f"{EXPENSES}/{item['id']}" for item in drafts] == places[:1:-1]
        both = (await client.get(f"{EXPENSES}?state=draft&state=posted&limit=4")).json()
        rest = (await client.get(f"{EXPENSES}?state=draft&state=posted&limit=4&cursor={both['next']}")).json()
    assert [f"{EXPENSES}/{item['id']}" for item in both["items"] + rest["items"]] == places[::-1]


async def test_another_partition_is_not_there(people):
    place = await created(people, partition_id="north")
    async with people("alice", partition_id="south") as client:
        assert (await client.get(EXPENSES)).json()["items"] == []
        answers = [
            await client.get(place),
            await client.get(f"{place}/audit"),
            await client.patch(place, json={"data": {"total": 1}}, headers={"If-Match": "*"}),
            await client.post(f"{place}/actions/update", json={"data": {"total": 1}}),
        ]
    async with people("max", partition_id="south") as client:
        answers += [
            await client.post(f"{place}/transitions/post"),
            await client.post(f"{place}/transitions/post", headers={"If-Match": '"1"'}),
        ]
    assert [problem(answer, 404)["code"] for answer in answers] == ["NOT_FOUND"] * 6
    async with people("alice", partition_id="north") as client:
        assert (await client.get(place)).json()["version"] == 1


async def test_a_contract_that_lists_its_readers_is_read_by_them_only(people):
    async with people("max") as client:
        dossier = await client.post("/api/entities/dossier", json={"data": {"title": "Merger"}})
        place = dossier.headers["location"]
        assert (await client.get(place)).status_code == 200
    async with people("alice") as client:
        answers = [await client.get(path) for path in (place, "/api/entities/dossier", f"{place}/versions")]
    assert [problem(answer, 403)["code"] for answer in answers] == ["POLICY_DENIED"] * 3


async def test_an_id_of_ones_own_is_taken_once(people):
    body = {**TAXI, "id": str(uuid4())}
    place = await created(people, body=body)
    assert place.endswith(body["id"])
    async with people("alice") as client:
        assert problem(await client.post(EXPENSES, json=body), 409)["code"] == "ALREADY_EXISTS"


async def test_the_trace_of_the_caller_goes_into_the_audit_and_the_outbox(people, furnished):
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    for brought in (trace, "no trace at all", "ÿ"):
        async with people("alice") as client:
            headers = [(b"traceparent", brought.encode())]
            created = await client.post(INVOICES, json={"data": INVOICE_DATA}, headers=headers)
            (audited,) = (await client.get(f"{created.headers['location']}/audit")).json()["items"]
        assert audited["trace_id"] == (trace if brought == trace else None)
    events = await rows(furnished, "workflow_events_outbox")
    assert [event["trace_id"] for event in events].count(trace) == 1


async def test_the_reply_to_a_transition_is_what_a_read_shows(people, furnished):
    place = await created(people, INVOICES, {"data": INVOICE_DATA})

    async def moved(user, name) -> dict:
        async with people(user) as client:
            reply = await client.post(f"{place}/transitions/{name}")
            assert reply.status_code == 200, reply.text
            read = await client.get(place)
        assert (reply.json()["entity"], reply.headers["etag"]) == (read.json(), read.headers["etag"])
        return reply.json()

    submitted = await moved("alice", "submit")
    assert submitted["entity"]["instance_id"] == submitted["instance"]["id"]
    cancelled = await moved("max", "cancel")
    assert cancelled["entity"]["instance_id"] is None


async def test_a_transition_reads_its_entity_twice_and_not_again_for_its_reply(people, furnished):
    place = await created(people, INVOICES, {"data": INVOICE_DATA})
    reads: list[str] = []

    def observe(statement) -> None:
        if any(name in statement.query for name in ("current_entities", "lock_entities", "open_targets")):
            reads.append(statement.query)

    async with people("alice") as client:
        with furnished.observe(observe):
            assert (await client.post(f"{place}/transitions/submit")).status_code == 200
    assert len(reads) == 2, reads


async def test_a_rule_that_denies_a_transition_is_403_and_leaves_the_document_as_it_was(
    people, furnished, database_url
):
    deny = {"outcome": "deny", "then": {"message": "over the budget"}}
    rule = {"name": "budget", "entity_type": "invoice", "timing": "before", "condition": "true", **deny}
    async with furnished.transaction("acme") as connection:
        for action in ("submit", "approve"):
            named = {**rule, "name": action, "action": action, "condition": f"entity.number == '{action}'"}
            await save_rule(connection, app.registry, "acme", named, furnished.clock.now())
    over = await created(people, INVOICES, {"data": {**INVOICE_DATA, "number": "submit"}})
    later = await created(people, INVOICES, {"data": {**INVOICE_DATA, "number": "approve"}})
    async with people("alice") as client:
        moved = (await client.post(f"{later}/transitions/submit")).json()
        before = await Tables.read(database_url)
        refused = problem(await client.post(f"{over}/transitions/submit"), 403)
    assert (refused["code"], refused["detail"]) == ("RULE_DENIED", "over the budget")
    request = moved["instance"]["steps"][0]["request_id"]
    async with people("fin") as client:
        decision = await client.post(f"/api/approvals/{request}/decide", json={"answer": "approved"})
    assert problem(decision, 403)["code"] == "RULE_DENIED"
    assert (await Tables.read(database_url)).since(before).is_nothing
    async with people("alice") as client:
        corrected = {"data": {"number": "2026-18"}}
        await client.patch(over, json=corrected, headers={"If-Match": '"1"'})
        again = await client.post(f"{over}/transitions/submit")
    assert (again.status_code, again.json()["instance"]["status"]) == (200, "running")
