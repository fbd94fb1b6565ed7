"""Nobody gives or takes what they do not hold: members and roles, and the last one who holds everything."""

import asyncio

import pytest

from assent.model.actor import SYSTEM
from assent.model.mutation import Refused
from assent.people.members import change_member, lock_grants, set_capabilities
from tests.http.callers import bearer, client_of, problem
from tests.processes.spawn import wait_until_blocked
from tests.world import hire_with, rows

NEW = {"user_id": "dora", "name": "Dora Diaz"}


async def ask(people, user, method, path, body=None):
    async with people(user) as client:
        return await client.request(method, path, json=body)


@pytest.fixture
async def staff(furnished):
    """`memmgr` only manages members; `rita` and `superbot` hold everything; `nobody` nothing."""
    await hire_with(furnished, "memmgr", "members:manage")
    await hire_with(furnished, "rolemgr", "roles:manage", "invoice:*")
    await hire_with(furnished, "rita", "*")
    await hire_with(furnished, "superbot", "*", kind="service_account")
    await hire_with(furnished, "nobody")
    return furnished


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/api/members/nobody", {"roles": ["ritas"]}),
        ("PATCH", "/api/members/nobody", {"roles": ["memmgrs", "clerk"]}),
        ("PATCH", "/api/members/rita", {"roles": []}),
        ("POST", "/api/members/rita/deactivate", None),
        ("PATCH", "/api/members/rita", {"active": False}),
        ("POST", "/api/members/superbot/deactivate", None),
        ("POST", "/api/members", {**NEW, "roles": ["ritas"]}),
        ("POST", "/api/members", {**NEW, "roles": ["admin"], "kind": "service_account"}),
    ],
)
async def test_member_cannot_give_or_take_a_role_that_holds_more(people, staff, method, path, body):
    before = await rows(staff, "members")
    assert problem(await ask(people, "memmgr", method, path, body), 403)["code"] == "POLICY_DENIED"
    assert await rows(staff, "members") == before


async def test_a_role_that_holds_no_more_is_given_and_taken(people, staff):
    for roles in (["memmgrs", "approver"], []):
        changed = await ask(people, "memmgr", "PATCH", "/api/members/nobody", {"roles": roles})
        assert (changed.status_code, changed.json()["roles"]) == (200, roles)
    made = await ask(people, "memmgr", "POST", "/api/members", {**NEW, "roles": ["approver"]})
    assert made.status_code == 201


async def test_whoever_left_with_more_is_not_taken_back_by_one_who_holds_less(people, staff):
    await hire_with(staff, "rob", "*")
    assert (await ask(people, "rita", "POST", "/api/members/rob/deactivate")).status_code == 200
    for changes in ({"active": True}, {"roles": []}):
        refused = await ask(people, "memmgr", "PATCH", "/api/members/rob", changes)
        assert problem(refused, 403)["code"] == "POLICY_DENIED"
    assert (await ask(people, "rita", "PATCH", "/api/members/rob", {"active": True})).status_code == 200


async def test_an_account_gets_no_role_that_contracts_let_do_more(people, staff):
    async with staff.transaction(None) as connection:
        await connection.execute(
            "DELETE FROM assent.role_capabilities WHERE org_id = 'acme' AND role IN ('clerk', 'manager')"
        )
    robot = {**NEW, "kind": "service_account", "roles": ["manager"]}
    refused = problem(await ask(people, "memmgr", "POST", "/api/members", robot), 403)
    assert "dossier:read" in refused["detail"]
    assert (
        await ask(people, "memmgr", "POST", "/api/members", {**NEW, "roles": ["manager"]})
    ).status_code == 201
    assert (
        await ask(people, "rita", "POST", "/api/members", {**robot, "user_id": "filer"})
    ).status_code == 201
    refused = await ask(people, "memmgr", "PATCH", "/api/members/filer", {"roles": ["clerk", "manager"]})
    assert "invoice:create" in problem(refused, 403)["detail"]


@pytest.mark.parametrize("capabilities", [[], ["invoice:read"], ["*", "audit:read"]])
async def test_member_cannot_take_from_a_role_what_they_do_not_hold(people, staff, capabilities):
    before = await rows(staff, "role_capabilities")
    refused = await ask(people, "rolemgr", "PUT", "/api/roles/ritas", {"capabilities": capabilities})
    assert problem(refused, 403)["code"] == "POLICY_DENIED"
    assert await rows(staff, "role_capabilities") == before


async def test_a_wildcard_gives_and_takes_what_is_below_it(people, staff):
    for capabilities in (["invoice:read", "invoice:line:*"], ["invoice:*"], []):
        put = await ask(people, "rolemgr", "PUT", "/api/roles/reader", {"capabilities": capabilities})
        assert (put.status_code, sorted(put.json()["capabilities"])) == (200, sorted(capabilities))


async def test_the_last_who_holds_everything_keeps_it_by_every_door(people, staff, clock):
    before = [await rows(staff, table) for table in ("members", "role_capabilities", "api_keys")]
    put = await ask(people, "rita", "PUT", "/api/roles/ritas", {"capabilities": ["invoice:*"]})
    assert problem(put, 409)["code"] == "LAST_ADMINISTRATOR"
    for changes in ({"active": False}, {"roles": ()}, {"roles": ("superbot",), "active": True}):
        async with staff.transaction("acme") as connection:
            with pytest.raises(Refused, match="LAST_ADMINISTRATOR"):
                await change_member(connection, "acme", "rita", changes, SYSTEM, clock.now())
    async with staff.transaction("acme") as connection:
        with pytest.raises(Refused, match="LAST_ADMINISTRATOR"):
            await set_capabilities(connection, "acme", "ritas", [], SYSTEM)
    assert [await rows(staff, table) for table in ("members", "role_capabilities", "api_keys")] == before


async def test_one_of_two_who_hold_everything_may_go(people, staff):
    await hire_with(staff, "rob", "*")
    assert (await ask(people, "rita", "POST", "/api/members/rob/deactivate")).status_code == 200
    put = await ask(people, "rita", "PUT", "/api/roles/robs", {"capabilities": []})
    assert put.status_code == 200


async def test_two_who_hold_everything_cannot_let_each_other_go_at_once(people, staff):
    await hire_with(staff, "rob", "*")
    async with staff.transaction(None) as observer:
        async with staff.transaction("acme") as gate:
            await lock_grants(gate, "acme")
            asking = [
                asyncio.create_task(ask(people, by, "POST", f"/api/members/{other}/deactivate"))
                for by, other in (("rita", "rob"), ("rob", "rita"))
            ]
            await wait_until_blocked(observer, 2)
        answers = [(await one).status_code for one in asking]
    assert sorted(answers) == [200, 403]
    left = [
        row for row in await rows(staff, "members") if row["user_id"] in ("rita", "rob") and row["active"]
    ]
    assert len(left) == 1


async def test_two_who_hold_everything_cannot_both_give_it_up_at_once(people, staff):
    await hire_with(staff, "rob", "*")
    async with staff.transaction(None) as observer:
        async with staff.transaction("acme") as gate:
            await lock_grants(gate, "acme")
            less = {"capabilities": ["roles:manage"]}
            asking = [
                asyncio.create_task(ask(people, by, "PUT", f"/api/roles/{by}s", less))
                for by in ("rita", "rob")
            ]
            await wait_until_blocked(observer, 2)
        answers = [(await one).status_code for one in asking]
    assert sorted(answers) == [200, 409]


@pytest.mark.parametrize(
    "giving",
    [
        ("PUT", "/api/roles/reader", {"capabilities": ["invoice:read"]}),
        ("POST", "/api/members", {**NEW, "roles": ["printers"]}),
        ("PATCH", "/api/members/nobody", {"roles": ["printers"]}),
        ("POST", "/api/members/printer/deactivate", None),
        ("POST", "/api/keys", {"name": "k", "user": "printer"}),
    ],
)
@pytest.mark.parametrize("loss", ["role", "capability", "capability to manage", "deactivated"])
async def test_right_that_is_being_taken_is_not_used_to_give(people, staff, loss, giving):
    """The giver waits for the transaction that takes the right, and then is asked again."""
    managing = ("roles:manage", "members:manage", "keys:manage")
    await hire_with(staff, "giver", *managing, "invoice:*")
    await hire_with(staff, "printer", "invoice:read", kind="service_account")
    taken = {
        "role": "UPDATE assent.members SET roles = '{}' WHERE org_id = 'acme' AND user_id = 'giver'",
        "deactivated": "UPDATE assent.members SET active = false WHERE org_id = 'acme' AND user_id = 'giver'",
        "capability": "DELETE FROM assent.role_capabilities WHERE org_id = 'acme' AND role = 'givers'"
        " AND capability = 'invoice:*'",
        "capability to manage": "DELETE FROM assent.role_capabilities WHERE org_id = 'acme' AND role = 'givers'"
        " AND capability LIKE '%:manage'",
    }[loss]
    kept = ("members", "role_capabilities", "api_keys")
    async with staff.transaction(None) as observer:
        async with staff.transaction(None) as taker:
            await lock_grants(taker, "acme")
            asking = asyncio.create_task(ask(people, "giver", *giving))
            await wait_until_blocked(observer, 1)
            await taker.execute(taken)
            left = [
                await taker.fetch(f"SELECT * FROM assent.{table} ORDER BY 1, 2, 3")  # noqa: S608
                for table in kept
            ]
        answer = await asking
    code = "NOT_A_MEMBER" if loss == "deactivated" else "POLICY_DENIED"
    assert problem(answer, 403)["code"] == code
    async with staff.transaction(None) as connection:
        assert left == [
            await connection.fetch(f"SELECT * FROM assent.{table} ORDER BY 1, 2, 3")  # noqa: S608
            for table in kept
        ]


@pytest.mark.parametrize(
    ("path", "manager"),
    [
        ("adam", "max"),  # one's own
        ("carol", "bob"),  # the manager of one's manager
        ("alice", "adam"),  # oneself as the manager of another
    ],
)
async def test_nobody_chooses_who_approves_for_them_or_whom_they_approve(people, furnished, path, manager):
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.members SET manager_id = 'carol' WHERE org_id = 'acme' AND user_id = 'adam'"
        )
    before = await rows(furnished, "members")
    refused = await ask(people, "adam", "PATCH", f"/api/members/{path}", {"manager_id": manager})
    assert problem(refused, 403)["code"] == "SEPARATION_OF_DUTIES"
    assert await rows(furnished, "members") == before
    new = {**NEW, "manager_id": "adam"}
    assert (
        problem(await ask(people, "adam", "POST", "/api/members", new), 403)["code"] == "SEPARATION_OF_DUTIES"
    )


@pytest.mark.parametrize(
    "command",
    [
        ("PATCH", "/api/members/maker", {"roles": ["approver"]}),
        ("PATCH", "/api/members/maker", {"manager_id": "max"}),
        ("PATCH", "/api/members/alice", {"manager_id": "maker"}),
        ("POST", "/api/delegations", {"from_user": "bob", "to_user": "maker"}),
    ],
    ids=["roles", "manager", "being a manager", "standing in"],
)
async def test_a_service_account_does_not_do_it_for_the_maker_of_its_key(people, door, furnished, command):
    method, path, body = command
    held = ("members:manage", "approvals:delegate")
    await hire_with(furnished, "maker", "keys:manage", *held)
    await hire_with(furnished, "bot", *held, kind="service_account")
    made = (await ask(people, "maker", "POST", "/api/keys", {"name": "k", "user": "bot"})).json()
    async with client_of(door, bearer(made["key"])) as client:
        child = (await client.post("/api/keys", json={"name": "child"})).json()
    for key in (made["key"], child["key"]):
        async with client_of(door, bearer(key)) as client:
            refused = await client.request(method, path, json=body)
        assert problem(refused, 403)["code"] == "SEPARATION_OF_DUTIES"
