"""Cargo: what is a pointer, and what is told about what is none."""

import pytest

from assent.model.outside_request import Cargo, parse_cargo
from assent.model.problems import Problem
from tests.requests.bundles import BAD_CARGO, CARGO


@pytest.mark.parametrize("text", CARGO)
def test_a_pointer_is_read_and_spelled_the_same(text):
    found = parse_cargo(text)
    assert isinstance(found, Cargo)
    assert str(found) == text


def test_its_parts_are_the_kind_the_place_and_the_id():
    assert parse_cargo("external://vault.eu/a/b?c=1") == Cargo("external", "vault.eu", "a/b?c=1")


@pytest.mark.parametrize("text", [*BAD_CARGO, None, 7, []])
def test_what_is_no_pointer_is_refused_with_what_was_expected(text):
    found = parse_cargo(text)
    assert isinstance(found, Problem)
    assert (found.code, found.path) == ("BAD_CARGO", ("cargo",))
    assert "expected" in found.message
    assert "external://<system>/<id>" in found.hint
