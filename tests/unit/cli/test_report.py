"""A problem on the terminal shows the line, marks the column, and cannot steer the terminal."""

from assent.cli.output import in_reading_order, report, summary
from assent.cli.refusals import as_text, rejection_from
from assent.compiler.source import Source, read_source
from assent.model.problems import Position, Problem
from assent.store.errors import StoreError


def shown(line: str, column: int, *, hint: str | None = None) -> list[str]:
    source = Source("f.yaml", lines=(line,))
    problem = Problem("CODE", "what is wrong", hint=hint, position=Position(1, column), source="f.yaml")
    return report(problem, source).plain.split("\n")


def test_the_mark_stands_under_the_column() -> None:
    first, line, mark = shown("state: {to: activ}", 13)
    assert first == "f.yaml:1:13: CODE what is wrong"
    assert line[mark.index("^") :].startswith("activ")


def test_the_mark_stands_under_the_column_after_wide_characters() -> None:
    _, line, mark = shown("label: 大きさ, to: activ", 17)
    assert line == "    1 │ label: 大きさ, to: activ"
    assert mark == "      │ " + " " * 19 + "^"


def test_a_long_line_is_cut_around_the_column() -> None:
    _, line, mark = shown("x" * 400 + "HERE" + "y" * 400, 401)
    assert len(line) < 130
    assert line[mark.index("^") :].startswith("HERE")
    assert line.endswith("…")


def test_a_hint_follows_on_a_line_of_its_own() -> None:
    assert shown("a: 1", 1, hint="do this")[-1] == "  hint: do this"


def test_escape_codes_of_a_source_do_not_reach_the_terminal() -> None:
    source = read_source("a: \x1b[31mred\n", "f\x1b.yaml")
    (problem,) = source.problems
    assert "\x1b" not in report(problem, source).plain


def test_a_problem_without_a_place_is_its_message() -> None:
    assert report(Problem("CODE", "what is wrong"), None).plain == "CODE what is wrong"


def test_problems_are_listed_in_reading_order() -> None:
    late = Problem("A", "", position=Position(9, 1), source="a")
    early = Problem("B", "", position=Position(2, 5), source="a")
    other = Problem("C", "", position=Position(1, 1), source="b")
    assert in_reading_order([other, late, early]) == [early, late, other]


def test_the_summary_counts() -> None:
    problem = Problem("A", "")
    assert summary([], "2 files").plain == "✓ 2 files"
    assert summary([problem], "2 files").plain == "✗ 1 problem in 2 files"
    assert summary([problem, problem], "2 files").plain == "✗ 2 problems in 2 files"


def test_statement_that_an_administrator_is_to_run_is_on_the_line_and_whole() -> None:
    """PostgreSQL's errors have lines; a line break was shown as `�`, in the middle of what is to be copied."""
    said = "permission denied\nDETAIL:  Only roles with ADMIN may. Have an administrator run this:\nGRANT a TO b;"
    rejection = rejection_from(StoreError(said))
    assert rejection is not None
    assert as_text(rejection).plain.endswith("Have an administrator run this: GRANT a TO b;")
    assert "�" not in as_text(rejection).plain
