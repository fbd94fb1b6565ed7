"""API keys through HTTP: shown once, for oneself or a machine, and never more than one has."""

import pytest

from tests.http.callers import bearer, client_of, problem
from tests.runtime.flows import rows


async def ask(people, user, method, path, body=None, **headers):
    async with people(user) as client:
        return await client.request(method, path, json=body, headers=headers)


async def make(people, by="alice", **body):
    return await ask(people, by, "POST", "/api/keys", {"name": "laptop", **body})


async def test_a_key_is_shown_once_and_signs_its_owner_in(people, door, furnished):
    made = (await make(people)).json()
    assert (made["user_id"], made["scopes"], made["prefix"]) == ("alice", ["*"], made["key"][:11])
    async with client_of(door, bearer(made["key"])) as client:
        assert (await client.get("/api/members/alice")).status_code == 200
    (listed,) = (await ask(people, "alice", "GET", "/api/keys")).json()["items"]
    assert listed == {name: value for name, value in made.items() if name != "key"}
    assert made["key"] not in repr([await rows(furnished, table) for table in ("api_keys", "http_replies")])


async def test_a_key_for_repeats_does_not_keep_the_secret(people, furnished):
    answers = [
        await ask(people, "alice", "POST", "/api/keys", {"name": "x"}, **{"Idempotency-Key": "k"})
        for _ in range(2)
    ]
    assert len({answer.json()["key"] for answer in answers}) == 2
    assert await rows(furnished, "http_replies") == []


async def test_a_revoked_key_is_out_at_once(people, door):
    made = (await make(people)).json()
    gone = (await ask(people, "alice", "POST", f"/api/keys/{made['id']}/revoke")).json()
    assert gone["revoked_at"] is not None
    async with client_of(door, bearer(made["key"])) as client:
        assert problem(await client.get("/api/members"), 401)["code"] == "API_KEY_REFUSED"
    assert problem(await ask(people, "alice", "POST", f"/api/keys/{made['id']}/revoke"), 404)


async def test_an_administrator_makes_keys_for_machines(people, door):
    made = (await make(people, "adam", user="robot", scopes=["events:write"])).json()
    async with client_of(door, bearer(made["key"])) as client:
        assert (await client.post("/api/events/k")).status_code == 202
        assert problem(await client.get("/api/members"), 403)["code"] == "SCOPE_MISSING"


async def test_nobody_makes_a_key_in_another_persons_name(people, furnished):
    for user, code in (("adam", "SEPARATION_OF_DUTIES"), ("alice", "POLICY_DENIED")):
        assert problem(await make(people, user, user="fin"), 403)["code"] == code
    assert problem(await make(people, "alice", user="robot"), 403)["code"] == "POLICY_DENIED"
    assert problem(await make(people, "adam", user="ghost"), 404)["code"] == "NOT_FOUND"
    assert await rows(furnished, "api_keys") == []


async def test_a_key_makes_none_that_may_do_more(people, door, furnished):
    narrow = (await make(people, scopes=["keys:write", "entities:read"])).json()["key"]
    async with client_of(door, bearer(narrow)) as client:
        for scopes in (["*"], ["entities:*"], ["workflows:read"]):
            refused = await client.post("/api/keys", json={"name": "wide", "scopes": scopes})
            assert problem(refused, 403)["code"] == "SCOPE_MISSING"
        body = {"name": "narrow", "scopes": ["entities:read"]}
        assert (await client.post("/api/keys", json=body)).status_code == 201
    assert len(await rows(furnished, "api_keys")) == 2


async def test_ones_own_keys_are_ones_own(people):
    made = (await make(people)).json()
    assert (await ask(people, "bob", "GET", "/api/keys")).json()["items"] == []
    assert problem(await ask(people, "bob", "GET", "/api/keys?user=alice"), 403)["code"] == "POLICY_DENIED"
    assert problem(await ask(people, "bob", "GET", "/api/keys?user=*"), 403)["code"] == "POLICY_DENIED"
    assert problem(await ask(people, "bob", "POST", f"/api/keys/{made['id']}/revoke"), 404)
    (seen,) = (await ask(people, "adam", "GET", "/api/keys?user=*")).json()["items"]
    assert seen["id"] == made["id"]
    assert (await ask(people, "adam", "POST", f"/api/keys/{made['id']}/revoke")).status_code == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"scopes": ["everything"]}, "UNKNOWN_SCOPE"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "BAD_DATES"),
        ({"expires_at": "2020-01-01T00:00:00"}, "INVALID_REQUEST"),
        ({"expires_at": "0001-01-01T00:00:00+23:59"}, "INVALID_REQUEST"),
        ({"name": ""}, "INVALID_REQUEST"),
    ],
)
async def test_a_key_that_cannot_be_is_told(people, furnished, body, code):
    assert problem(await make(people, **body), 422)["code"] == code
    assert await rows(furnished, "api_keys") == []


async def test_keys_come_in_pages(people):
    made = [(await make(people, name=f"k{number}")).json()["id"] for number in range(3)]
    first = (await ask(people, "alice", "GET", "/api/keys?limit=2")).json()
    second = (await ask(people, "alice", "GET", f"/api/keys?limit=2&cursor={first['next']}")).json()
    assert [key["id"] for key in first["items"] + second["items"]] == made[::-1]
    assert second["next"] is None
