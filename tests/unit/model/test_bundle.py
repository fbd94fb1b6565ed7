"""Bundles: what is one, and every problem of what is none, at its place."""

import pytest

from assent.model.outside_request import Bundle, read_bundle
from tests.requests.bundles import BAD_BUNDLES, BUNDLES, item


@pytest.mark.parametrize("data", BUNDLES)
def test_a_bundle_is_kept_as_it_was_sent(data):
    found = read_bundle(data)
    assert isinstance(found, Bundle)
    assert found.to_json() == data


@pytest.mark.parametrize("data", [*BAD_BUNDLES, {}, [], None, {"key": "k\0", "items": [item()]}])
def test_what_is_no_bundle_has_its_problems(data):
    found = read_bundle(data)
    assert not isinstance(found, Bundle)
    assert found


def test_every_problem_is_told_at_its_place():
    bad = {"key": "k", "items": [{"cargo": "x"}, {"kind": "k"}], "more": 1}
    found = read_bundle(bad)
    assert not isinstance(found, Bundle)
    assert {(problem.code, problem.path) for problem in found} == {
        ("BAD_CARGO", ("items", 0, "cargo")),
        ("MISSING_KEY", ("items", 1)),
        ("UNKNOWN_KEY", ("more",)),
    }
