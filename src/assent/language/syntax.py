"""The syntax tree of expressions, and where in a text a problem is.

Every node knows its span in the source text; spans do not take part in equality, so that two spellings of one
expression are equal trees.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Final

from assent.language.types import TypeKind
from assent.model.problems import Position, Problem

EXPRESSION_CHARACTERS_MAX: Final = 500
EXPRESSION_DEPTH_LEVELS_MAX: Final = 10
EXPRESSION_DEREFERENCES_MAX: Final = 20

CANONICAL_GROWTH_MAX: Final = 6
"""How many times longer canonical text can be than what its author wrote; a bell in quotes becomes \\u0007."""


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Offsets into the source text, the end not included."""

    start: int
    end: int

    def to(self, other: "TextSpan") -> "TextSpan":
        return TextSpan(self.start, other.end)


NOWHERE: Final = TextSpan(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    span: TextSpan = field(default=NOWHERE, compare=False, repr=False)


class Operator(StrEnum):
    EQUAL = "=="
    NOT_EQUAL = "!="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    IN = "in"
    CONTAINS = "contains"
    STARTS_WITH = "startsWith"
    ENDS_WITH = "endsWith"
    MATCHES = "matches"


class ArithmeticOperator(StrEnum):
    PLUS = "+"
    MINUS = "-"
    TIMES = "*"
    DIVIDED = "/"


EQUALITY: Final = frozenset({Operator.EQUAL, Operator.NOT_EQUAL})
ORDERING: Final = frozenset(
    {Operator.GREATER, Operator.GREATER_OR_EQUAL, Operator.LESS, Operator.LESS_OR_EQUAL}
)
SUMS: Final = frozenset({ArithmeticOperator.PLUS, ArithmeticOperator.MINUS})

LiteralValue = None | bool | int | Decimal | str


@dataclass(frozen=True, slots=True)
class Literal(Located):
    kind: TypeKind
    """Part of equality, because Python holds that `True == 1`."""
    value: LiteralValue


@dataclass(frozen=True, slots=True)
class ListOf(Located):
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Variable(Located):
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index(Located):
    """`target[key]`; also `target[key].name`, whose last part is an index by a literal."""

    target: "Variable | Index"
    key: "Node"


@dataclass(frozen=True, slots=True)
class Compare(Located):
    operator: Operator
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Arithmetic(Located):
    operator: ArithmeticOperator
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Negative(Located):
    """`-operand`; of a number it is a literal instead."""

    operand: "Node"


@dataclass(frozen=True, slots=True)
class FunctionCall(Located):
    """`function(arguments)`; the second argument of a list function is evaluated for each item."""

    function: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Not(Located):
    operand: "Node"


@dataclass(frozen=True, slots=True)
class And(Located):
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Or(Located):
    parts: tuple["Node", ...]


Node = Literal | ListOf | Variable | Index | Arithmetic | Negative | FunctionCall | Compare | Not | And | Or


@dataclass(frozen=True, slots=True)
class Expression:
    root: Node
    text: str = field(compare=False)
    """As its author wrote it; spans are offsets into it."""


def children(node: Node) -> tuple[Node, ...]:  # noqa: PLR0911 - one return for each form
    match node:
        case ListOf(items=items):
            return items
        case Index(target=target, key=key):
            return (target, key)
        case Compare(left=left, right=right) | Arithmetic(left=left, right=right):
            return (left, right)
        case Not(operand=operand) | Negative(operand=operand):
            return (operand,)
        case FunctionCall(arguments=arguments):
            return arguments
        case And(parts=parts) | Or(parts=parts):
            return parts
        case Literal() | Variable():
            return ()


def depth_of(node: Node) -> int:
    return 1 + max(map(depth_of, children(node)), default=0)


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node):
        yield from walk(child)


def dereferences_of(node: Node) -> int:
    """Return how many times the expression steps into a value: each `.name` and each `[key]`."""
    return sum(_own_dereferences(part) for part in walk(node))


def _own_dereferences(node: Node) -> int:
    if isinstance(node, Variable):
        return len(node.path) - 1
    return int(isinstance(node, Index))


def variables_in(expression: Expression) -> tuple[str, ...]:
    """Return the names of the variables that the expression may read, in order of appearance."""
    names = (".".join(node.path) for node in walk(expression.root) if isinstance(node, Variable))
    return tuple(dict.fromkeys(names))


_CONTEXT_CHARACTERS: Final = 40


def position_at(text: str, offset: int) -> Position:
    before = text[:offset]
    return Position(before.count("\n") + 1, offset - before.rfind("\n"))


def marked(code: str, message: str, text: str, span: TextSpan, hint: str | None = None) -> Problem:
    """Return a problem whose message shows the part of `text` that it is about."""
    shown = f"{message}, here: {_excerpt(text, span)}"
    return Problem(code, shown, hint=hint, position=position_at(text, span.start))


def _excerpt(text: str, span: TextSpan) -> str:
    before, culprit, after = text[: span.start], text[span.start : span.end], text[span.end :]
    if len(before) > _CONTEXT_CHARACTERS:
        before = f"…{before[-_CONTEXT_CHARACTERS:]}"
    if len(after) > _CONTEXT_CHARACTERS:
        after = f"{after[:_CONTEXT_CHARACTERS]}…"
    if len(culprit) > _CONTEXT_CHARACTERS:
        culprit = f"{culprit[:_CONTEXT_CHARACTERS]}…"
    return " ".join(f"`{before}»{culprit}«{after}`".split())


def moved(problem: Problem, origin: Position) -> Problem:
    """Return a problem of a text that begins at `origin` of a larger text, as a problem of the larger one."""
    at = problem.position or Position(1, 1)
    column = at.column + (origin.column - 1 if at.line == 1 else 0)
    return replace(problem, position=Position(at.line + origin.line - 1, column))
