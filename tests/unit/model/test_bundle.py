"""Bundles: what is one, and every problem of what is none, at its place."""

import pytest

from assent.model.outside_request import parse_bundle
from tests.requests.bundles import BAD_BUNDLES, BUNDLES, item


@pytest.mark.parametrize("data", BUNDLES)
def test_a_bundle_is_kept_as_it_was_sent(data):
    found, problems = parse_bundle(data)
    assert found is not None
    assert (found.to_json(), problems) == (data, [])


@pytest.mark.parametrize("data", [*BAD_BUNDLES, {}, [], None, {"key": "k\0", "items": [item()]}])
def test_what_is_no_bundle_has_its_problems(data):
    found, problems = parse_bundle(data)
    assert found is None
    assert problems


def test_every_problem_is_told_at_its_place():
    bad = {"key": "k", "items": [{"cargo": "x"}, {"kind": "k"}], "more": 1}
    found, problems = parse_bundle(bad)
    assert found is None
    assert {(problem.code, problem.path) for problem in problems} == {
        ("BAD_CARGO", ("items", 0, "cargo")),
        ("MISSING_KEY", ("items", 1)),
        ("UNKNOWN_KEY", ("more",)),
    }
