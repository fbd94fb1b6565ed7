"""Plans: what is to be folded, and what is to be ended, is found by index, however much there is besides."""

from datetime import timedelta
from typing import Any

import pytest

from assent.model.actor import Reader, reader_columns
from assent.store.claim_floor import BEGINNING
from assent.store.database import Database
from assent.store.queries import load_queries
from assent.worker.duty import look_up_by_index
from tests.postgres import SETTINGS, START
from tests.requests.bundles import ID

FILL = """
INSERT INTO assent.outside_requests (org_id, id, instance_id, step_id, node_id, token_id, name, expires_at)
SELECT 'org-' || g % 3, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'n', '0', 'kyc.vendor', assent.now()
  FROM generate_series(1, 3000) g;
INSERT INTO assent.outside_request_deliveries (org_id, id, request_id, key, source)
SELECT org_id, gen_random_uuid(), id, 'k' || g, 'sql' FROM assent.outside_requests CROSS JOIN generate_series(1, 5) g;
INSERT INTO assent.jobs (org_id, id, kind, lane, attempts_max, status, ended_at)
SELECT org_id, id, 'result', 'kyc.vendor', 5, CASE WHEN key > 'k1' THEN 'done' ELSE 'queued' END,
       CASE WHEN key > 'k1' THEN assent.now() END FROM assent.outside_request_deliveries;
INSERT INTO assent.outside_request_history (org_id, id, request_id, what, source)
SELECT org_id, id, request_id, 'delivered', 'sql' FROM assent.outside_request_deliveries;
INSERT INTO assent.outside_request_items (org_id, id, request_id, delivery_id, cargo, status)
SELECT org_id, gen_random_uuid(), request_id, id, 'external://v/' || id, 'completed'
  FROM assent.outside_request_deliveries;
ANALYZE assent.outside_requests, assent.outside_request_deliveries, assent.outside_request_history;
ANALYZE assent.outside_request_items, assent.jobs;
"""

JOBS_SQL = load_queries("assent.jobs", "jobs.sql")
REQUESTS_SQL = load_queries("assent.requests", "requests.sql")

READER = Reader("ann", START, ["invoice"], definitions=[ID])
"""One who may not read everything."""

JOBS, DELIVERIES, VIEWS = "jobs", "deliveries", "views"
STATEMENTS: dict[str, dict[str, Any]] = {
    JOBS: {
        "find_lanes": ("result", "", "", -1, 500, BEGINNING),
        "find_suspect_lane": ("result", None),
        "claim_jobs": (
            "result",
            ["org-1"],
            ["kyc.vendor"],
            [128],
            200,
            200,
            None,
            ID,
            False,
            timedelta(seconds=20),
            BEGINNING,
        ),
        "lock_lanes": ("result", ["kyc.vendor"], 8, 100),
        "settle_jobs_if_claimed": ([], ID),
        "hold_jobs_if_claimed": (ID, ["org-1"], [ID], [1]),
        "rescue_jobs": ([ID], [1], 200),
        "give_back_unknown": ("result", ID, [], [], []),
        "revive_jobs": ("org-1", "result", None, None, None),
    },
    DELIVERIES: {
        "lock_requests": (["org-1"], [ID]),
        "find_known_cargo": (["org-1"], [ID], ["external://v/1"]),
        "read_deliveries": (["org-1"], [ID]),
        "mark_late": (["org-1"], [ID]),
        "write_folded_requests": ([],),
        "read_received": (["org-1"], [ID]),
        "expire_requests": (200, START),
        "fail_requests": (["org-1"], [ID], ["no"], START),
    },
    VIEWS: {
        "page_of_requests": (
            "org-1",
            None,
            None,
            None,
            None,
            None,
            None,
            51,
            *reader_columns(READER),
            True,
            True,
        ),
        "list_deliveries": ("org-1", ID, 100),
        "list_items": ("org-1", ID, 100),
    },
}
CASES = [(group, name, given) for group, named in STATEMENTS.items() for name, given in named.items()]


@pytest.fixture(scope="module")
async def full(databases, template):
    """A database with as many requests as make reading all of them cheap beside many look-ups."""
    async with databases.fresh(template) as url:
        database = await Database.open(url, settings=SETTINGS)
        async with database.transaction(None) as connection:
            await connection.execute(FILL)
        yield database
        await database.close()


@pytest.mark.parametrize(("group", "name", "given"), CASES, ids=[name for _, name, _ in CASES])
async def test_nothing_is_read_as_a_whole(full, group, name, given):
    sql = getattr(JOBS_SQL if group == JOBS else REQUESTS_SQL, name)
    async with full.transaction(None) as connection:
        if group != VIEWS:  # as the worker does
            await look_up_by_index(connection)
        rows = await connection.fetch(f"EXPLAIN {sql}", *given)
    found = "\n".join(row[0] for row in rows)
    assert "Seq Scan on request" not in found, found
    assert "Seq Scan on job" not in found, found
