"""Limits hold exactly at their edge, and hostile text costs next to nothing."""

import time
from typing import Any

import pytest

from assent.language import (
    EXPRESSION_CHARACTERS_MAX,
    EXPRESSION_DEPTH_LEVELS_MAX,
    EXPRESSION_DEREFERENCES_MAX,
    TEMPLATE_CHARACTERS_MAX,
    TEMPLATE_EXPRESSIONS_MAX,
    from_json,
    parse,
    parse_template,
    parse_verb,
    render,
    render_template,
    render_verb,
)
from assent.language.verb_syntax import VERB_ARGUMENTS_MAX, VERB_CHARACTERS_MAX, VERB_DEPTH_LEVELS_MAX
from assent.model.problems import Problem

MIB = 1 << 20


def codes(problems: list[Problem]) -> list[str]:
    return [problem.code for problem in problems]


def test_the_limits_are_those_that_were_promised() -> None:
    assert (EXPRESSION_CHARACTERS_MAX, EXPRESSION_DEPTH_LEVELS_MAX, EXPRESSION_DEREFERENCES_MAX) == (
        500,
        10,
        20,
    )


def test_500_characters_are_accepted_and_501_are_not() -> None:
    longest = "a == '" + "x" * 493 + "'"
    assert len(longest) == 500
    assert parse(longest)[0] is not None
    assert codes(parse(longest + " ")[1]) == ["EXPRESSION_TOO_LONG"]


@pytest.mark.parametrize(
    ("read", "write", "source"),
    [
        (parse, render, 'a=="' + "'" * 495 + '"'),
        (parse, render, "a=='" + "\a" * 495 + "'"),
        (parse, render, "||".join(["!a=1"] * 83)),
        (parse, render, "[" + ",".join(["1"] * 249) + "]"),
        (parse_template, render_template, "".join(["{a=='" + "\a" * 192 + "'}"] * 50)),
        (parse_verb, render_verb, "(a.b :c '" + "\a" * 1989 + "')"),
    ],
)
def test_canonical_text_can_be_read_however_much_longer_it_is(read: Any, write: Any, source: str) -> None:
    found, problems = read(source)
    assert found is not None, problems
    canonical = write(found)
    assert len(canonical) > len(source)
    assert read(canonical, canonical=True)[0] == found


@pytest.mark.parametrize(
    ("levels", "source"),
    [
        (10, "!" * 9 + "a"),
        (11, "!" * 10 + "a"),
        (10, "[" * 9 + "1" + "]" * 9),
        (11, "[" * 10 + "1" + "]" * 10),
        (10, "a" + "[0]" * 9),
        (11, "a" + "[0]" * 10),
        (10, "(" * 8 + "a > 1" + " || b)" * 1 + " == true)" * 7),
        (11, "(" * 9 + "a > 1" + " || b)" * 1 + " == true)" * 8),
    ],
)
def test_depth_10_is_accepted_and_11_is_not(levels: int, source: str) -> None:
    expected = [] if levels <= EXPRESSION_DEPTH_LEVELS_MAX else ["EXPRESSION_TOO_DEEP"]
    assert codes(parse(source)[1]) == expected


def test_chains_of_one_operator_do_not_count_as_depth() -> None:
    assert parse(" && ".join(["a > 1"] * 40))[0] is not None


def test_parentheses_around_nothing_new_do_not_count_as_depth() -> None:
    assert parse("(" * 200 + "a" + ")" * 200)[0] is not None


@pytest.mark.parametrize(
    ("steps", "source"),
    [
        (20, "a" + ".b" * 20),
        (21, "a" + ".b" * 21),
        (20, " && ".join(["a.b"] * 20)),
        (21, " && ".join(["a.b"] * 21)),
        (20, "a.b[c.d]" + " || a.b" * 17),
        (21, "a.b[c.d]" + " || a.b" * 18),
    ],
)
def test_20_dereferences_are_accepted_and_21_are_not(steps: int, source: str) -> None:
    expected = [] if steps <= EXPRESSION_DEREFERENCES_MAX else ["EXPRESSION_TOO_MANY_DEREFERENCES"]
    assert codes(parse(source)[1]) == expected


def test_a_template_ends_at_its_limits() -> None:
    assert parse_template("x" * TEMPLATE_CHARACTERS_MAX)[0] is not None
    assert codes(parse_template("x" * (TEMPLATE_CHARACTERS_MAX + 1))[1]) == ["TEMPLATE_TOO_LONG"]
    assert parse_template("{a}" * TEMPLATE_EXPRESSIONS_MAX)[0] is not None
    assert codes(parse_template("{a}" * (TEMPLATE_EXPRESSIONS_MAX + 1))[1]) == ["TEMPLATE_TOO_LONG"]


def test_a_verb_ends_at_its_limits() -> None:
    longest = "(a.b :c '" + "x" * (VERB_CHARACTERS_MAX - 11) + "')"
    assert len(longest) == VERB_CHARACTERS_MAX
    assert parse_verb(longest)[0] is not None
    assert codes(parse_verb(longest + " ")[1]) == ["VERB_TOO_LONG"]
    deepest = "[" * (VERB_DEPTH_LEVELS_MAX - 1) + "1" + "]" * (VERB_DEPTH_LEVELS_MAX - 1)
    assert parse_verb(f"(a.b :c {deepest})")[0] is not None
    assert codes(parse_verb(f"(a.b :c [{deepest}])")[1]) == ["VERB_TOO_DEEP"]
    most = " ".join(f":k{n} 1" for n in range(VERB_ARGUMENTS_MAX))
    assert parse_verb(f"(a.b {most})")[0] is not None
    assert codes(parse_verb(f"(a.b {most} :last 1)")[1]) == ["VERB_TOO_LONG"]


def _nested(levels: int) -> dict[str, object]:
    condition: dict[str, object] = {"expression": "a"}
    for _ in range(levels):
        condition = {"not": condition}
    return condition


def test_a_json_condition_has_the_same_depth_as_its_text() -> None:
    assert from_json(_nested(9))[0] is not None
    assert codes(from_json(_nested(10))[1]) == ["EXPRESSION_TOO_DEEP"]


def test_a_json_condition_has_the_same_length_as_its_text() -> None:
    longest = {"field": "a", "op": "==", "value": "x" * 493}
    assert from_json(longest)[0] is not None
    assert codes(from_json(longest | {"value": "x" * 494})[1]) == ["EXPRESSION_TOO_LONG"]


@pytest.mark.parametrize(
    "text",
    ["(" * MIB, "[" * MIB, "!" * MIB, "{" * MIB, "a." * MIB, "'" * MIB, "1" * MIB, " " * MIB, "a && " * MIB],
)
def test_megabytes_are_refused_before_they_are_read(text: str) -> None:
    started = time.process_time()
    for read in (parse, parse_template, parse_verb):
        assert read(text)[0] is None
    assert time.process_time() - started < 0.25


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500,
        "[" * 500,
        "!" * 500,
        "a[" * 250,
        "(" * 249 + "a" + ")" * 249 + "x",
        "'" * 499,
        r"'\\" * 166,
        "-" * 500,
    ],
)
def test_hostile_text_of_legal_length_is_refused_quickly(text: str) -> None:
    parse("a")
    started = time.process_time()
    assert parse(text)[0] is None
    assert time.process_time() - started < 0.25


def test_json_bombs_are_refused_quickly() -> None:
    wide = {"all": [{"expression": "a"}] * MIB}
    bushy: dict[str, object] = {"expression": "a"}
    for _ in range(8):
        bushy = {"any": [bushy] * 400}
    # The quickest of three: a collection of the garbage of all tests before costs most of a second.
    assert min(_seconds_to_refuse(_nested(100_000), wide, bushy) for _ in range(3)) < 0.5


def _seconds_to_refuse(*bombs: object) -> float:
    started = time.process_time()
    for bomb in bombs:
        expression, problems = from_json(bomb)
        assert expression is None
        assert len(problems) == 1
    return time.process_time() - started


def test_hostile_braces_are_refused_quickly() -> None:
    started = time.process_time()
    for text in ("{" + "a" * 9998, "{'" * 5000, "{'\\" * 3333, '{"' + "\\" * 9990, "{a}" * 3333):
        assert parse_template(text)[0] is None
    assert time.process_time() - started < 2
