"""Requests in the database: they stay as they were asked, and a key and a cargo are taken once for ever."""

from uuid import uuid4

import asyncpg
import pytest

from tests.plain_sql import APPEND_ONLY, IDENTITY, acting_for, refused
from tests.postgres import START
from tests.rows import (
    delete,
    insert_delivery,
    insert_document_version,
    insert_item,
    insert_outside_request,
    update,
)

ID = "0f0e0d0c-0b0a-4908-8706-050403020100"
PUSH = "SELECT assent.push_result($1, $2, $3::jsonb, $4, $5)"


@pytest.mark.parametrize(
    "change", [{"expected": 1}, {"name": "other"}, {"instance_id": uuid4()}, {"expires_at": START}]
)
async def test_what_a_request_asks_never_changes(owner, change):
    request = await insert_outside_request(owner)
    async with refused(owner, IDENTITY, saying="keeps what it asks"):
        await update(owner, "outside_requests", request, **change)


async def test_what_was_received_stays_received_and_what_ended_stays_as_it_is(owner):
    request = await insert_outside_request(owner, received=1, failed=1, status="partial")
    async with refused(owner, IDENTITY, saying="stays received"):
        await update(owner, "outside_requests", request, failed=0)
    await update(owner, "outside_requests", request, status="failed", ended_at=START)
    async with refused(owner, IDENTITY, saying="stays as it is"):
        await update(owner, "outside_requests", request, error="another")


async def test_a_delivery_is_never_deleted(owner):
    delivery = await insert_delivery(owner, status="done")
    for door in ("", "prune"):
        await owner.execute("SELECT set_config('assent.door', $1, true)", door)
        async with refused(
            owner, APPEND_ONLY, saying="outside_request_deliveries is append-only: DELETE is refused"
        ):
            await delete(owner, "outside_request_deliveries", delivery)
        async with refused(owner, APPEND_ONLY, saying="append-only: TRUNCATE is refused"):
            await owner.execute("TRUNCATE assent.outside_request_deliveries CASCADE")


@pytest.mark.parametrize("change", [{"key": "other"}, {"source": "sql"}, {"request_id": uuid4()}])
async def test_what_a_delivery_is_never_changes(owner, change):
    delivery = await insert_delivery(owner)
    async with refused(owner, IDENTITY, saying="keeps its key"):
        await update(owner, "outside_request_deliveries", delivery, **change)


async def test_items_without_cargo_are_as_many_as_were_told(owner):
    item = await insert_item(owner, cargo=None, status="failed")
    same = {"request_id": item["request_id"], "delivery_id": item["delivery_id"]}
    assert (await insert_item(owner, cargo=None, status="failed", **same))["id"] != item["id"]


async def push(connection, request_id, key="k", items=None):
    given = [{"cargo": f"external://vault/{ID}"}] if items is None else items
    return await connection.fetchval(PUSH, request_id, key, given, "completed", None)


async def test_a_result_from_sql_is_kept_with_its_bundle_and_once(owner):
    request = await insert_outside_request(owner)
    async with acting_for(owner, "acme"):
        pushed = [await push(owner, request["id"], key) for key in ("a", "a", "b")]
    assert pushed == ["accepted", "repeated", "accepted"]
    kept = await owner.fetch(
        "SELECT * FROM assent.outside_request_deliveries JOIN assent.jobs USING (org_id, id) ORDER BY key"
    )
    assert [(row["key"], row["status"], row["source"], row["late"]) for row in kept] == [
        ("a", "queued", "sql", False),
        ("b", "queued", "sql", False),
    ]
    bodies = dict(await owner.fetch("SELECT id, body FROM assent.outside_request_history"))
    assert bodies[kept[0]["id"]] == {
        "key": "a",
        "status": "completed",
        "items": [{"cargo": f"external://vault/{ID}"}],
        "error": None,
    }


async def test_a_result_for_a_request_that_has_ended_is_kept_as_late(owner):
    request = await insert_outside_request(owner, status="cancelled", ended_at=START)
    async with acting_for(owner, "acme"):
        assert [await push(owner, request["id"]) for _ in range(2)] == ["late", "repeated"]
    (kept,) = await owner.fetch(
        "SELECT * FROM assent.outside_request_deliveries JOIN assent.jobs USING (org_id, id)"
    )
    # A worker folds it: its documents may count still.
    assert (kept["status"], kept["late"], kept["ended_at"]) == ("queued", True, None)
    assert await owner.fetchval("SELECT count(*) FROM assent.outside_request_history") == 1


@pytest.mark.parametrize("org_id", ["globex", "acme"])
async def test_another_orgs_request_is_not_there_for_sql_either(owner, org_id):
    request = await insert_outside_request(owner)
    wanted = request["id"] if org_id == "globex" else uuid4()
    async with acting_for(owner, org_id), refused(owner, "P0002", saying=f"no request {wanted}"):
        await push(owner, wanted)
    assert await owner.fetchval("SELECT count(*) FROM assent.outside_request_deliveries") == 0


async def test_a_result_without_an_org_is_refused(owner):
    request = await insert_outside_request(owner)
    async with acting_for(owner, None), refused(owner, "22023", saying="a result needs an org"):
        await push(owner, request["id"])


async def test_the_function_is_called_by_name_and_with_what_it_assumes(owner):
    request = await insert_outside_request(owner)
    sql = "SELECT assent.push_result(request_id => $1, key => 'k', items => $2::jsonb)"
    async with acting_for(owner, "acme"):
        assert await owner.fetchval(sql, request["id"], [{"cargo": "external://vault/7"}]) == "accepted"


async def test_a_bad_bundle_is_refused_with_what_was_expected(owner):
    request = await insert_outside_request(owner)
    async with acting_for(owner, "acme"):
        with pytest.raises(asyncpg.InvalidParameterValueError, match="a completed item points to its cargo"):
            async with owner.transaction():
                await push(owner, request["id"], items=[{"kind": "passport"}])


async def test_result_that_points_to_no_version_is_refused_for_sql_too(owner):
    request = await insert_outside_request(owner)
    unknown = [{"cargo": f"version://assent/{ID}"}]
    async with acting_for(owner, "acme"), refused(owner, "P0002", saying="a version that is not there"):
        await push(owner, request["id"], items=unknown)
    version = await insert_document_version(owner)
    known = [{"cargo": f"version://assent/{version['id']}"}]
    async with acting_for(owner, "acme"):
        assert await push(owner, request["id"], items=known) == "accepted"
