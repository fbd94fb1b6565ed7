"""A problem's path leads to a line and a column."""

import pytest

from assent.compiler.source import Source, located, read_source
from assent.model.problems import Path, Position, Problem

TEXT = """\
contract: invoice
fields:
  number: {type: text, required: true}
  total:
    type: money
lifecycle:
  transitions:
    - {from: draft, to: submitted}
    -
      from: "submitted"
"""


@pytest.fixture(scope="module")
def source() -> Source:
    return read_source(TEXT, "invoice.yaml")


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        ((), 1, 1),
        (("contract",), 1, 11),
        (("fields",), 2, 1),
        (("fields", "number"), 3, 3),
        (("fields", "number", "required"), 3, 34),
        (("fields", "total", "type"), 5, 11),
        (("lifecycle", "transitions", 0), 8, 7),
        (("lifecycle", "transitions", 0, "to"), 8, 25),
        (("lifecycle", "transitions", 1, "from"), 10, 13),
    ],
)
def test_a_scalar_is_found_at_itself_and_a_mapping_at_its_key(
    source: Source, path: Path, line: int, column: int
) -> None:
    position = source.position(path)
    assert (position.line, position.column) == (line, column)


@pytest.mark.parametrize("path", [("fields", "number", "max"), ("fields", "number", "max", 3, "x")])
def test_an_unknown_path_leads_to_its_nearest_ancestor(source: Source, path: Path) -> None:
    assert source.position(path) == source.position(("fields", "number"))


def test_the_key_has_a_place_of_its_own(source: Source) -> None:
    position = source.key_position(("fields", "number", "required"))
    assert (position.line, position.column) == (3, 24)


def test_lines_are_given_back_as_they_are_written(source: Source) -> None:
    assert source.line(5) == "    type: money"
    assert source.line(0) == source.line(999) == ""


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_count_the_same_whatever_ends_them(newline: str) -> None:
    source = read_source(newline.join(["a: 1", "b:", "  c: x"]), "t.yaml")
    position = source.position(("b", "c"))
    assert (position.line, position.column) == (3, 6)
    assert source.line(3) == "  c: x"


def test_located_problems_carry_the_place_and_the_name(source: Source) -> None:
    (problem,) = located([Problem("BAD_VALUE", "no such type", ("fields", "total", "type"))], source)
    assert str(problem) == "BAD_VALUE invoice.yaml:5:11:fields.total.type: no such type"


def test_a_problem_about_a_key_points_at_the_key(source: Source) -> None:
    (problem,) = located([Problem("UNKNOWN_KEY", "?", ("fields", "number", "required"))], source)
    assert problem.position == source.key_position(("fields", "number", "required"))


def test_a_problem_that_already_has_a_place_keeps_it(source: Source) -> None:
    elsewhere = Problem("X", "?").at(source.position(("fields",)), "other.yaml")
    assert located([elsewhere], source) == [elsewhere]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("when: entity.total > x", 1, 22),
        ("when: 'entity.total > x'", 1, 23),
        ('- {to: entity, when: "entity.total > x"}', 1, 38),
        ("when: |\n  entity.total > x\n", 2, 18),
        ('when: "entity.\\x74otal > x"', 1, 7),
    ],
    ids=["plain", "quoted", "in a list", "block", "escaped, so only its beginning is known"],
)
def test_a_problem_inside_an_expression_points_into_it(text: str, line: int, column: int) -> None:
    source = read_source(text, "t.yaml")
    path: Path = (0, "when") if text.startswith("-") else ("when",)
    inside = Problem("UNKNOWN_VARIABLE", "?", path, position=Position(1, 16))
    (problem,) = located([inside], source)
    assert (problem.position, problem.source) == (Position(line, column), "t.yaml")


def test_a_name_beyond_ascii_is_spelt_out_in_the_hint() -> None:
    source = read_source("id: \u0441\u043e\u0441", "t.yaml")
    (problem,) = located([Problem("BAD_NAME", "not a name", ("id",))], source)
    assert problem.hint == "`с` is CYRILLIC SMALL LETTER ES (U+0441); `о` is CYRILLIC SMALL LETTER O (U+043E)"


def test_values_are_found_by_path_and_missing_ones_are_none(source: Source) -> None:
    assert source.value(("lifecycle", "transitions", 0, "to")) == "submitted"
    assert source.value(("lifecycle", "transitions", 9)) is None
    assert source.value(("contract", "name")) is None


@pytest.mark.parametrize(
    ("text", "line", "column", "hint"),
    [
        ("a: [1,\n", 2, 1, None),
        ("a: 1\nb: {c: 1\nd: 2\n", 2, 4, None),
        ("a: 1\nb: 'c\nd: 2\n", 2, 4, None),
        ("a:\n\tb: 1\n", 2, 1, "indent with spaces, not with tabs"),
        ("a: 1\nb: c: d\n", 2, 5, "quote a text that holds a colon and a space"),
        ("a: @x", 1, 4, "quote a text that starts with a special character"),
    ],
)
def test_a_syntax_error_has_its_place_and_a_hint(text: str, line: int, column: int, hint: str | None) -> None:
    source = read_source(text, "t.yaml")
    (problem,) = source.problems
    assert (problem.code, source.data) == ("YAML_SYNTAX", None)
    assert problem.position is not None
    assert (problem.position.line, problem.position.column, problem.hint) == (line, column, hint)
