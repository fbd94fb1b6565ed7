"""Lists and counts of entities look at a bounded number of rows, however many entities an org has."""

import json
import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from assent.kernel import listing
from assent.store.connection import Connection
from assent.store.database import Database
from assent.store.queries import load_queries
from tests.postgres import START

KERNEL = load_queries("assent.kernel", "kernel.sql")
ORG, TYPE, ENTITIES = "large", "bill", 20_000
LIMIT = 51
FIRST, LAST = UUID(int=0), UUID(int=2**128 - 1)
ALWAYS = (START - timedelta(days=400), START + timedelta(days=400))
END = (START + timedelta(days=400), LAST)
BEGIN = (START - timedelta(days=400), FIRST)
EVERY = "\U0010ffff"

POPULATE = """
WITH made AS MATERIALIZED (
  SELECT org, n, assent.new_id() AS id, $2::timestamptz - n * interval '1 second' AS at,
         CASE WHEN n % 100 = 0 THEN 'rare' WHEN n < $1 / 2 THEN 'new' ELSE 'old' END AS state
    FROM unnest('{large,other,zlast}'::text[]) AS org CROSS JOIN generate_series(1, $1) AS n
   WHERE org = 'large' OR n <= 500
), heads AS (
  INSERT INTO assent.entities (org_id, id, entity_type, contract_version, partition_id, state, version, data_hash,
         content_hash, edit_window, created_at, updated_at)
  SELECT org, id, 'bill', 1, CASE WHEN n % 2 = 0 THEN 'north' END, state, 1, 'h', 'h', 'editable', at, at FROM made
), contents AS (
  INSERT INTO assent.entity_versions (org_id, id, entity_id, version, entity_type, state, data, data_hash, created_at,
         created_by)
  SELECT org, assent.new_id(), id, 1, 'bill', state, '{}', 'h', at, CASE WHEN n % 50 = 0 THEN 'bea' ELSE 'ann' END
    FROM made
)
INSERT INTO assent.indexed_values (org_id, entity_type, field, value, created_at, entity_id)
SELECT org, 'bill', field, value, at, id FROM made CROSS JOIN LATERAL (VALUES
  ('total', lpad((n * 7919 % 100000)::text, 8, '0')),
  ('currency', CASE n % 3 WHEN 0 THEN 'eur' WHEN 1 THEN 'usd' ELSE '' END),
  ('*', 'rent'), ('*', 'word' || n % 1000)) AS v (field, value)
"""


@pytest.fixture
async def populated(database: Database) -> Database:
    async with database.transaction(None) as connection:
        await connection.execute("SELECT set_config('assent.door', 'mutate', true)")
        await connection.execute(POPULATE, ENTITIES, START)
    async with database.transaction(None) as connection:
        await connection.execute("ANALYZE assent.entities, assent.entity_versions, assent.indexed_values")
    return database


async def rows_read(connection: Connection, sql: str, *given: Any) -> tuple[int, str]:
    (row,) = await connection.fetch(f"EXPLAIN (ANALYZE, TIMING off, FORMAT json) {sql}", *given)
    found = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return round(_read(found[0]["Plan"])), json.dumps(found, indent=1)


def _read(plan: dict[str, Any]) -> float:
    """Return how many rows scans of tables and indexes looked at, those that a filter removed among them."""
    own = 0.0
    if re.search(r"^(Seq|Index|Index Only|Bitmap Heap) Scan$", plan["Node Type"]):
        removed = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        own = (plan["Actual Rows"] + removed) * plan["Actual Loops"]
    return own + sum(_read(part) for part in plan.get("Plans", []))


PAGES: dict[str, tuple[Any, ...]] = {
    "page_by_created": (*ALWAYS, "place", LIMIT),
    "page_by_updated": (*ALWAYS, "place", LIMIT),
    "page_of_states": (*ALWAYS, "place", LIMIT, ["rare", "old"]),
    "page_of_partition": (*ALWAYS, "place", LIMIT, "north"),
    "page_of_creator": (*ALWAYS, "place", LIMIT, "bea"),
    "page_of_values": (*ALWAYS, "place", LIMIT, "currency", ["eur", ""]),
    "page_by_value": ("total", "", EVERY, "value", "place", LIMIT),
}


@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
async def test_a_page_in_any_order_reads_no_more_than_it_shows(populated: Database, plans: str) -> None:
    deep = START - timedelta(seconds=ENTITIES // 2)
    read = {}
    async with populated.transaction(ORG) as connection:
        await connection.execute(f"SET LOCAL plan_cache_mode = {plans}")
        for name, arguments in PAGES.items():
            for direction, ends in (("desc", (END, (deep, LAST))), ("asc", (BEGIN, (deep, FIRST)))):
                for place in ends:
                    value = {"desc": EVERY, "asc": ""}[direction] if place in (END, BEGIN) else "00050000"
                    given = [
                        one
                        for each in arguments
                        for one in (place if each == "place" else [value] if each == "value" else [each])
                    ]
                    sql = getattr(KERNEL, f"{name}_{direction}")
                    read[name, direction, place in (END, BEGIN)] = await rows_read(
                        connection, sql, ORG, TYPE, *given
                    )
    # Twice for a list of two values; a statement that finds nothing would be flat too.
    wrong = {key: rows for key, (rows, _) in read.items() if not LIMIT <= rows <= 2 * LIMIT + 4}
    assert wrong == {}, read[next(iter(wrong))][1]


async def test_counting_candidates_reads_no_more_of_each_condition_than_its_limit(
    populated: Database,
) -> None:
    limit = listing.GATHERED_MAX + 1
    conditions = [
        {"n": 0, "field": "currency", "lows": ["eur"], "highs": ["eur\x01"]},
        {"n": 1, "field": "*", "lows": ["rent"], "highs": ["rent\x01"]},
        {"n": 2, "field": "total", "lows": ["0"], "highs": [EVERY]},
    ]
    head = (["old"], "north", "ann", *ALWAYS, ALWAYS[0], ALWAYS[1])
    async with populated.transaction(ORG) as connection:
        rows, plan = await rows_read(connection, KERNEL.count_candidates, ORG, TYPE, conditions, limit, *head)
    assert 3 * limit <= rows <= 8 * limit, plan


async def test_checking_candidates_looks_each_up_by_its_key(populated: Database) -> None:
    async with populated.transaction(ORG) as connection:
        found = await connection.fetch(
            KERNEL.page_by_created_desc, ORG, TYPE, *ALWAYS, *END, listing.LOOKED_AT_MAX
        )
        conditions = [
            {"field": "total", "negated": False, "lows": ["0"], "highs": [EVERY]},
            {"field": "*", "negated": False, "lows": ["rent"], "highs": ["rent\x01"]},
            {"field": "*", "negated": True, "lows": ["word7"], "highs": ["word7\x01"]},
        ]
        given = (
            [row["id"] for row in found],
            conditions,
            None,
            None,
            "ann",
            *ALWAYS,
            ALWAYS[0],
            "total",
            ALWAYS[1],
        )
        rows, plan = await rows_read(connection, KERNEL.check_candidates, ORG, TYPE, *given)
    # Of each candidate its row, its first version, its value by which the list is sorted, and one for each condition.
    assert listing.LOOKED_AT_MAX <= rows <= 7 * listing.LOOKED_AT_MAX, plan


async def test_gathering_reads_no_more_than_its_limit(populated: Database) -> None:
    read = {}
    async with populated.transaction(ORG) as connection:
        for name, given in {
            "gather_by_values": ("*", ["rent"], ["rent\x01"], LIMIT),
            "gather_by_state": (["old"], LIMIT),
            "gather_by_partition": ("north", LIMIT),
            "gather_by_creator": ("ann", LIMIT),
            "gather_by_created": (*ALWAYS, LIMIT),
            "gather_by_updated": (*ALWAYS, LIMIT),
        }.items():
            read[name] = (await rows_read(connection, getattr(KERNEL, name), ORG, TYPE, *given))[0]
    assert {name: rows for name, rows in read.items() if not LIMIT <= rows <= LIMIT + 2} == {}


async def test_counts_by_state_read_no_more_of_each_state_than_their_limit(populated: Database) -> None:
    async with populated.transaction(ORG) as connection:
        rows, plan = await rows_read(
            connection, KERNEL.count_by_state, ORG, TYPE, ["new", "old", "rare", "none"], 1_000
        )
    assert 2_200 <= rows <= 2_204, plan
