"""Durations as authors write them."""

from datetime import timedelta

import pytest

from assent.model.problems import Problem
from assent.model.timing import parse_duration


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("24h", timedelta(days=1)),
        ("3d", timedelta(days=3)),
        ("3650d", timedelta(days=3650)),
    ],
)
def test_a_number_and_a_unit_are_a_duration(text, length):
    assert parse_duration(text) == length


@pytest.mark.parametrize(
    "value",
    ["", "3", "d", "3 d", "3D", "-3d", "1.5h", "1h30m", "٣d", "3d\n", "3w", 3, 3.0, None, True, ["3d"]],
)
def test_anything_else_is_a_problem_that_shows_the_form(value):
    problem = parse_duration(value)
    assert isinstance(problem, Problem)
    assert (problem.code, "`90s`" in (problem.hint or "")) == ("BAD_DURATION", True)


@pytest.mark.parametrize("text", ["0s", "3651d", "87601h", "999999999999d"])
def test_a_duration_of_nothing_or_of_more_than_ten_years_is_out_of_range(text):
    problem = parse_duration(text)
    assert isinstance(problem, Problem)
    assert "1s to 3650d" in problem.message
