"""API keys through HTTP: shown once, for oneself or a machine, and never more than one has."""

import asyncio
from datetime import datetime, timedelta

import pytest

from assent.people.api_keys import create_api_key
from assent.people.members import lock_grants
from tests.http.application import INVOICE_DATA, app
from tests.http.callers import SETTINGS, People, bearer, client_of, problem
from tests.http.doors import create_app
from tests.processes.spawn import wait_until_blocked
from tests.world import hire_with, rows


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
    first, again = [
        await ask(people, "alice", "POST", "/api/keys", {"name": "x"}, **{"Idempotency-Key": "k"})
        for _ in range(2)
    ]
    assert problem(again, 409)["code"] == "SHOWN_ONCE"
    assert first.json()["id"] in problem(again, 409)["detail"]
    kept = await rows(furnished, "http_replies")
    assert [reply["status"] for reply in kept] == [409]
    assert first.json()["key"] not in str(kept)
    assert len(await rows(furnished, "api_keys")) == 1


async def test_a_revoked_key_is_out_at_once(people, door):
    made = (await make(people)).json()
    gone = (await ask(people, "alice", "POST", f"/api/keys/{made['id']}/revoke")).json()
    assert gone["revoked_at"] is not None
    async with client_of(door, bearer(made["key"])) as client:
        assert problem(await client.get("/api/members"), 401)["code"] == "API_KEY_REFUSED"
    assert problem(await ask(people, "alice", "POST", f"/api/keys/{made['id']}/revoke"), 404)


async def test_an_administrator_makes_keys_for_machines_that_hold_no_more(people, door, furnished):
    await hire_with(furnished, "bot", "audit:read", kind="service_account")
    assert problem(await make(people, "adam", user="robot"), 403)["code"] == "POLICY_DENIED"
    made = (await make(people, "adam", user="bot", scopes=["audit:read"])).json()
    assert (made["user_id"], made["created_by"], made["parent_id"]) == ("bot", "adam", None)
    async with client_of(door, bearer(made["key"])) as client:
        assert (await client.get("/api/audit")).status_code == 200
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
    assert problem(await ask(people, "bob", "GET", "/api/keys?all=true"), 403)["code"] == "POLICY_DENIED"
    assert problem(await ask(people, "bob", "POST", f"/api/keys/{made['id']}/revoke"), 404)
    (seen,) = (await ask(people, "adam", "GET", "/api/keys?all=true")).json()["items"]
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


async def with_key(door, key, method, path, body=None):
    async with client_of(door, bearer(key)) as client:
        return await client.request(method, path, json=body)


async def key_by(door, key, **body):
    return await with_key(door, key, "POST", "/api/keys", {"name": "child", **body})


async def test_keys_manage_makes_no_key_of_an_account_that_holds_more(people, furnished):
    await hire_with(furnished, "keyadm", "keys:manage")
    await hire_with(furnished, "superbot", "*", kind="service_account")
    assert problem(await make(people, "keyadm", user="superbot"), 403)["code"] == "POLICY_DENIED"
    assert await rows(furnished, "api_keys") == []


async def test_a_right_that_a_contract_gives_by_role_is_not_had_by_a_key_either(people, furnished):
    await hire_with(furnished, "keyadm", "keys:manage", "orders:approve:escalated")
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name, roles, kind)"
            " VALUES ('acme', 'filer', 'filer', '{manager}', 'service_account')"
        )
    refused = problem(await make(people, "keyadm", user="filer"), 403)
    assert (refused["code"], "dossier:read" in refused["detail"]) == ("POLICY_DENIED", True)


async def test_a_key_sees_no_more_of_the_org_than_its_maker(people, door, furnished):
    async with people("alice", partition_id="south") as client:
        south = await client.post("/api/entities/invoice", json={"data": INVOICE_DATA})
    where = south.headers["location"]
    async with people("alice", partition_id="north") as client:
        assert (await client.get(where)).status_code == 404
        made = (await client.post("/api/keys", json={"name": "way out"})).json()
        refused = await client.post("/api/keys", json={"name": "way out", "partition_id": "south"})
        assert problem(refused, 403)["code"] == "POLICY_DENIED"
    assert made["partition_id"] == "north"
    child = (await key_by(door, made["key"])).json()
    assert child["partition_id"] == "north"
    for key in (made["key"], child["key"]):
        async with client_of(door, bearer(key)) as client:
            assert problem(await client.get(where), 404)
            change = {"json": {"data": {"number": "mine"}}, "headers": {"If-Match": '"1"'}}
            assert problem(await client.patch(where, **change), 404)


async def test_a_maker_who_sees_all_of_the_org_makes_keys_for_a_part_of_it(people):
    assert (await make(people, partition_id="north")).json()["partition_id"] == "north"
    assert (await make(people)).json()["partition_id"] is None


async def test_a_key_does_not_outlive_the_key_that_made_it(people, door, clock):
    soon = clock.now() + timedelta(seconds=20)
    parent = (await make(people, expires_at=soon.isoformat())).json()
    child = (await key_by(door, parent["key"])).json()
    assert datetime.fromisoformat(child["expires_at"]) == soon
    later = (soon + timedelta(seconds=1)).isoformat()
    assert problem(await key_by(door, parent["key"], expires_at=later), 403)["code"] == "POLICY_DENIED"
    clock.advance("20s")
    assert problem(await with_key(door, child["key"], "GET", "/api/members"), 401)


async def test_a_key_made_by_token_expires_with_the_token_unless_a_setting_says_otherwise(
    people, furnished, clock
):
    hour, month = clock.now() + timedelta(hours=1), clock.now() + timedelta(days=30)
    assert datetime.fromisoformat((await make(people)).json()["expires_at"]) == hour
    assert problem(await make(people, expires_at=month.isoformat()), 403)["code"] == "POLICY_DENIED"
    settings = SETTINGS.replace(key_days_max_by_token=30)
    others = People(create_app(app, furnished, settings), clock.now())
    assert datetime.fromisoformat((await make(others)).json()["expires_at"]) == month
    late = (month + timedelta(seconds=1)).isoformat()
    assert problem(await make(others, expires_at=late), 403)["code"] == "POLICY_DENIED"


async def test_a_key_that_says_no_scopes_has_those_of_the_key_that_makes_it(people, door):
    parent = (await make(people, scopes=["keys:write", "entities:read"])).json()
    assert (await key_by(door, parent["key"])).json()["scopes"] == ["entities:read", "keys:write"]


async def test_a_revoked_key_takes_along_all_that_were_made_with_it(people, door, furnished):
    parent = (await make(people)).json()
    child = (await key_by(door, parent["key"])).json()
    grandchild = (await key_by(door, child["key"])).json()
    stranger = (await make(people)).json()
    assert (child["parent_id"], grandchild["parent_id"]) == (parent["id"], child["id"])
    assert (await ask(people, "alice", "POST", f"/api/keys/{parent['id']}/revoke")).status_code == 200
    found = {str(row["id"]): row["revoked_at"] for row in await rows(furnished, "api_keys")}
    assert [found[key["id"]] is None for key in (parent, child, grandchild, stranger)] == [
        False,
        False,
        False,
        True,
    ]
    assert problem(await with_key(door, grandchild["key"], "GET", "/api/members"), 401)


async def test_the_keys_of_a_member_who_leaves_end_and_do_not_come_back(people, door, furnished):
    parent = (await make(people, "bob")).json()
    child = (await key_by(door, parent["key"])).json()
    await ask(people, "adam", "POST", "/api/members/bob/deactivate")
    await ask(people, "adam", "PATCH", "/api/members/bob", {"active": True})
    for key in (parent["key"], child["key"]):
        assert problem(await with_key(door, key, "GET", "/api/members"), 401)["code"] == "API_KEY_REFUSED"


async def test_the_keys_that_a_leavers_key_made_for_an_account_end_too(people, door, furnished):
    await hire_with(furnished, "keyadm", "keys:manage")
    await hire_with(furnished, "bot", kind="service_account")
    await hire_with(furnished, "rita", "*")
    parent = (await make(people, "keyadm")).json()
    child = (await key_by(door, parent["key"], user="bot")).json()
    assert (child["user_id"], child["created_by"]) == ("bot", "keyadm")
    await ask(people, "rita", "POST", "/api/members/keyadm/deactivate")
    assert problem(await with_key(door, child["key"], "GET", "/api/members"), 401)


async def test_a_member_has_so_many_valid_keys_and_no_more(furnished, clock):
    settings = SETTINGS.replace(keys_of_member_max=2)
    people = People(create_app(app, furnished, settings), clock.now())
    first, _ = [(await make(people)).json() for _ in range(2)]
    refused = problem(await make(people), 409)
    assert (refused["code"], "2 valid keys" in refused["detail"]) == ("TOO_MANY_KEYS", True)
    assert (await make(people, "bob")).status_code == 201
    await ask(people, "alice", "POST", f"/api/keys/{first['id']}/revoke")
    assert (await make(people)).status_code == 201
    assert problem(await make(people), 409)
    clock.advance("1h")
    people = People(create_app(app, furnished, settings), clock.now())
    assert (await make(people)).status_code == 201


async def test_a_member_whose_id_is_a_star_lists_their_own_keys(people, door, furnished, clock):
    await make(people)
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name) VALUES ('acme', '*', 'Star')"
        )
        star, _ = await create_api_key(connection, "acme", "*", "star", clock.now())
        await connection.execute(
            "INSERT INTO assent.approval_delegations (org_id, id, from_user, to_user, starts_at, created_by)"
            " VALUES ('acme', gen_random_uuid(), 'bob', 'carol', now(), 'bob')"
        )
    for query in ("", "?user=*"):
        listed = (await with_key(door, star, "GET", f"/api/keys{query}")).json()["items"]
        assert [key["user_id"] for key in listed] == ["*"]
        assert (await with_key(door, star, "GET", f"/api/delegations{query}")).json()["items"] == []
    for path in ("/api/keys?all=true", "/api/delegations?all=true"):
        assert problem(await with_key(door, star, "GET", path), 403)["code"] == "POLICY_DENIED"


async def test_a_key_that_is_being_revoked_leaves_no_child_behind(people, door, furnished):
    parent = (await make(people)).json()
    async with furnished.transaction(None) as observer:
        async with furnished.transaction("acme") as gate:
            await lock_grants(gate, "acme")
            asking = [asyncio.create_task(ask(people, "alice", "POST", f"/api/keys/{parent['id']}/revoke"))]
            await wait_until_blocked(observer, 1)
            asking.append(asyncio.create_task(key_by(door, parent["key"])))
            await wait_until_blocked(observer, 2)
        answers = [await one for one in asking]
    assert [answer.status_code for answer in answers] == [200, 401]
    assert [row["revoked_at"] is None for row in await rows(furnished, "api_keys")] == [False]
