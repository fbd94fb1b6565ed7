"""Approvals through HTTP: what exactly is asked, who may answer, and what becomes of it."""

import asyncio
from uuid import uuid4

import pytest

from assent.store.group_commit import LANES
from tests.http.application import INVOICE_DATA
from tests.http.callers import problem
from tests.world import rows


async def asked(people) -> tuple[str, str]:
    """A flow whose review asks bob and carol: the instance and the request."""
    async with people("alice") as client:
        found = (await client.post("/api/flows/orders.approval/start", json={"order_id": "1"})).json()
    return found["id"], found["steps"][0]["request_id"]


async def submitted(people) -> tuple[str, str]:
    """An invoice that fin is asked about: where it is, and the request."""
    async with people("alice") as client:
        created = await client.post("/api/entities/invoice", json={"data": INVOICE_DATA})
        place = created.headers["location"]
        moved = (await client.post(f"{place}/transitions/submit")).json()
    return place, moved["instance"]["steps"][0]["request_id"]


async def act(people, user, request_id, verb, body=None, **more):
    async with people(user, **more) as client:
        return await client.post(f"/api/approvals/{request_id}/{verb}", json=body)


async def test_the_reply_to_a_command_shows_what_a_read_shows(people):
    """The reply is made from memory, before and after a gate has moved the document to another version."""
    _, request_id = await submitted(people)
    for verb, body in (
        ("claim", None),
        ("release", None),
        ("decide", {"answer": "approved", "reason": "fine"}),
    ):
        replied = (await act(people, "fin", request_id, verb, body)).json()
        async with people("fin") as client:
            read = (await client.get(f"/api/approvals/{request_id}")).json()
            instance = (await client.get(f"/api/instances/{read['instance_id']}")).json()
        of_reader = [read.pop(name) for name in ("answers", "refusal")]
        assert sum(map(bool, of_reader)) == 1
        assert replied["request"] == read
        assert replied["instance"]["status"] == instance["status"]
    assert (read["status"], read["snapshot_state"], len(read["decisions"])) == ("approved", "submitted", 1)


async def test_a_request_says_before_the_decision_what_the_decision_would_say(people):
    _, request_id = await submitted(people)
    codes = {}
    for user in ("alice", "bob", "max", "fin", "fin"):
        async with people(user) as client:
            found = (await client.get(f"/api/approvals/{request_id}")).json()
            decided = await client.post(f"/api/approvals/{request_id}/decide", json={"answer": "approved"})
        said = found["refusal"]["code"] if found["refusal"] else None
        assert said == (None if decided.is_success else decided.json()["code"]), user
        assert ("approved" in found["answers"]) == decided.is_success
        codes.setdefault(user, []).append(said)
    assert codes == {
        "alice": ["SEPARATION_OF_DUTIES"],
        "bob": ["POLICY_DENIED"],
        "max": ["POLICY_DENIED"],
        "fin": [None, "APPROVAL_DECIDED"],
    }


async def test_a_request_shows_exactly_the_version_that_it_asks_about(people):
    place, request_id = await submitted(people)
    async with people("fin") as client:
        found = (await client.get(f"/api/approvals/{request_id}")).json()
    assert (found["status"], found["snapshot"], found["snapshot_state"]) == (
        "pending",
        INVOICE_DATA,
        "submitted",
    )
    assert [(seat["user_id"], seat["status"]) for seat in found["seats"]] == [("fin", "open")]
    assert place.endswith(found["entity_id"])


async def test_whoever_is_asked_decides_and_the_gate_passes(people):
    place, request_id = await submitted(people)
    done = (await act(people, "fin", request_id, "decide", {"answer": "approved", "reason": "ok"})).json()
    assert (done["request"]["status"], done["request"]["decisions"][0]["reason"]) == ("approved", "ok")
    assert done["request"]["applied_at"] is not None
    async with people("alice") as client:
        found = (await client.get(place)).json()
    assert (found["state"], found["edit_window"]) == ("active", "locked")


async def test_a_rejection_goes_where_the_contract_says(people):
    place, request_id = await submitted(people)
    await act(people, "fin", request_id, "decide", {"answer": "rejected", "reason": "too much"})
    async with people("alice") as client:
        assert (await client.get(place)).json()["state"] == "draft"


@pytest.mark.parametrize("user", ["alice", "max", "olga"])
async def test_whoever_is_not_asked_does_not_decide(people, furnished, user):
    _, request_id = await submitted(people)
    refused = await act(people, user, request_id, "decide", {"answer": "approved"})
    assert problem(refused, 403)["code"] in ("POLICY_DENIED", "SEPARATION_OF_DUTIES")
    assert await rows(furnished, "approval_decisions") == []


async def test_an_answer_that_is_none_is_told(people):
    _, request_id = await asked(people)
    refused = problem(await act(people, "bob", request_id, "decide", {"answer": "perhaps"}), 422)
    assert (refused["code"], refused["problems"][0]["path"]) == ("INVALID_TRANSITION", ["answer"])


async def test_what_is_decided_is_decided(people):
    _, request_id = await asked(people)
    await act(people, "bob", request_id, "decide", {"answer": "rejected"})
    again = problem(await act(people, "carol", request_id, "decide", {"answer": "approved"}), 409)
    assert again["code"] == "APPROVAL_DECIDED"
    assert "bob was first, with `rejected`" in again["detail"]


async def test_an_edit_makes_a_request_void(people):
    place, request_id = await submitted(people)
    async with people("alice") as client:
        edited = await client.patch(place, json={"data": {"grand_total": 1}}, headers={"If-Match": "*"})
        assert edited.status_code == 200
    assert (
        problem(await act(people, "fin", request_id, "decide", {"answer": "approved"}), 409)["code"]
        == "APPROVAL_VOID"
    )
    async with people("fin") as client:
        found = (await client.get(f"/api/approvals/{request_id}")).json()
    assert (found["status"], found["snapshot"]["grand_total"]) == ("void", 120000)


async def test_of_two_who_decide_at_once_one_does(people, furnished):
    _, request_id = await asked(people)
    answers = await asyncio.gather(
        *(act(people, user, request_id, "decide", {"answer": "approved"}) for user in ("bob", "carol"))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert len(await rows(furnished, "approval_decisions")) == 1


async def test_claimed_is_claimed_until_it_is_released(people):
    _, request_id = await asked(people)
    assert (await act(people, "bob", request_id, "claim")).json()["request"]["claimed_by"] == "bob"
    for verb, body in (("claim", None), ("decide", {"answer": "approved"})):
        assert problem(await act(people, "carol", request_id, verb, body), 409)["code"] == "CLAIMED"
    assert problem(await act(people, "carol", request_id, "release"), 403)["code"] == "POLICY_DENIED"
    assert (await act(people, "bob", request_id, "release")).json()["request"]["claimed_by"] is None
    assert (await act(people, "carol", request_id, "decide", {"answer": "approved"})).status_code == 200


async def test_reassigning_asks_another_and_keeps_both_names(people):
    _, request_id = await asked(people)
    body = {"from_user": "bob", "to_user": "max", "reason": "on holiday"}
    assert problem(await act(people, "carol", request_id, "reassign", body), 403)["code"] == "POLICY_DENIED"
    moved = (await act(people, "olga", request_id, "reassign", body)).json()
    seats = {seat["user_id"]: seat for seat in moved["request"]["seats"]}
    assert (seats["bob"]["status"], seats["max"]["status"], seats["max"]["via"]) == (
        "closed",
        "open",
        "reassigned:bob",
    )
    assert problem(await act(people, "bob", request_id, "decide", {"answer": "approved"}), 403)
    assert (await act(people, "max", request_id, "decide", {"answer": "approved"})).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"from_user": "bob", "to_user": "nobody"}, 422, "UNKNOWN_USER"),
        ({"from_user": "bob", "to_user": "carol"}, 409, "ALREADY_ASKED"),
        ({"from_user": "bob", "to_user": "alice"}, 403, "SEPARATION_OF_DUTIES"),
        ({"from_user": "max", "to_user": "fin"}, 422, "NOT_ASKED"),
    ],
)
async def test_reassigning_has_its_rules(people, body, status, code):
    _, request_id = await asked(people)
    assert problem(await act(people, "olga", request_id, "reassign", body), status)["code"] == code


async def test_a_request_that_is_none_is_not_found(people):
    for verb, body in (
        ("decide", {"answer": "approved"}),
        ("claim", None),
        ("release", None),
        ("reassign", {"from_user": "bob", "to_user": "max"}),
    ):
        assert problem(await act(people, "bob", uuid4(), verb, body), 404)["code"] == "NOT_FOUND"


async def test_another_partition_is_not_there(people):
    async with people("alice", partition_id="north") as client:
        found = (await client.post("/api/flows/orders.approval/start", json={"order_id": "1"})).json()
    request_id = found["steps"][0]["request_id"]
    refused = await act(people, "bob", request_id, "decide", {"answer": "approved"}, partition_id="south")
    assert problem(refused, 404)["code"] == "NOT_FOUND"
    async with people("bob", partition_id="south") as client:
        assert problem(await client.get(f"/api/approvals/{request_id}"), 404)["code"] == "NOT_FOUND"
    done = await act(people, "bob", request_id, "decide", {"answer": "approved"}, partition_id="north")
    assert done.status_code == 200


@pytest.mark.parametrize("keyed", [False, True])
async def test_decisions_that_come_together_are_answered_one_by_one(people, furnished, keyed):
    """With a key each is a transaction with its kept reply; without one they may share theirs."""
    requests = [request_id for _, request_id in [await asked(people) for _ in range(LANES + 4)]]

    async def decide(request_id):
        headers = {"idempotency-key": request_id} if keyed else {}
        async with people("bob") as client:
            path = f"/api/approvals/{request_id}/decide"
            return (await client.post(path, json={"answer": "approved"}, headers=headers)).json()

    found = await asyncio.gather(*map(decide, requests))
    assert [answer["request"]["id"] for answer in found] == requests
    assert {answer["request"]["status"] for answer in found} == {"approved"}
    decided = {str(row["request_id"]) for row in await rows(furnished, "approval_decisions")}
    assert decided == set(requests)
    assert len(await rows(furnished, "http_replies")) == (len(requests) if keyed else 0)
