"""From text to tree: what is accepted, what is refused, and where the problem is said to be."""

from decimal import Decimal

import pytest

from assent.language import parse
from assent.language.syntax import And, Compare, Index, ListOf, Literal, Node, Not, Operator, Or, Variable
from assent.language.types import Kind


def root_of(text: str) -> Node:
    expression, problems = parse(text)
    assert expression is not None, problems
    return expression.root


def integer(value: int) -> Literal:
    return Literal(Kind.INTEGER, value)


def text(value: str) -> Literal:
    return Literal(Kind.TEXT, value)


A, B, C = Variable(("a",)), Variable(("b",)), Variable(("c",))


@pytest.mark.parametrize(
    ("source", "root"),
    [
        ("entity.grand_total", Variable(("entity", "grand_total"))),
        ("12", integer(12)),
        ("-12", integer(-12)),
        ("1.50", Literal(Kind.DECIMAL, Decimal("1.5"))),
        ("2.0", integer(2)),
        ("true", Literal(Kind.BOOLEAN, True)),
        ("null", Literal(Kind.NULL, None)),
        ("'it\\'s'", text("it's")),
        ('"it\'s"', text("it's")),
        (r"'a\\b\n\u00e9'", text("a\\b\né")),
        ("[]", ListOf(())),
        ("[1, 'x', a]", ListOf((integer(1), text("x"), A))),
        ("a > 1", Compare(Operator.GREATER, A, integer(1))),
        ("a in b", Compare(Operator.IN, A, B)),
        ("a startsWith 'image/'", Compare(Operator.STARTS_WITH, A, text("image/"))),
        ("a || b && c", Or((A, And((B, C))))),
        ("(a || b) && c", And((Or((A, B)), C))),
        ("a && b && c", And((A, B, C))),
        ("a && (b && c)", And((A, B, C))),
        ("!a && b", And((Not(A), B))),
        ("!a == b", Not(Compare(Operator.EQUAL, A, B))),
        ("NOT a = b", Not(Compare(Operator.EQUAL, A, B))),
        ("(a == b) == c", Compare(Operator.EQUAL, Compare(Operator.EQUAL, A, B), C)),
        (
            "org.owners[entity.cost_center]",
            Index(Variable(("org", "owners")), Variable(("entity", "cost_center"))),
        ),
        ("a[0].b", Index(Index(A, integer(0)), text("b"))),
        ("a['b c'].d", Index(Index(A, text("b c")), text("d"))),
        ("a['b'].c", Variable(("a", "b", "c"))),
        ("entity.in", Variable(("entity", "in"))),
        (
            "entity.not == entity.null",
            Compare(Operator.EQUAL, Variable(("entity", "not")), Variable(("entity", "null"))),
        ),
        ("order", Variable(("order",))),
        ("android and index", And((Variable(("android",)), Variable(("index",))))),
        ("a\n  && b", And((A, B))),
    ],
)
def test_text_becomes_the_tree_it_says(source: str, root: Node) -> None:
    assert root_of(source) == root
