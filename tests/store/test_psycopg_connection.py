"""A connection of psycopg gives and takes the same values, and raises the same errors, as one of asyncpg."""

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest

from assent.store.connection import Json
from assent.store.database import Database
from assent.store.psycopg_connection import PsycopgConnection

ID = UUID("0192f0c5-0000-7000-8000-000000000001")
VALUES: list[tuple[str, Any]] = [
    ("text", 'a "b" \\ c, {d} ü €'),
    ("text", ""),
    ("text", None),
    ("name", "a_name"),
    ("boolean", True),
    ("boolean", False),
    ("smallint", -7),
    ("integer", 2**31 - 1),
    ("bigint", -(2**63)),
    ("double precision", 0.1),
    ("double precision", float("inf")),
    ("numeric", Decimal("12345678901234567890.123456789")),
    ("uuid", ID),
    ("uuid", str(ID)),
    ("bytea", b"\x00\x01\\x\xff"),
    ("timestamptz", datetime(2026, 3, 1, 12, 0, 0, 123456, UTC)),
    ("timestamptz", datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=30)))),
    ("date", date(2026, 2, 28)),
    ("interval", timedelta(days=-3, seconds=5, microseconds=7)),
    ("jsonb", {"a": [1, 2.5, None, 'ü\\"', {"b": True}], "c": str(ID)}),
    ("jsonb", ["a", 1]),
    ("jsonb", "a text"),
    ("jsonb", 7),
    ("jsonb", Json(None)),
    ("json", {"a": ID}),
    ("text[]", ["a", 'b"\\', "", None, "NULL", "{}", "a,b", " x "]),
    ("text[]", []),
    ("text[]", ("a", "b")),
    ("uuid[]", [ID, None, ID]),
    ("integer[]", [1, None, -1]),
    ("bigint[]", [2**40]),
    ("boolean[]", [True, None, False]),
    ("bytea[]", [b"\x00\xff", b""]),
    ("timestamptz[]", [datetime(2026, 3, 1, tzinfo=UTC), None]),
    ("interval[]", [timedelta(seconds=90)]),
    ("numeric[]", [Decimal("1.50")]),
    ("jsonb[]", [Json({"a": 'b"'}), Json(["x"]), None, Json(None), Json("t")]),
]
WRONG: list[tuple[str, Any]] = [
    ("text", 7),
    ("text", "a \0 b"),
    ("text", "\ud800"),
    ("text[]", ["a \0 b"]),
    ("text[]", "abc"),
    ("text[]", [7]),
    ("jsonb", {"a": object()}),
    ("integer", "seven"),
    ("integer", 2**31),
    ("uuid", "no id"),
]


@pytest.fixture
async def both(database: Database) -> AsyncIterator[tuple[Any, PsycopgConnection]]:
    """A connection of ours, and one of psycopg, each in a transaction."""
    async with (
        database.transaction(None) as ours,
        await psycopg.AsyncConnection.connect(database.url) as theirs,
    ):
        connection = PsycopgConnection(theirs)
        await connection.begin_if_automatic()
        yield ours, connection


@pytest.mark.parametrize(("kind", "value"), VALUES)
async def test_a_value_is_written_and_read_as_by_asyncpg(both: Any, kind: str, value: Any) -> None:
    ours, theirs = both
    sql = f"SELECT $1::{kind} AS value, pg_typeof($1::{kind})::text AS kind, $1::{kind}::text AS written"
    expected = await ours.fetchrow(sql, value)
    for _ in range(2):  # the second time, its types are known
        found = await theirs.fetchrow(sql, value)
        assert tuple(found) == tuple(expected)
        assert type(found["value"]) is type(expected["value"]) or isinstance(expected["value"], UUID)


@pytest.mark.parametrize(("kind", "value"), WRONG)
async def test_a_value_that_does_not_fit_is_an_error_of_data(both: Any, kind: str, value: Any) -> None:
    for connection in both:
        with pytest.raises((asyncpg.DataError, asyncpg.CharacterNotInRepertoireError)):
            async with connection.transaction():
                await connection.fetchval(f"SELECT $1::{kind}", value)
        assert await connection.fetchval("SELECT 1") == 1


async def test_rows_are_those_of_asyncpg(both: Any) -> None:
    found = []
    for connection in both:
        (row,) = await connection.fetch("SELECT 1 AS a, 'b'::text AS b, NULL AS c")
        a, b, c = row
        found.append((a, b, c, dict(row), row["a"], row[1], len(row), list(row.keys()), list(row.values())))
        found[-1] += (list(row.items()), "a" in row, "z" in row, row.get("b"), row.get("z"), {**row})
        with pytest.raises(KeyError):
            row["z"]
    assert found[0] == found[1]


async def test_rows_of_tables_and_labels_are_read(both: Any) -> None:
    found = []
    for connection in both:
        await connection.execute("CREATE TEMPORARY TABLE t (a integer, dropped text, b jsonb, c text[])")
        await connection.execute("ALTER TABLE t DROP COLUMN dropped; CREATE TYPE pg_temp.label AS ENUM ('x')")
        await connection.executemany(
            "INSERT INTO t VALUES ($1, $2, $3)", [(1, {"d": [1]}, ["e", None]), (2, None, [])]
        )
        row = await connection.fetchrow(
            "SELECT ARRAY(SELECT t FROM t ORDER BY a) AS all, ARRAY(SELECT t FROM t WHERE a = 3) AS none,"
            " (SELECT t FROM t WHERE a = 2) AS one, 'x'::pg_temp.label AS label"
        )
        found.append([dict(each) for each in row["all"]] + [row["none"], dict(row["one"]), row["label"]])
    assert (
        found[0]
        == found[1]
        == [
            {"a": 1, "b": {"d": [1]}, "c": ["e", None]},
            {"a": 2, "b": None, "c": []},
            [],
            {"a": 2, "b": None, "c": []},
            "x",
        ]
    )


async def test_errors_are_those_of_asyncpg(both: Any) -> None:
    statements = ["SELECT 1/0", "SELECT * FROM nowhere", "SELEC", "INSERT INTO assent.orgs VALUES (NULL)"]
    for statement in statements:
        errors = []
        for connection in both:
            with pytest.raises(asyncpg.PostgresError) as caught:
                async with connection.transaction():
                    await connection.fetch(statement)
            error = caught.value
            errors.append((type(error), error.sqlstate, error.args, error.table_name, error.severity_en))
        assert errors[0] == errors[1]


async def test_savepoints_nest(both: Any) -> None:
    for connection in both:
        await connection.execute("CREATE TEMPORARY TABLE n (a integer)")
        async with connection.transaction():
            await connection.execute("INSERT INTO n VALUES (1)")
            with pytest.raises(ZeroDivisionError):  # noqa: PT012
                async with connection.transaction():
                    await connection.execute("INSERT INTO n VALUES (2)")
                    async with connection.transaction():
                        await connection.execute("INSERT INTO n VALUES (3)")
                    raise ZeroDivisionError
            assert await connection.execute("INSERT INTO n VALUES ($1)", 4) == "INSERT 0 1"
        assert [row["a"] for row in await connection.fetch("SELECT a FROM n")] == [1, 4]


async def test_adapters_and_row_factories_of_the_application_change_nothing(database: Database) -> None:
    async with await psycopg.AsyncConnection.connect(
        database.url, row_factory=psycopg.rows.dict_row
    ) as theirs:
        psycopg.types.json.set_json_loads(lambda data: "the application's", theirs)
        await theirs.execute(
            "SET DateStyle = 'German'; SET TimeZone = 'Asia/Tokyo'; SET bytea_output = 'escape'"
        )
        connection = PsycopgConnection(theirs)
        moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
        row = await connection.fetchrow(
            "SELECT $1::jsonb, $2::timestamptz, $3::bytea", {"a": 1}, moment, b"\xff"
        )
        assert list(row) == [{"a": 1}, moment, b"\xff"]
        assert row[1].utcoffset() == timedelta(0)


async def test_a_connection_that_ended_is_an_error_that_means_it(both: Any) -> None:
    ours, theirs = both
    pid = await theirs.fetchval("SELECT pg_backend_pid()")
    await ours.fetchval("SELECT pg_terminate_backend($1)", pid)
    with pytest.raises((asyncpg.InterfaceError, asyncpg.PostgresError)):
        await theirs.fetchval("SELECT 1")
    with pytest.raises(asyncpg.InterfaceError):
        await theirs.fetchval("SELECT 1")
