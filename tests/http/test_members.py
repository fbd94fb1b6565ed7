"""Members and roles through HTTP: who may change them, and what nobody may."""

import pytest

from tests.http.application import PEOPLE
from tests.http.callers import ask, problem
from tests.world import rows

DORA = {
    "user_id": "dora",
    "name": "Dora Diaz",
    "roles": ["approver", "approver"],
    "email": "dora@example.com",
}


async def test_everybody_of_an_org_sees_who_is_there_page_by_page(people):
    seen, cursor = [], ""
    while cursor is not None:
        page = (await ask(people, "alice", "GET", f"/api/members?limit=3{cursor}")).json()
        seen += [member["user_id"] for member in page["items"]]
        assert len(page["items"]) <= 3
        cursor = page["next"] and f"&cursor={page['next']}"
    assert seen == sorted(PEOPLE)


async def test_members_are_found_by_role_and_by_whether_they_are_active(people):
    await ask(people, "adam", "POST", "/api/members/bob/deactivate")
    found = (await ask(people, "alice", "GET", "/api/members?role=approver&active=true")).json()["items"]
    assert [member["user_id"] for member in found] == ["carol"]


async def test_somebody_is_taken_in_and_signs_in_at_once(people):
    made = await ask(people, "adam", "POST", "/api/members", DORA)
    assert (made.status_code, made.headers["location"], made.json()["roles"]) == (
        201,
        "/api/members/dora",
        ["approver"],
    )
    assert (await ask(people, "dora", "GET", "/api/members/dora")).json()["name"] == "Dora Diaz"
    assert problem(await ask(people, "adam", "POST", "/api/members", DORA), 409)["code"] == "ALREADY_EXISTS"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"user_id": "system"}, "RESERVED_NAME"),
        ({"user_id": "System"}, "RESERVED_NAME"),
        ({"user_id": "*"}, "RESERVED_NAME"),
        ({"user_id": "do ra"}, "BAD_VALUE"),
        ({"user_id": "dora "}, "BAD_VALUE"),
        ({"user_id": "dora\u200b"}, "BAD_VALUE"),
        ({"user_id": "\u202edora"}, "BAD_VALUE"),
        ({"user_id": "dora\r\n"}, "BAD_VALUE"),
        ({"user_id": "\uff44ora"}, "BAD_VALUE"),
        ({"user_id": "d" * 201}, "INVALID_REQUEST"),
        ({"manager_id": "robot"}, "BAD_VALUE"),
        ({"manager_id": "nobody"}, "UNKNOWN_USER"),
        ({"manager_id": "dora"}, "BAD_VALUE"),
        ({"name": "a\x00b"}, "INVALID_REQUEST"),
        ({"user_id": ""}, "INVALID_REQUEST"),
        ({"kind": "system"}, "INVALID_REQUEST"),
        ({"salary": 1}, "INVALID_REQUEST"),
    ],
)
async def test_a_member_that_cannot_be_is_told(people, furnished, changes, code):
    before = await rows(furnished, "members")
    assert (
        problem(await ask(people, "adam", "POST", "/api/members", {**DORA, **changes}), 422)["code"] == code
    )
    assert await rows(furnished, "members") == before


@pytest.mark.parametrize(
    "user_id",
    [
        "\u0430lice",  # a Cyrillic a
        "al\u03b9ce",  # a Greek iota
        "ALICE",
        "aIice",
        "a1ice",
        "ad\u0430rn",  # rn for the m of adam
        "\u0455y\u0455tem",  # the engine itself
    ],
)
async def test_nobody_is_taken_in_whose_id_is_mistaken_for_anothers(people, furnished, user_id):
    before = await rows(furnished, "members")
    refused = await ask(people, "adam", "POST", "/api/members", {**DORA, "user_id": user_id})
    assert problem(refused, 409)["code"] == "LOOK_ALIKE"
    assert await rows(furnished, "members") == before


@pytest.mark.parametrize(
    "user_id", ["alic\u00e9", "alina", "auth0|5f7c", "ann@example.com", "\u0436\u0435\u043d\u044f"]
)
async def test_an_id_that_is_nobody_elses_is_taken(people, user_id):
    made = await ask(people, "adam", "POST", "/api/members", {**DORA, "user_id": user_id})
    assert (made.status_code, made.json()["user_id"]) == (201, user_id)


async def test_a_name_that_is_no_text_is_told(people):
    content = b'{"user_id": "dora", "name": "\\ud800"}'
    async with people("adam") as client:
        headers = {"content-type": "application/json"}
        answer = await client.post("/api/members", content=content, headers=headers)
    assert problem(answer, 400)["code"] == "BAD_JSON"


async def test_what_is_not_sent_stays_as_it_is(people):
    changed = (await ask(people, "adam", "PATCH", "/api/members/bob", {"manager_id": "max"})).json()
    assert (changed["manager_id"], changed["roles"], changed["name"], changed["active"]) == (
        "max",
        ["approver"],
        "bob",
        True,
    )
    changed = (await ask(people, "adam", "PATCH", "/api/members/bob", {"manager_id": None})).json()
    assert changed["manager_id"] is None
    assert problem(await ask(people, "adam", "PATCH", "/api/members/bob", {"name": None}), 422)


async def test_who_is_let_go_is_out_at_once_and_comes_back_when_they_are_taken_in_again(people):
    assert (await ask(people, "adam", "POST", "/api/members/bob/deactivate")).json()["active"] is False
    assert problem(await ask(people, "bob", "GET", "/api/inbox"), 403)["code"] == "NOT_A_MEMBER"
    await ask(people, "adam", "PATCH", "/api/members/bob", {"active": True})
    assert (await ask(people, "bob", "GET", "/api/inbox")).status_code == 200


@pytest.mark.parametrize("changes", [{"roles": ["admin", "approver"]}, {"active": False}])
async def test_nobody_changes_their_own_roles_or_lets_themselves_go(people, furnished, changes):
    before = await rows(furnished, "members")
    refused = await ask(people, "adam", "PATCH", "/api/members/adam", changes)
    assert problem(refused, 403)["code"] == "SEPARATION_OF_DUTIES"
    assert await rows(furnished, "members") == before
    assert (await ask(people, "adam", "PATCH", "/api/members/adam", {"name": "Adam"})).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/members", DORA),
        ("PATCH", "/api/members/bob", {"roles": ["admin"]}),
        ("PATCH", "/api/members/alice", {"roles": ["admin"]}),
        ("POST", "/api/members/bob/deactivate", None),
        ("GET", "/api/roles", None),
        ("GET", "/api/roles/clerk", None),
        ("PUT", "/api/roles/clerk", {"capabilities": ["*"]}),
    ],
)
async def test_without_the_capability_nothing_is_changed(people, furnished, method, path, body):
    before = [await rows(furnished, table) for table in ("members", "role_capabilities")]
    assert problem(await ask(people, "olga", method, path, body), 403)["code"] == "POLICY_DENIED"
    assert [await rows(furnished, table) for table in ("members", "role_capabilities")] == before


async def test_roles_are_listed_with_what_they_carry_and_who_holds_them(people):
    found = (await ask(people, "adam", "GET", "/api/roles")).json()["items"]
    by_name = {role["role"]: role for role in found}
    assert [role["role"] for role in found] == sorted(by_name)
    assert by_name["approver"] == {"role": "approver", "capabilities": [], "members": 2}
    assert by_name["clerk"]["capabilities"] == ["orders:approve:execute"]


async def test_a_role_carries_exactly_what_was_said_and_its_members_can_at_once(people):
    assert problem(await ask(people, "bob", "GET", "/api/audit"), 403)
    put = await ask(
        people, "adam", "PUT", "/api/roles/approver", {"capabilities": ["audit:read", "workflows:*"]}
    )
    assert (put.status_code, put.json()["capabilities"]) == (200, ["audit:read", "workflows:*"])
    assert (await ask(people, "bob", "GET", "/api/audit")).status_code == 200
    put = await ask(people, "adam", "PUT", "/api/roles/approver", {"capabilities": []})
    assert put.json()["capabilities"] == []
    assert problem(await ask(people, "bob", "GET", "/api/audit"), 403)


@pytest.mark.parametrize("capability", ["*", "invoice:update", "events:*"])
async def test_nobody_hands_out_what_is_not_theirs(people, furnished, capability):
    before = await rows(furnished, "role_capabilities")
    body = {"capabilities": ["audit:read", capability]}
    assert problem(await ask(people, "adam", "PUT", "/api/roles/admin", body), 403)["code"] == "POLICY_DENIED"
    assert await rows(furnished, "role_capabilities") == before


async def test_what_a_role_carries_already_is_kept_by_whoever_has_it_not(people):
    body = {"capabilities": ["orders:approve:execute", "audit:read"]}
    put = await ask(people, "adam", "PUT", "/api/roles/clerk", body)
    assert put.json()["capabilities"] == ["audit:read", "orders:approve:execute"]


@pytest.mark.parametrize("capability", ["a b", "", "workflows:*:x", "a" * 201])
async def test_a_capability_that_is_none_is_told(people, capability):
    assert problem(await ask(people, "adam", "PUT", "/api/roles/x", {"capabilities": [capability]}), 422)
