"""The canonical text, and the tree for people."""

import pytest

from assent.language import parse, render, tree
from assent.language.syntax import variables_in


@pytest.mark.parametrize(
    ("source", "canonical"),
    [
        ("a=1", "a == 1"),
        ("NOT a", "!a"),
        ("not (a in b)", "!(a in b)"),
        ("a OR b AND c", "a || b && c"),
        ("(a OR b) AND c", "(a || b) && c"),
        ("(a AND b) AND c", "a && b && c"),
        ("!(a && b)", "!(a && b)"),
        ("(a > 1) == true", "(a > 1) == true"),
        ("(!a) == b", "(!a) == b"),
        ("[ 1,'x' ,null]", "[1, 'x', null]"),
        ('"it\'s"', r"'it\'s'"),
        (r'"a\\b\t\"\u0007"', r"""'a\\b\t"\u0007'"""),
        ("context.a['b c'].x", "workflow.a['b c'].x"),
        ("a['in']", "a.in"),
        ("1.500", "1.5"),
        ("-2.0", "-2"),
        ("a endsWith '.pdf'", "a endsWith '.pdf'"),
    ],
)
def test_every_spelling_has_one_canonical_text(source: str, canonical: str) -> None:
    expression, problems = parse(source)
    assert expression is not None, problems
    assert render(expression) == canonical
    assert parse(canonical)[0] == expression


def test_the_tree_shows_one_node_a_line() -> None:
    expression, _ = parse("entity.total <= 5 && !(org.owners[entity.cost_center] in ['a', null])")
    assert expression is not None
    assert tree(expression).splitlines() == [
        "and",
        "  <=",
        "    variable entity.total",
        "    integer 5",
        "  not",
        "    in",
        "      index",
        "        variable org.owners",
        "        variable entity.cost_center",
        "      list",
        "        text 'a'",
        "        null",
    ]


def test_an_expression_names_its_variables_once_in_order() -> None:
    expression, _ = parse("org.owners[entity.unit] == actor.id || entity.unit == null")
    assert expression is not None
    assert variables_in(expression) == ("org.owners", "entity.unit", "actor.id")
