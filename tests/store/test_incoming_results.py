"""Results that programs insert into a table: they go the way of `push_result`, in sets, and no row stays."""

import asyncio
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

from assent.store.connection import connect
from assent.store.database import Database
from tests.plain_sql import PRIVILEGE, refused
from tests.postgres import SETTINGS, START
from tests.requests.bundles import BAD_BUNDLES, BUNDLES
from tests.rows import insert_document_version, insert_outside_request

BAD, MISSING = "22023", "P0002"
ROW = "INSERT INTO assent.incoming_results (request_id, key, status, items, error) VALUES ($1, $2, $3, $4::jsonb, $5)"
ONE = "INSERT INTO assent.incoming_results (request_id, key, cargo, kind) VALUES ($1, $2, $3, $4)"
KEPT = """
SELECT d.key, d.source, d.late, j.status, j.lane, h.body, h.payload
  FROM assent.outside_request_deliveries d JOIN assent.jobs j USING (org_id, id)
  JOIN assent.outside_request_history h USING (org_id, id) WHERE d.org_id = 'acme' ORDER BY d.position
"""


@pytest.fixture
async def owner(database):
    """The owner's connection: each statement is a transaction."""
    connection = await connect(database.url, SETTINGS)
    yield connection
    await connection.close()


@pytest.fixture
async def client_of(database, login):
    """Opens a transaction of a program that has joined the client's role, for one org or none."""
    parts = urlsplit(database.url)
    netloc = f"{login}@{parts.netloc.rpartition('@')[2]}"
    connection = await connect(urlunsplit(parts._replace(netloc=netloc)), SETTINGS)

    @asynccontextmanager
    async def transaction(org_id):
        async with connection.transaction():
            await connection.execute("SELECT set_config('assent.org_id', $1, true)", org_id or "")
            yield connection

    yield transaction
    await connection.close()


async def insert(connection, request_id, **given):
    row = {"key": "k", "status": "completed", "items": None, "error": None} | given
    await connection.execute(ROW, request_id, *(row[name] for name in ("key", "status", "items", "error")))


async def left(owner):
    return await owner.fetchval("SELECT count(*) FROM assent.incoming_results")


async def test_inserted_rows_are_taken_as_results_and_none_stays(owner, client_of):
    request = await insert_outside_request(owner)
    async with client_of("acme") as program:
        await program.execute(ONE, request["id"], "a", "external://vault/1", "passport")
        await insert(program, request["id"], key="b", items=[{"cargo": "external://vault/2"}])
        await insert(program, request["id"], key="c", status="failed", error="no such client")
        await program.execute(
            "INSERT INTO assent.incoming_results (request_id, key, cargo, payload) VALUES ($1, 'd', $2, $3)",
            *(request["id"], "external://vault/3", {"raw": "<xml/>"}),
        )
        await program.execute(ONE, request["id"], "a", "external://vault/9", None)
    kept = [dict(row) for row in await owner.fetch(KEPT)]
    assert [(row["key"], row["source"], row["status"], row["lane"]) for row in kept] == [
        (key, "table", "queued", "kyc.vendor") for key in "abcd"
    ]
    assert kept[0]["body"]["items"] == [
        {"cargo": "external://vault/1", "kind": "passport", "status": "completed"}
    ]
    assert (kept[2]["body"]["status"], kept[2]["body"]["items"]) == ("failed", [])
    assert [row["payload"] for row in kept] == [None, None, None, {"raw": "<xml/>"}]
    assert await left(owner) == 0


async def test_result_for_request_that_has_ended_is_kept_as_late(owner, client_of):
    request = await insert_outside_request(owner, status="cancelled", ended_at=START)
    async with client_of("acme") as program:
        await program.execute(ONE, request["id"], "a", "external://vault/1", None)
    (row,) = await owner.fetch(KEPT)
    assert (row["late"], row["status"]) == (True, "queued")  # its documents may count still


@pytest.mark.parametrize("bundle", BAD_BUNDLES)
async def test_bad_row_is_refused_at_once_in_the_words_of_the_function(owner, client_of, bundle):
    request = await insert_outside_request(owner)
    given = {"status": "completed", "error": None} | bundle
    async with client_of("acme") as program:
        said = []
        for sql in ("SELECT assent.push_result($1, $2, $4::jsonb, $3, $5)", ROW):
            with pytest.raises(asyncpg.InvalidParameterValueError) as caught:
                async with program.transaction():
                    await program.execute(
                        sql, request["id"], *(given[name] for name in ("key", "status", "items", "error"))
                    )
            said.append(str(caught.value).partition("\n")[0])
    # An absent list is a result without items here: the row may have a cargo instead.
    assert said[0] == said[1] or given["items"] is None
    assert await left(owner) == 0


@pytest.mark.parametrize("bundle", BUNDLES)
async def test_good_row_is_kept_as_it_was_inserted(owner, client_of, bundle):
    request = await insert_outside_request(owner)
    async with client_of("acme") as program:
        await insert(program, request["id"], **bundle)
    (row,) = await owner.fetch(KEPT)
    assert row["body"] == {"status": "completed", "error": None} | bundle


@pytest.mark.parametrize("org_id", ["globex", "acme"])
async def test_request_that_is_not_there_is_refused_by_its_id(owner, client_of, org_id):
    request = await insert_outside_request(owner)
    wanted = request["id"] if org_id == "globex" else uuid4()
    async with client_of(org_id) as program, refused(program, MISSING, saying=f"no request {wanted}"):
        await program.execute(ONE, wanted, "a", "external://vault/1", None)


async def test_version_that_is_not_there_is_refused_by_its_id(owner, client_of):
    request, version = await insert_outside_request(owner), uuid4()
    async with client_of("acme") as program, refused(program, MISSING, saying=f"no version {version}"):
        await program.execute(ONE, request["id"], "a", f"version://assent/{version}", None)
    known = await insert_document_version(owner)
    async with client_of("acme") as program:
        await program.execute(ONE, request["id"], "a", f"version://assent/{known['id']}", None)


async def test_row_has_items_or_the_cargo_of_its_one_item(owner, client_of):
    request = await insert_outside_request(owner)
    sql = "INSERT INTO assent.incoming_results (request_id, key, cargo, items) VALUES ($1, 'k', $2, '[]')"
    async with client_of("acme") as program, refused(program, BAD, saying="and not both"):
        await program.execute(sql, request["id"], "external://vault/1")


async def test_result_of_no_org_is_refused_with_what_to_do(owner, client_of):
    request = await insert_outside_request(owner)
    async with client_of(None) as program, refused(program, BAD, saying="a result needs an org"):
        await program.execute(ONE, request["id"], "a", "external://vault/1", None)


async def test_client_inserts_for_its_own_org_and_reads_nothing_back(owner, client_of):
    request = await insert_outside_request(owner, org_id="globex")
    sql = (
        "INSERT INTO assent.incoming_results (org_id, request_id, key, cargo) VALUES ('globex', $1, 'k', $2)"
    )
    async with client_of("acme") as program:
        async with refused(program, PRIVILEGE, saying="row-level security policy"):
            await program.execute(sql, request["id"], "external://vault/1")
        async with refused(program, PRIVILEGE, saying="permission denied"):
            await program.execute(f"{ONE} RETURNING key", request["id"], "a", "external://vault/1", None)
        async with refused(program, PRIVILEGE, saying="permission denied"):
            await program.fetch("SELECT * FROM assent.incoming_results")


async def test_owner_inserts_for_several_orgs_at_once(owner):
    requests = [await insert_outside_request(owner, org_id=org) for org in ("acme", "globex")]
    await owner.execute(
        "INSERT INTO assent.incoming_results (org_id, request_id, key, cargo) "
        "SELECT r.org_id, r.id, 'k', 'external://vault/1' FROM assent.outside_requests r WHERE r.org_id <> 'aatwin'"
    )
    found = await owner.fetch(
        "SELECT org_id, request_id FROM assent.outside_request_deliveries WHERE org_id <> 'aatwin'"
    )
    assert {tuple(row) for row in found} == {(one["org_id"], one["id"]) for one in requests}


async def test_one_bad_row_of_many_is_named_and_none_is_taken(owner, client_of):
    request = await insert_outside_request(owner)
    sql = (
        "INSERT INTO assent.incoming_results (request_id, key, cargo) "
        "SELECT $1, 'k' || g, CASE g WHEN 7 THEN 'passport.pdf' ELSE 'external://vault/' || g END "
        "FROM generate_series(1, 9) g"
    )
    async with client_of("acme") as program:
        with pytest.raises(asyncpg.InvalidParameterValueError, match="the cargo of an item is") as caught:
            async with program.transaction():
                await program.execute(sql, request["id"])
    assert caught.value.detail == f"Found in the row for request {request['id']} with the key 'k7'."
    assert await owner.fetch(KEPT) == []


async def test_owner_copies_rows_in(owner):
    """Row security leaves COPY to the owner; PostgreSQL tells others to insert."""
    request = await insert_outside_request(owner)
    rows = [("acme", request["id"], f"k{n}", f"external://vault/{n}") for n in range(300)]
    columns = ["org_id", "request_id", "key", "cargo"]
    await owner.copy_records_to_table("incoming_results", schema_name="assent", records=rows, columns=columns)
    assert [row["key"] for row in await owner.fetch(KEPT)] == [f"k{n}" for n in range(300)]


async def test_workers_are_notified_once_and_only_of_what_is_to_be_folded(database: Database):
    async with database.transaction(None) as connection:
        request = await insert_outside_request(connection)
    listener = await connect(database.url, SETTINGS)
    heard: list[str] = []
    await listener.add_listener("assent_results", lambda *said: heard.append(said[-1]))
    for key in ("a", "a"):
        async with database.transaction(None) as connection:
            await connection.execute("SELECT set_config('assent.org_id', 'acme', true)")
            for number in range(3):
                await connection.execute(ONE, request["id"], f"{key}{number}", "external://vault/1", None)
    async with database.transaction(None) as connection:
        await connection.execute("NOTIFY assent_results, 'last'")
    async with asyncio.timeout(10):
        while "last" not in heard:
            await listener.fetchval("SELECT 1")
    await listener.close()
    assert heard == ["", "last"]


async def test_two_programs_with_the_same_keys_in_other_orders_do_not_deadlock(database: Database):
    async with database.transaction(None) as connection:
        request = await insert_outside_request(connection)
    sql = (
        "INSERT INTO assent.incoming_results (org_id, request_id, key, cargo) "
        "SELECT 'acme', $1, 'k' || g, 'external://vault/' || g FROM generate_series($2::int, $3::int, $4::int) g"
    )

    async def program(*series: int) -> None:
        async with database.transaction(None) as connection:
            await connection.execute(sql, request["id"], *series)

    await asyncio.gather(*(program(*series) for _ in range(4) for series in ((1, 400, 1), (400, 1, -1))))
    async with database.transaction(None) as connection:
        keys = await connection.fetch(
            "SELECT key FROM assent.outside_request_deliveries WHERE org_id = 'acme' AND request_id = $1",
            request["id"],
        )
    assert sorted(row["key"] for row in keys) == sorted(f"k{n}" for n in range(1, 401))
