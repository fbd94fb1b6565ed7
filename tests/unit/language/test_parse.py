"""From text to tree: what is accepted, what is refused, and where the problem is said to be."""

from decimal import Decimal

import pytest

from assent.language import parse
from assent.language.syntax import And, Compare, Index, ListOf, Literal, Node, Not, Operator, Or, Variable
from assent.language.types import TypeKind
from assent.model.problems import Position


def root_of(text: str) -> Node:
    expression, problems = parse(text)
    assert expression is not None, problems
    return expression.root


def integer(value: int) -> Literal:
    return Literal(TypeKind.INTEGER, value)


def text(value: str) -> Literal:
    return Literal(TypeKind.TEXT, value)


A, B, C = Variable(("a",)), Variable(("b",)), Variable(("c",))


@pytest.mark.parametrize(
    ("source", "root"),
    [
        ("entity.grand_total", Variable(("entity", "grand_total"))),
        ("12", integer(12)),
        ("-12", integer(-12)),
        ("1.50", Literal(TypeKind.DECIMAL, Decimal("1.5"))),
        ("2.0", integer(2)),
        ("true", Literal(TypeKind.BOOLEAN, True)),
        ("null", Literal(TypeKind.NULL, None)),
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


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a = 1", "a == 1"),
        ("a AND b OR NOT c", "a && b || !c"),
        ("a and b or not c", "a && b || !c"),
        ("context.count > 1", "workflow.count > 1"),
        ("actor.user_id == 'x'", "actor.id == 'x'"),
        ('a == "x"', "a == 'x'"),
        ("a['b'] > 1.0", "a.b>1"),
        ("((a)) && (b || c)", "a && (b || c)"),
        ("-0 == a", "0 == a"),
    ],
)
def test_spellings_of_one_expression_are_equal(first: str, second: str) -> None:
    assert root_of(first) == root_of(second)


@pytest.mark.parametrize(
    ("first", "second"), [("a == 1", "a == true"), ("a == 0", "a == false"), ("1", "'1'")]
)
def test_literals_of_other_types_are_not_equal(first: str, second: str) -> None:
    assert root_of(first) != root_of(second)


@pytest.mark.parametrize(
    ("source", "code", "column"),
    [
        ("", "EXPRESSION_EMPTY", None),
        ("  \n ", "EXPRESSION_EMPTY", None),
        ("a >", "EXPRESSION_SYNTAX", 4),
        ("a > > b", "EXPRESSION_SYNTAX", 5),
        ("a b", "EXPRESSION_SYNTAX", 3),
        ("(a", "EXPRESSION_SYNTAX", 3),
        ("a)", "EXPRESSION_SYNTAX", 2),
        ("[1, 2", "EXPRESSION_SYNTAX", 6),
        ("a[b", "EXPRESSION_SYNTAX", 4),
        ("a[b > 1]", "EXPRESSION_SYNTAX", 5),
        ("a < b < c", "EXPRESSION_SYNTAX", 7),
        ("a & b", "EXPRESSION_SYNTAX", 3),
        ("a == 'b", "EXPRESSION_SYNTAX", 6),
        ("a == 'b\nc'", "EXPRESSION_SYNTAX", 6),
        ("a == 1x", "EXPRESSION_SYNTAX", 6),
        ("a == 1.2.3", "EXPRESSION_SYNTAX", 6),
        ("a == 1e5", "EXPRESSION_SYNTAX", 6),
        ("a + > 2", "EXPRESSION_SYNTAX", 5),
        ("a - > 2", "EXPRESSION_SYNTAX", 5),
        ("a % 2 > 2", "EXPRESSION_SYNTAX", 3),
        ("a =~ 'x.*'", "EXPRESSION_SYNTAX", 4),
        ("f(a)", "UNKNOWN_FUNCTION", 1),
        ("1 + f(a)", "UNKNOWN_FUNCTION", 5),
        ("if(a, b)", "WRONG_ARGUMENTS", 1),
        ("any()", "WRONG_ARGUMENTS", 1),
        ("entity.f(a)", "EXPRESSION_SYNTAX", 9),
        ("a..b", "EXPRESSION_SYNTAX", 2),
        ("__import__('os').system('x')", "EXPRESSION_SYNTAX", 17),
        ("entity.аmount > 1", "EXPRESSION_SYNTAX", 7),  # the first letter is Cyrillic
        ("a == “b”", "EXPRESSION_SYNTAX", 6),
        (r"a == '\q'", "BAD_ESCAPE", 7),
        (r"a == '\u0000'", "TEXT_NOT_KEPT", 7),
        (r"a == '\ud800'", "TEXT_NOT_KEPT", 7),
        ("a == '\x00'", "TEXT_NOT_KEPT", None),
        ("a == '\ud800'", "TEXT_NOT_KEPT", None),
        ("a == 9007199254740992", "NUMBER_NOT_KEPT", 6),
    ],
)
def test_bad_text_gives_one_problem_at_its_column(source: str, code: str, column: int | None) -> None:
    expression, problems = parse(source)
    assert expression is None
    assert [problem.code for problem in problems] == [code]
    assert problems[0].position == (Position(1, column) if column else None)


def test_a_problem_on_a_later_line_says_so() -> None:
    _, problems = parse("a > 1 &&\n  b > > 2")
    assert problems[0].position == Position(2, 7)


def test_the_message_marks_the_culprit() -> None:
    _, problems = parse("entity.total > 1 & entity.paid")
    assert problems[0].message.endswith("`entity.total > 1 »&« entity.paid`")
    assert problems[0].hint == "write && or AND"


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("a < b < c", "comparisons do not chain; join two of them with &&"),
        ("a % 1", "there are + - * / and no other arithmetic"),
        ("a ? 1", "a choice is written if(condition, value, other)"),
        ("matches(a, 'x')", "`matches` stands between two values: text matches 'part'"),
        ("counts(a)", "did you mean `count`?"),
        ("a == “b”", "quote text with plain ' or \""),
    ],
)
def test_common_mistakes_come_with_advice(source: str, hint: str) -> None:
    assert parse(source)[1][0].hint == hint
