"""Saved filters: whose they are, who may share them, and that they are checked when saved and when used."""

import pytest

from tests.http.application import INVOICE_DATA
from tests.http.callers import problem

MINE = "/api/filters/expense/mine"
DRAFTS = {"state": ["draft"], "sort": "-updated_at"}


async def names(client, query="") -> list[tuple[str, bool]]:
    found = (await client.get(f"/api/filters{query}")).json()["items"]
    return [(each["name"], each["shared"]) for each in found]


@pytest.fixture
async def expenses(people):
    async with people("alice") as client:
        for title in ("Taxi", "Train"):
            made = await client.post("/api/entities/expense", json={"data": {"title": title, "total": 7}})
            assert made.status_code == 201
    return people


async def test_own_filter_is_used_by_lists_and_counts_and_seen_by_its_owner_alone(expenses):
    async with expenses("alice") as client:
        saved = (await client.put(MINE, json={"filter": DRAFTS})).json()
        assert (saved["filter"], saved["shared"], saved["saved_by"]) == (DRAFTS, False, "alice")
        listed = (await client.get("/api/entities/expense?saved=mine&limit=1")).json()
        assert [item["data"]["title"] for item in listed["items"]] == ["Train"]
        rest = (await client.get(f"/api/entities/expense?saved=mine&cursor={listed['next']}")).json()
        assert [item["data"]["title"] for item in rest["items"]] == ["Taxi"]
        assert (await client.get("/api/entities/expense/count?saved=mine")).json()["count"] == 2
        again = (await client.put(MINE, json={"filter": {"state": ["posted"]}})).json()
        assert again["id"] == saved["id"]
        assert (await client.get("/api/entities/expense?saved=mine")).json()["items"] == []
    async with expenses("bob") as client:
        assert await names(client) == []
        assert problem(await client.get(MINE), 404)["code"] == "NOT_FOUND"
        assert problem(await client.get("/api/entities/expense?saved=mine"), 404)["code"] == "NOT_FOUND"
        assert problem(await client.delete(MINE), 404)["code"] == "NOT_FOUND"
    async with expenses("alice") as client:
        assert (await client.delete(MINE)).status_code == 200
        assert problem(await client.get(MINE), 404)["code"] == "NOT_FOUND"


async def test_filter_of_the_org_is_shared_by_those_who_may_and_goes_behind_ones_own(expenses):
    shared = {"filter": {"created_by": "nobody"}, "shared": True}
    async with expenses("alice") as client:
        assert problem(await client.put(MINE, json=shared), 403)["code"] == "POLICY_DENIED"
    async with expenses("adam") as client:
        assert (await client.put(MINE, json=shared)).json()["shared"] is True
    async with expenses("alice") as client:
        assert await names(client) == [("mine", True)]
        assert (await client.get("/api/entities/expense?saved=mine")).json()["items"] == []
        assert (await client.put(MINE, json={"filter": DRAFTS})).json()["shared"] is False
        assert len((await client.get("/api/entities/expense?saved=mine")).json()["items"]) == 2
        assert await names(client) == [("mine", True), ("mine", False)]
        first = (await client.get("/api/filters?limit=1")).json()
        assert await names(client, f"?cursor={first['next']}") == [("mine", False)]
        assert problem(await client.delete(f"{MINE}?shared=true"), 403)["code"] == "POLICY_DENIED"
    async with expenses("adam") as client:
        assert (await client.delete(f"{MINE}?shared=true")).json()["shared"] is True


@pytest.mark.parametrize(
    ("path", "filter", "code", "place"),
    [
        (MINE, {"colour": "red"}, "UNKNOWN_KEY", ["filter", "colour"]),
        (MINE, {"where": ["title = Taxi"]}, "NOT_INDEXED", ["where", 0]),
        (MINE, {"where": ["titel = Taxi"]}, "UNKNOWN_FIELD", ["where", 0]),
        (MINE, {"state": "draft"}, "WRONG_TYPE", ["filter", "state"]),
        (MINE, {"created_by": "a\x00b"}, "NOT_KEPT", None),
        ("/api/filters/inbox/mine", {"bucket": "yours"}, "BAD_VALUE", ["filter", "bucket"]),
        ("/api/filters/inbox/mine", {"state": ["draft"]}, "UNKNOWN_KEY", ["filter", "state"]),
    ],
)
async def test_filter_that_could_not_be_used_is_not_saved(people, path, filter, code, place):
    async with people("alice") as client:
        refused = problem(await client.put(path, json={"filter": filter}), 422)
        if place is not None:
            (first, *_) = refused["problems"]
            assert (first["code"], first["path"]) == (code, place)
        assert await names(client) == []


async def test_saved_filter_takes_the_place_of_every_other_part(expenses):
    async with expenses("alice") as client:
        await client.put(MINE, json={"filter": DRAFTS})
        await client.put("/api/filters/inbox/late", json={"filter": {"overdue": True}})
        for path in ("/api/entities/expense?saved=mine&state=draft", "/api/inbox?saved=late&kind=form"):
            assert problem(await client.get(path), 422)["code"] == "BAD_FILTER"


async def test_filter_of_the_inbox_is_used_by_it(people):
    async with people("alice") as client:
        made = (await client.post("/api/entities/invoice", json={"data": INVOICE_DATA})).json()
        await client.post(f"/api/entities/invoice/{made['id']}/transitions/submit")
    async with people("fin") as client:
        assert (await client.put("/api/filters/inbox/forms", json={"filter": {"kind": "form"}})).is_success
        assert (
            await client.put("/api/filters/inbox/asked", json={"filter": {"kind": "approval"}})
        ).is_success
        whole = (await client.get("/api/inbox")).json()["items"]
        assert len(whole) > 0
        assert len((await client.get("/api/inbox?saved=asked&limit=200")).json()["items"]) == len(whole)
        assert (await client.get("/api/inbox?saved=forms")).json()["items"] == []


async def test_number_of_filters_is_limited(people, monkeypatch):
    monkeypatch.setattr("assent.kernel.saved_filters.FILTERS_MAX", 2)
    async with people("alice") as client:
        for name in ("a", "b", "a"):
            assert (await client.put(f"/api/filters/expense/{name}", json={"filter": {}})).status_code == 200
        refused = await client.put("/api/filters/expense/c", json={"filter": {}})
        assert problem(refused, 422)["code"] == "TOO_MANY_FILTERS"
        assert await names(client) == [("a", False), ("b", False)]
