"""Filters of entities over HTTP: conditions, words, sorts and counts, and what is refused with its place."""

from urllib.parse import quote, urlencode

import pytest
from fastapi import FastAPI

from assent.app import App
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.http.callers import CALLBACKS, SETTINGS, People, problem
from tests.http.doors import create_app
from tests.kernel.bills import BILL, build, publish_bill

BILLS = "/api/entities/bill"
READABLE = {**BILL, "version": 2, "permissions": {"read": ["clerk"], "create": ["clerk"]}}


@pytest.fixture
def app() -> App:
    return App([READABLE])


@pytest.fixture
def door(app: App, furnished: Database) -> FastAPI:
    return create_app(app, furnished, SETTINGS, CALLBACKS)


@pytest.fixture
async def billed(people: People, furnished: Database) -> People:
    """Three bills of which the index was declared after they were written."""
    await publish_bill(
        furnished,
        fields={
            name: {"type": spec["type"]}
            for name, spec in BILL["fields"].items()
            if spec["type"] in ("text", "money")
        },
    )
    async with people("alice") as client:
        for total, note in ((100, "Rent of the office"), (200, "office chairs"), (300, "pipes")):
            made = await client.post(
                BILLS, json={"data": {"total": total, "number": f"N{total}", "note": note}}
            )
            assert made.status_code == 201, made.text
    return people


async def totals(client, **query) -> list[int]:
    answer = await client.get(f"{BILLS}?{urlencode(query, doseq=True)}")
    assert answer.status_code == 200, answer.text
    return [item["data"]["total"] for item in answer.json()["items"]]


async def test_filter_is_refused_until_its_index_is_built_and_finds_what_was_there(billed, furnished):
    async with billed("alice") as client:
        missing = problem(await client.get(f"{BILLS}?where=total%20%3E%3D%20200"), 422)
        assert (missing["code"], missing["problems"][0]["path"]) == ("NOT_INDEXED", ["where", 0])
        await publish_bill(furnished, **READABLE)
        building = problem(await client.get(f"{BILLS}?where=total%20%3E%3D%20200"), 422)
        assert building["code"] == "INDEX_BUILDING"
        indexes = (await client.get(f"{BILLS}/indexes")).json()["items"]
        assert {"field": "total", "type": "money", "ready": False, "progress": 0.0} in indexes
        await build(furnished)
        assert await totals(client, where="total >= 200", sort="-total") == [300, 200]
        assert await totals(client, where=["total >= 100", "number in N100,N300"], sort="total") == [100, 300]
        assert await totals(client, q="OFFICE ren*") == [100]
        assert await totals(client, created_by="alice", sort="number") == [100, 200, 300]
        assert await totals(client, created_by="bob") == []
        counted = (await client.get(f"{BILLS}/count?where={quote('total > 100')}")).json()
        assert (counted["count"], counted["more"]) == (2, False)
        assert {"state": "open", "count": 2, "more": False} in counted["states"]


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("where=totl = 1", "UNKNOWN_FIELD", "did you mean `total`?"),
        ("where=memo = 1", "NOT_INDEXED", "index: true"),
        ("sort=totals", "UNKNOWN_FIELD", "did you mean `total`?"),
        ("where=total = much", "WRONG_TYPE", "whole number"),
        ("where=total", "BAD_FILTER", "write it like"),
        ("wher=total = 1", "UNKNOWN_KEY", "did you mean `where`?"),
        ("q=%00", "BAD_FILTER", "NUL"),
    ],
)
async def test_mistake_in_a_filter_is_refused_with_what_was_probably_meant(
    people, furnished, query, code, said
):
    await publish_bill(furnished, **READABLE)
    async with people("alice") as client:
        for path in (BILLS, f"{BILLS}/count"):
            if not (path.endswith("count") and query.startswith("sort")):
                refused = problem(await client.get(f"{path}?{quote(query, safe='=&%')}"), 422)
                assert refused["code"] == code
                assert said in str(refused)


async def test_lists_counts_and_indexes_are_for_readers_of_the_type(billed, furnished):
    await publish_bill(furnished, **READABLE)
    async with billed("bob") as client:
        for path in ("", "/count", "/indexes", "?where=totl"):
            assert problem(await client.get(f"{BILLS}{path}"), 403)["code"] == "POLICY_DENIED"


async def test_filter_confined_to_a_partition_counts_what_is_there(people, furnished, clock: MovedClock):
    await publish_bill(furnished, **READABLE)
    async with people("alice") as client:
        assert (await client.post(BILLS, json={"data": {"total": 1}})).status_code == 201
    async with people("alice", partition_id="north") as client:
        assert await totals(client, where="total > 0") == []
        assert (await client.get(f"{BILLS}/count?where={quote('total > 0')}")).json()["count"] == 0
