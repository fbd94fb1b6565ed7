"""Searching the audit log through HTTP: who did what, to what, when; and what is not for everybody."""

import pytest

from tests.http.callers import problem

TAXI = {"title": "Taxi", "total": 1000}


@pytest.fixture
async def done(people, clock) -> dict[str, str]:
    """Three entries a day apart: alice, alice, max; and the entities."""
    async with people("alice") as client:
        first = (await client.post("/api/entities/expense", json={"data": TAXI})).json()["id"]
        clock.advance("1d")
    async with people("alice", exp=clock.now().timestamp() + 86_400 * 9) as client:
        await client.patch(
            f"/api/entities/expense/{first}", json={"data": {"total": 2}}, headers={"If-Match": "*"}
        )
        clock.advance("1d")
    async with people("max", exp=clock.now().timestamp() + 86_400 * 9, partition_id="north") as client:
        second = (await client.post("/api/entities/dossier", json={"data": {"title": "t"}})).json()["id"]
    return {"expense": first, "dossier": second}


async def search(people, clock, query="", user="adam", **more):
    async with people(user, exp=clock.now().timestamp() + 86_400, **more) as client:
        return await client.get(f"/api/audit{query}")


async def found(people, clock, query="", **more):
    """Who did what; without what the company was furnished with."""
    answer = await search(people, clock, query, **more)
    assert answer.status_code == 200, answer.text
    entries = answer.json()["items"]
    return [(entry["actor_id"], entry["action"]) for entry in entries if entry["channel"] != "sql"]


CREATED, UPDATED = ("alice", "expense.create"), ("alice", "expense.update")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [UPDATED, CREATED]),
        ("?actor=alice&action=expense.update", [UPDATED]),
        ("?entity_type=expense", [UPDATED, CREATED]),
        ("?entity_id={expense}&limit=1", [UPDATED]),
        ("?since=2026-03-03T09:00:00Z", [UPDATED]),
        ("?until=2026-03-03T09:00:00Z", [CREATED]),
        ("?since=2026-03-02T09:00:00Z&until=2026-03-02T09:00:01Z", [CREATED]),
        ("?since=2026-03-02T10:00:00%2B01:00", [UPDATED, CREATED]),
        ("?actor=bob", []),
    ],
)
async def test_entries_are_found_by_what_is_asked(people, clock, done, query, expected):
    assert await found(people, clock, query.format(**done)) == expected


async def test_what_somebody_may_not_see_is_not_in_their_search_either(people, clock, done, furnished):
    assert ("max", "dossier.create") not in await found(people, clock)
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.role_capabilities (org_id, role, capability) VALUES ('acme', 'manager', 'audit:read')"
        )
    assert ("max", "dossier.create") in await found(people, clock, user="max")
    assert await found(people, clock, user="max", partition_id="north") == [("max", "dossier.create")]
    assert await found(people, clock, user="max", partition_id="south") == []


async def test_a_search_comes_in_pages_and_shows_nothing_twice(people, clock, done):
    first = (await search(people, clock, "?limit=1&channel=http")).json()
    second = (await search(people, clock, f"?limit=1&channel=http&cursor={first['next']}")).json()
    assert [first["items"][0]["action"], second["items"][0]["action"]] == ["expense.update", "expense.create"]
    assert second["next"] is None


async def test_an_entry_says_what_changed_from_where_and_how(people, clock, done):
    entry = (await search(people, clock, "?limit=1")).json()["items"][0]
    assert (entry["changes"], entry["entity_id"], entry["place"], entry["channel"]) == (
        {"total": [1000, 2]},
        done["expense"],
        "203.0.113.7",
        "http",
    )


async def test_the_log_is_for_those_who_may_read_it(people, clock, done):
    assert problem(await search(people, clock, user="alice"), 403)["code"] == "POLICY_DENIED"


@pytest.mark.parametrize("query", ["?since=yesterday", "?since=0001-01-01T00:00:00%2B23:59", "?actor=%00"])
async def test_a_search_that_cannot_be_is_told(people, clock, query):
    assert problem(await search(people, clock, query), 422)["code"] == "INVALID_REQUEST"
