"""How tables write lengths of time and long texts, and which columns they leave out."""

from datetime import timedelta

import pytest

from assent.cli.output import length, one_line, table


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (7_199, "119 min"),
        (7_200, "2 h"),
        (172_799, "47 h"),
        (172_800, "2 d"),
        (40_000_000, "462 d"),
    ],
)
def test_a_length_of_time_is_told_in_the_unit_that_says_most(seconds: int, text: str) -> None:
    assert length(timedelta(seconds=seconds)) == text


def test_only_the_first_line_of_a_long_text_is_told() -> None:
    assert one_line("short") == "short"
    assert one_line("first\nsecond") == "first…"
    assert one_line("x" * 101) == "x" * 100 + "…"
    assert one_line(None) == ""


def test_columns_that_say_nothing_are_left_out() -> None:
    found = table(("a", "b", "c"), [["1", None, "x"], ["2", "", None]])
    assert [column.header for column in found.columns] == ["a", "c"]
