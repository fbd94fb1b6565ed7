"""From syntax tree to text: the canonical spelling, and the tree for people to look at."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Final

from assent.language.parse import is_name
from assent.language.syntax import (
    SUMS,
    And,
    Arithmetic,
    Compare,
    Expression,
    FunctionCall,
    Index,
    ListOf,
    Literal,
    Negative,
    Node,
    Not,
    Or,
    Variable,
    children,
)
from assent.language.values import duration_text

_ESCAPES: Final = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def render(expression: Expression) -> str:
    """Return the canonical text; expressions that differ only in spelling give the same one."""
    return render_node(expression.root)


def render_node(node: Node) -> str:
    match node:
        case Or(parts=parts):
            text = " || ".join(_grouped(part, Or) for part in parts)
        case And(parts=parts):
            text = " && ".join(_grouped(part, And, Or) for part in parts)
        case Not(operand=operand):
            text = f"!{_grouped(operand, Compare, And, Or)}"
        case Compare(operator=operator, left=left, right=right):
            text = f"{_operand(left)} {operator} {_operand(right)}"
        case Arithmetic(operator=operator, left=left, right=right):
            text = f"{_term(left, node, is_right=False)} {operator} {_term(right, node, is_right=True)}"
        case Negative(operand=operand):
            text = f"-{_grouped(operand, Arithmetic, Compare, Not, And, Or)}"
        case FunctionCall(function=function, arguments=arguments):
            text = f"{function}({', '.join(map(render_node, arguments))})"
        case ListOf(items=items):
            text = f"[{', '.join(map(render_node, items))}]"
        case Index(target=target, key=key):
            text = f"{render_node(target)}{_step(key)}"
        case Variable(path=path):
            text = ".".join(path)
        case Literal(value=value):
            text = render_value(value)
    return text


def _grouped(node: Node, *looser: type[Node]) -> str:
    text = render_node(node)
    return f"({text})" if isinstance(node, looser) else text


def _operand(node: Node) -> str:
    return _grouped(node, Compare, Not, And, Or)


def _term(node: Node, parent: Arithmetic, *, is_right: bool) -> str:
    """Group sums in products, and what stands on the right of an operator that binds as tight."""
    if isinstance(node, Arithmetic):
        looser = node.operator in SUMS and parent.operator not in SUMS
        as_tight = (node.operator in SUMS) is (parent.operator in SUMS)
        return f"({render_node(node)})" if looser or (is_right and as_tight) else render_node(node)
    return _operand(node)


def _step(key: Node) -> str:
    if isinstance(key, Literal) and is_name(key.value):
        return f".{key.value}"
    return f"[{render_node(key)}]"


def render_value(value: object) -> str:  # noqa: PLR0911 - one return for each form
    """Return a value as a literal of the language."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Decimal():
            return f"{value:f}"
        case str():
            return "'" + "".join(_escaped(character) for character in value) + "'"
        case list() | tuple():
            return f"[{', '.join(map(render_value, value))}]"
        case timedelta():
            return f"'{duration_text(value)}'"
        case _:
            return str(value)


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character >= " " else f"\\u{ord(character):04x}"


_LABELS: Final = {
    Or: "or",
    And: "and",
    Not: "not",
    Negative: "negative",
    ListOf: "list",
    Index: "index",
}


def tree(expression: Expression) -> str:
    """Return the syntax tree, one node a line, children indented below their parent."""
    return "\n".join(_branches(expression.root, 0))


def _branches(node: Node, level: int) -> Iterator[str]:
    yield "  " * level + _label(node)
    for child in children(node):
        yield from _branches(child, level + 1)


def _label(node: Node) -> str:
    match node:
        case Compare(operator=operator) | Arithmetic(operator=operator):
            return str(operator)
        case FunctionCall(function=function):
            return f"{function}()"
        case Variable():
            return f"variable {render_node(node)}"
        case Literal(kind=kind, value=value):
            return "null" if value is None else f"{kind} {render_value(value)}"
        case _:
            return _LABELS[type(node)]
