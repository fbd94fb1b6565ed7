"""Opening a database: what is understood, what is refused and how, and that it comes back after an outage."""

import asyncpg
import pytest

from assent.store.connection import Json, json_array
from assent.store.database import Database
from assent.store.errors import StoreError
from assent.store.settings import Settings

VALUES = [None, True, 0, -1, 2**53 - 1, 1.5, "", "é€😀", [], {}, {"a": [1, {"b": None}], "": ""}]


@pytest.mark.parametrize("kind", ["json", "jsonb"])
async def test_json_goes_in_and_comes_out_unchanged(database, kind):
    async with database.transaction("acme") as connection:
        for value in VALUES:
            assert await connection.fetchval(f"select $1::{kind}", value) == value
        assert await connection.fetchval(f"select $1::{kind}[]", json_array(VALUES)) == VALUES


async def test_json_null_and_sql_null_are_two_things(database):
    async with database.transaction("acme") as connection:
        assert await connection.fetchval("select jsonb_typeof($1)", Json(None)) == "null"
        assert await connection.fetchval("select $1::jsonb is null", None) is True


async def test_times_are_in_utc_and_limits_are_those_of_the_settings(database_url):
    settings = Settings(statement_timeout_ms=1234, lock_timeout_ms=567, idle_in_transaction_timeout_ms=8901)
    database = await Database.open(database_url, settings=settings)
    async with database.transaction(None) as connection:
        names = ("timezone", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
        found = [await connection.fetchval("select current_setting($1)", name) for name in names]
    await database.close()
    assert found == ["UTC", "1234ms", "567ms", "8901ms"]


async def test_a_server_that_is_too_old_is_refused(database_url, monkeypatch):
    monkeypatch.setattr("assent.store.connection.SERVER_VERSION_MIN", 99)
    with pytest.raises(StoreError, match="needs PostgreSQL 99 or newer, this server is version 1"):
        await Database.open(database_url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://someone:secret@127.0.0.1:1/nothing",
        "postgresql://someone:secret@/nothing?host=/no/such/folder",
        "postgresql://someone:secret@127.0.0.1:port/nothing",
    ],
)
async def test_a_server_that_cannot_be_reached_is_named_without_its_password(url):
    with pytest.raises(StoreError, match=r"Cannot connect to the database at .*/nothing") as caught:
        await Database.open(url, settings=Settings(connect_timeout_ms=2_000))
    assert "secret" not in str(caught.value)


async def test_a_database_that_is_not_there_is_told(database_url):
    with pytest.raises(StoreError, match="does not exist"):
        await Database.open(database_url.replace("/test_", "/no_such_", 1))


async def test_waiting_for_a_connection_has_an_end(database_url):
    settings = Settings(pool_connections_max=1, pool_wait_timeout_ms=1)
    database = await Database.open(database_url, settings=settings)
    async with database.transaction(None):
        with pytest.raises(StoreError, match=r"All 1 connections were busy for 0\.001 s"):
            async with database.transaction(None):
                raise AssertionError("entered")
    await database.close()


async def test_connections_that_were_cut_are_replaced(database):
    async with database.transaction(None) as connection:
        victim = connection.get_server_pid()
    admin = await asyncpg.connect(database.url)
    assert await admin.fetchval("select pg_terminate_backend($1, 5000)", victim)
    await admin.close()
    async with database.transaction(None) as connection:
        assert connection.get_server_pid() != victim
