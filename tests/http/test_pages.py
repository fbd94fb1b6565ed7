"""Every list: no cursor of a caller's own making is a mistake of ours, and no page is endless."""

import base64
import json
from uuid import UUID

import pytest
from pydantic import BaseModel

from assent.bodies.body import PAGE_BYTES_MAX
from assent.http.paging import page_of
from assent.kernel import entities, listing
from assent.model.cursor import integer_in, position_of
from assent.model.entity_filter import EntityFilter
from tests.http.application import INVOICE_DATA, app
from tests.http.callers import problem
from tests.http.route_table import OPERATIONS, PAGED

ZERO = "00000000-0000-0000-0000-000000000000"
POSITIONS = [
    2**31,
    2**63,
    2**64,
    -(2**31) - 1,
    10**30,
    1e308,
    -1,
    True,
    None,
    "",
    "\u0000",
    "x\u0000y",
    "9" * 300,
    [],
    {},
    [[]],
    ["9999-12-31T23:59:59.999999-14:00", ZERO],
    ["0001-01-01T00:00:00+14:00", ZERO],
    ["9999-12-31T23:59:59+00:00", ZERO],
    ["0001-01-01T00:00:00Z", ZERO],
    ["2026-01-01T00:00:00", ZERO],
    ["2026-01-01", ZERO],
    ["2026-01-01T00:00:00Z", "not an id"],
    ["2026-01-01T00:00:00Z", 7],
    [2**70, ZERO],
    *([sort, place, ZERO] for sort in ("age", "due", "figure") for place in (
        "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "NaN", "sNaN", "1E+999999", "-1E-999999", "", 7, None
    )),
]  # fmt: skip
TEXTS = [
    "=",
    "====",
    "x",
    "%00",
    "ÿ",
    "a" * 499,
    "W10",
    "Ww",
    "bnVsbA",
    base64.b64encode(b"\xed\xa0\x80").decode(),
]


def cursor_of(position) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


@pytest.fixture
async def somebody(people):
    """Everything may be listed, and of most lists there is something."""
    roles = ["clerk", "approver", "finance_manager", "manager", "operator", "admin"]
    async with people("adam", roles=roles) as client:
        yield client


@pytest.fixture
async def there(people):
    async with people("alice") as alice:
        invoice = (await alice.post("/api/entities/invoice", json={"data": INVOICE_DATA})).json()
        moved = (await alice.post(f"/api/entities/invoice/{invoice['id']}/transitions/submit")).json()
        flow = (await alice.post("/api/flows/pair/start", json={})).json()
    return {
        "entity_id": invoice["id"],
        "entity_type": "invoice",
        "instance_id": flow["id"],
        "request_id": moved["instance"]["steps"][0]["request_id"],
    }


@pytest.mark.parametrize("operation", PAGED, ids=str)
async def test_a_hostile_cursor_is_a_problem_of_the_sender(people, there, operation):
    sorts = ["age", "due", "figure"] if operation.path == "/api/inbox" else [None]
    for who in ("adam", "alice"):
        async with people(who) as client:
            for cursor in [*TEXTS, *map(cursor_of, POSITIONS)]:
                for sort in sorts:
                    query = {"cursor": cursor, **({"sort": sort} if sort else {})}
                    answer = await client.get(operation.url(**there), params=query)
                    # Some of them may have been given for some list.
                    assert answer.status_code in (200, 403, 422), (cursor, answer.text)
                    if answer.status_code == 422:
                        assert answer.json()["code"] in ("BAD_CURSOR", "INVALID_REQUEST")


async def test_every_list_refuses_what_is_no_cursor(people, there):
    found = {}
    for operation in PAGED:
        for who in ("adam", "alice"):
            async with people(who) as client:
                answer = await client.get(operation.url(**there), params={"cursor": cursor_of({"a": 1})})
                found[str(operation), who] = answer.status_code
    assert set(found.values()) <= {403, 422}, found


async def test_a_page_of_large_items_ends_early_and_nothing_is_left_out(people):
    async with people("alice") as client:
        made = set()
        for number in range(8):
            note = "x" * (PAGE_BYTES_MAX // 3)
            data = {"title": f"T{number}", "total": number, "note": note}
            answer = await client.post("/api/entities/expense", json={"data": data})
            assert answer.status_code == 201, answer.text
            made.add(answer.json()["id"])
        seen, cursor, pages = [], "", 0
        while cursor is not None:
            answer = await client.get(f"/api/entities/expense?limit=200{cursor}")
            assert len(answer.content) < 2 * PAGE_BYTES_MAX
            page = answer.json()
            seen += [item["id"] for item in page["items"]]
            cursor, pages = page["next"] and f"&cursor={page['next']}", pages + 1
            assert page["items"] or cursor is None
    assert sorted(seen) == sorted(made)
    assert 3 <= pages <= 4


async def test_content_that_a_page_does_not_show_is_not_read(people, furnished, monkeypatch):
    monkeypatch.setattr(entities, "ROWS_BYTES_MAX", 1_000)
    monkeypatch.setattr(listing, "ROWS_BYTES_MAX", 1_000)
    async with people("alice") as client:
        for number in range(5):
            data = {"title": f"T{number}", "total": number, "note": "x" * 600}
            made = (await client.post("/api/entities/expense", json={"data": data})).json()
            change = {"data": {"note": "y" * (600 + number)}}
            path = f"/api/entities/expense/{made['id']}"
            assert (await client.patch(path, json=change, headers={"If-Match": "*"})).status_code == 200
    async with furnished.transaction("acme") as connection:
        wanted = await listing.resolve(connection, app.registry.contracts["expense"], EntityFilter())
        search = listing.EntitySearch("acme", "expense", None, wanted)
        listed = await listing.list_entities(connection, search, None, 10)
        assert (len(listed.items), listed.next is None) == (2, False)
        versions = await entities.list_versions(connection, "acme", UUID(made["id"]), None, 10)
        assert (len(versions.items), versions.next is None) == (2, False)


class Item(BaseModel):
    id: int
    text: str


@pytest.mark.parametrize(
    "sizes", [[PAGE_BYTES_MAX * 2] * 3, [1, PAGE_BYTES_MAX * 2, 1], [1] * 3, [PAGE_BYTES_MAX]]
)
def test_one_item_larger_than_a_page_is_a_page(sizes):
    rows = [Item(id=number, text="x" * size) for number, size in enumerate(sizes)]
    seen, after = [], 0
    for _ in range(len(rows) + 1):
        page = json.loads(page_of(rows[after:][:3], 2, lambda row: row, lambda row: row.id).body)
        seen += [item["id"] for item in page["items"]]
        if page["next"] is None:
            break
        after = position_of(page["next"], integer_in) + 1
    assert seen == [row.id for row in rows]


async def test_parameter_that_a_route_does_not_have_is_refused(people):
    """A misspelled filter would otherwise show everything."""
    async with people("adam") as client:
        for operation in OPERATIONS:
            if operation.is_signed_in and operation.path != "/metrics":
                url, sent = operation.url(), {"stauts": "running"}
                refused = problem(await client.request(operation.method, url, params=sent), 422)
                assert (refused["code"], refused["detail"]) == (
                    "UNKNOWN_KEY",
                    "`stauts` is not a parameter here",
                )


async def test_refused_parameter_names_the_one_that_was_meant(people):
    async with people("adam") as client:
        refused = problem(await client.get("/api/instances", params={"stauts": "running"}), 422)
    assert refused["hint"] == "did you mean `status`?"
