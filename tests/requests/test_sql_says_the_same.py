"""What the database takes for cargo and for a bundle is what Python takes for it."""

import pytest

from assent.model.outside_request import Cargo, parse_bundle, parse_cargo
from tests.requests.bundles import BAD_BUNDLES, BAD_CARGO, BUNDLES, CARGO
from tests.world import fetch


async def test_cargo_is_the_same_to_both(database):
    texts = [*CARGO, *BAD_CARGO]
    rows = await fetch(database, "SELECT assent.is_cargo(t) AS good FROM unnest($1::text[]) AS t", texts)
    assert [row["good"] for row in rows] == [isinstance(parse_cargo(text), Cargo) for text in texts]
    assert sum(row["good"] for row in rows) == len(CARGO)


@pytest.mark.parametrize("data", [*BUNDLES, *BAD_BUNDLES])
async def test_a_bundle_is_the_same_to_both(database, data):
    given = {"status": "completed", "error": None} | data
    sql = "SELECT assent.bundle_problem($1, $2::jsonb, $3, $4) AS problem"
    (row,) = await fetch(database, sql, *(given[name] for name in ("key", "items", "status", "error")))
    assert (row["problem"] is None) == (parse_bundle(data)[0] is not None)
