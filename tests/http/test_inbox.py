"""The inbox, delegations and chains through HTTP: what waits for whom, and who stands in."""

import pytest

from tests.http.application import CHAIN
from tests.http.callers import ask, problem
from tests.http.test_approvals import act, asked, submitted
from tests.world import rows


async def inbox(people, user, query="", **more):
    answer = await ask(people, user, "GET", f"/api/inbox{query}", **more)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def counts(people, user, **more):
    found = (await ask(people, user, "GET", "/api/inbox/counts", **more)).json()
    return {bucket: count["open"] for bucket, count in found.items()}


async def test_what_waits_is_in_the_inbox_until_it_is_decided(people):
    place, request_id = await submitted(people)
    (item,) = await inbox(people, "fin")
    assert (item["kind"], item["bucket"], item["request_id"], item["requested_by"]) == (
        "approval",
        "roles",
        request_id,
        "alice",
    )
    assert place.endswith(item["entity_id"])
    assert await counts(people, "fin") == {"mine": 0, "roles": 1, "delegated": 0}
    await act(people, "fin", request_id, "decide", {"answer": "approved"})
    assert await inbox(people, "fin") == []
    assert await inbox(people, "alice") == []


async def test_an_inbox_comes_in_pages_by_its_sort(people):
    requests = [(await asked(people))[1] for _ in range(3)]
    for sort in ("age", "due", "figure"):
        seen, cursor = [], ""
        while cursor is not None:
            page = (await ask(people, "bob", "GET", f"/api/inbox?sort={sort}&limit=2{cursor}")).json()
            seen += [item["request_id"] for item in page["items"]]
            cursor = page["next"] and f"&cursor={page['next']}"
        assert sorted(seen) == sorted(requests)
    other = (await ask(people, "bob", "GET", "/api/inbox?limit=2")).json()["next"]
    refused = await ask(people, "bob", "GET", f"/api/inbox?sort=due&cursor={other}")
    assert problem(refused, 422)["code"] == "BAD_CURSOR"


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("?kind=form", 0),
        ("?kind=approval", 1),
        ("?bucket=roles", 1),
        ("?bucket=mine", 0),
        ("?workflow=orders.approval", 1),
        ("?workflow=pair", 0),
        ("?entity_type=invoice", 0),
        ("?overdue=true", 0),
        ("?overdue=false", 1),
        ("?due_before=2026-03-09T00:00:00Z", 0),
        ("?claimed=unclaimed", 1),
        ("?claimed=me", 0),
        ("?text=nothing", 0),
    ],
)
async def test_an_inbox_is_filtered(people, query, number):
    await asked(people)
    assert len(await inbox(people, "bob", query)) == number


async def test_an_inbox_shows_ones_own_partition_only(people):
    async with people("alice", partition_id="north") as client:
        await client.post("/api/flows/orders.approval/start", json={"order_id": "1"})
    await asked(people)
    for partition, number in (("north", 1), ("south", 0), (None, 2)):
        assert len(await inbox(people, "bob", partition_id=partition)) == number
        assert len(await inbox(people, "bob", "?sort=due", partition_id=partition)) == number
        assert (await counts(people, "bob", partition_id=partition))["roles"] == number


async def test_a_delegate_finds_it_in_their_inbox_and_decides(people):
    _, request_id = await asked(people)
    made = await ask(people, "bob", "POST", "/api/delegations", {"to_user": "max", "reason": "on holiday"})
    assert (made.status_code, made.json()["from_user"], made.json()["created_by"]) == (201, "bob", "bob")
    (item,) = await inbox(people, "max")
    assert (item["bucket"], item["on_behalf_of"]) == ("delegated", "bob")
    done = await act(people, "max", request_id, "decide", {"answer": "approved", "on_behalf_of": "bob"})
    assert done.json()["request"]["decisions"][0]["on_behalf_of"] == "bob"


async def test_a_revoked_delegation_holds_no_more(people):
    await asked(people)
    made = (await ask(people, "bob", "POST", "/api/delegations", {"to_user": "max"})).json()
    path = f"/api/delegations/{made['id']}/revoke"
    assert problem(await ask(people, "max", "POST", path), 403)["code"] == "POLICY_DENIED"
    assert (await ask(people, "bob", "POST", path)).json()["revoked_at"] is not None
    assert (await ask(people, "bob", "POST", path)).status_code == 200  # it stays as it was
    assert await inbox(people, "max") == []
    assert (await ask(people, "bob", "GET", "/api/delegations?open=true")).json()["items"] == []
    assert len((await ask(people, "bob", "GET", "/api/delegations")).json()["items"]) == 1


async def test_delegations_of_others_are_for_those_who_may(people, furnished):
    body = {"from_user": "bob", "to_user": "max"}
    assert (
        problem(await ask(people, "alice", "POST", "/api/delegations", body), 403)["code"] == "POLICY_DENIED"
    )
    assert await rows(furnished, "approval_delegations") == []
    made = (await ask(people, "adam", "POST", "/api/delegations", body)).json()
    assert made["created_by"] == "adam"
    for user, number in (("bob", 1), ("max", 1), ("carol", 0)):
        assert len((await ask(people, user, "GET", "/api/delegations")).json()["items"]) == number
    assert problem(await ask(people, "carol", "GET", "/api/delegations?user=bob"), 403)
    assert problem(await ask(people, "carol", "GET", "/api/delegations?all=true"), 403)
    for query in ("user=bob", "all=true"):
        assert len((await ask(people, "adam", "GET", f"/api/delegations?{query}")).json()["items"]) == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"to_user": "bob"}, 422, "BAD_VALUE"),
        ({"to_user": "ghost"}, 404, "NOT_FOUND"),
        ({"to_user": "max", "ends_at": "2020-01-01T00:00:00Z"}, 422, "BAD_DATES"),
        ({"to_user": "max", "ends_at": "2020-01-01T00:00:00"}, 422, "INVALID_REQUEST"),
        ({"to_user": "max", "workflows": ["w"] * 101}, 422, "INVALID_REQUEST"),
        ({}, 422, "INVALID_REQUEST"),
    ],
)
async def test_a_delegation_that_cannot_be_is_told(people, furnished, body, status, code):
    assert problem(await ask(people, "bob", "POST", "/api/delegations", body), status)["code"] == code
    assert await rows(furnished, "approval_delegations") == []


async def test_a_chain_is_kept_under_its_name_and_read_again(people):
    kept = await ask(people, "adam", "PUT", "/api/approval-chains/large%20purchases", CHAIN)
    assert (kept.status_code, kept.json()["name"]) == (200, "large purchases")
    shown = (await ask(people, "alice", "GET", "/api/approval-chains/large%20purchases")).json()
    assert shown == kept.json()
    assert [(step["name"], step["quorum"], step["due_seconds"]) for step in shown["steps"]] == [
        ("finance", 2, None),
        ("head", None, 86_400),
    ]
    await ask(people, "adam", "PUT", "/api/approval-chains/large%20purchases", {"steps": CHAIN["steps"][:1]})
    await ask(people, "adam", "PUT", "/api/approval-chains/small", CHAIN)
    first = (await ask(people, "alice", "GET", "/api/approval-chains?limit=1")).json()
    assert [len(chain["steps"]) for chain in first["items"]] == [1]
    second = (await ask(people, "alice", "GET", f"/api/approval-chains?cursor={first['next']}")).json()
    assert [chain["name"] for chain in second["items"]] == ["small"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"steps": []}, ["steps"]),
        ({"steps": [{"name": "x"}]}, ["steps", 0, "approvers"]),
        ({"steps": [{"name": "x", "approvers": {"user": "a\x00b"}}]}, ["steps", 0, "approvers", "user"]),
        ({**CHAIN, "colour": "red"}, ["colour"]),
    ],
)
async def test_a_chain_that_is_wrong_is_told_at_its_place(people, furnished, body, path):
    refused = problem(await ask(people, "adam", "PUT", "/api/approval-chains/x", body), 422)
    assert (refused["code"], refused["problems"][0]["path"]) == ("INVALID_DECLARATION", path)
    assert await rows(furnished, "approval_chains") == []


async def test_chains_are_for_those_who_may_say_who_is_asked(people, furnished):
    refused = await ask(people, "olga", "PUT", "/api/approval-chains/x", CHAIN)
    assert problem(refused, 403)["code"] == "POLICY_DENIED"
    assert await rows(furnished, "approval_chains") == []


async def test_the_evidence_says_who_approved_exactly_what(people):
    place, request_id = await submitted(people)
    await act(people, "fin", request_id, "decide", {"answer": "approved", "reason": "ok"})
    (found,) = (await ask(people, "alice", "GET", f"{place}/approvals")).json()["items"]
    assert (found["approver_id"], found["answer"], found["reason"], found["status"]) == (
        "fin",
        "approved",
        "ok",
        "approved",
    )
    assert (found["snapshot"]["grand_total"], found["is_intact"], found["state"]) == (
        120000,
        True,
        "submitted",
    )
    assert found["applied_step_id"] is not None


async def test_the_evidence_comes_in_pages_and_void_approvals_stay_in_it(people):
    place, request_id = await submitted(people)
    await act(people, "fin", request_id, "decide", {"answer": "rejected"})
    async with people("alice") as client:
        moved = (await client.post(f"{place}/transitions/submit")).json()
    await act(people, "fin", moved["instance"]["steps"][0]["request_id"], "decide", {"answer": "approved"})
    first = (await ask(people, "alice", "GET", f"{place}/approvals?limit=1")).json()
    second = (await ask(people, "alice", "GET", f"{place}/approvals?limit=1&cursor={first['next']}")).json()
    assert [page["items"][0]["answer"] for page in (first, second)] == ["rejected", "approved"]
    assert second["next"] is None
    assert (
        problem(await ask(people, "alice", "GET", f"{place}/approvals?cursor=W10"), 422)["code"]
        == "BAD_CURSOR"
    )


async def test_delegate_gets_a_mail_at_once_and_one_without_an_address_gets_none(people, furnished):
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.members SET email = 'carol@acme.example' WHERE org_id = 'acme' AND user_id = 'carol'"
        )
    for name in ("carol", "max"):
        body = {"to_user": name, "ends_at": "2026-03-09T09:00:00Z", "reason": "on leave"}
        assert (await ask(people, "bob", "POST", "/api/delegations", body)).status_code == 201
    (effect,) = await rows(furnished, "effects")
    assert (effect["type"], effect["payload"]["user"], effect["step_id"]) == ("email", "carol", None)
    mail = effect["payload"]["mail"]
    assert (mail["kind"], mail["facts"]["from_user"], mail["facts"]["by"]) == ("delegated", "bob", "bob")
