"""Builds the nodes of an expression while the parser reads it, from the leaves up.

Spellings end here: `=` and `==`, `context.x` and `workflow.x`, `a['b']` and `a.b` are built alike.
"""

import re
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeVar, cast

from lark import Token, Transformer, v_args

from assent.language.complaints import SYNTAX, Refused
from assent.language.syntax import (
    EXPRESSION_DEPTH_LEVELS_MAX,
    And,
    Compare,
    Index,
    ListOf,
    Literal,
    Node,
    Not,
    Operator,
    Or,
    Span,
    Variable,
    depth_of,
)
from assent.language.types import Kind
from assent.model.canonical import INTEGER_MAX

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
ROOT_ALIASES: Final = {"context": "workflow"}
PATH_ALIASES: Final[dict[tuple[str, ...], tuple[str, ...]]] = {("actor", "user_id"): ("actor", "id")}

_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "'": "'", '"': '"', "\\": "\\"}

N = TypeVar("N", bound=Node)


class _Step(NamedTuple):
    """One `.name` or `[key]` of a path."""

    key: Node
    span: Span


@v_args(inline=True)
class Builder(Transformer[Token, Node]):
    """One method for each alternative of the grammar; raises `Refused` for what grows too deep."""

    def either(self, *parts: Node) -> Node:
        flat = tuple(inner for part in parts for inner in (part.parts if isinstance(part, Or) else (part,)))
        return _within_depth(Or(flat, span=parts[0].span.to(parts[-1].span)))

    def both(self, *parts: Node) -> Node:
        flat = tuple(inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,)))
        return _within_depth(And(flat, span=parts[0].span.to(parts[-1].span)))

    def negated(self, sign: Token, operand: Node) -> Node:
        return _within_depth(Not(operand, span=_span(sign).to(operand.span)))

    def compared(self, left: Node, sign: Token, right: Node) -> Node:
        operator = Operator("==" if sign == "=" else str(sign))
        return _within_depth(Compare(operator, left, right, span=left.span.to(right.span)))

    def listed(self, opening: Token, *rest: Any) -> Node:
        items, closing = rest[:-1], cast("Token", rest[-1])
        return _within_depth(ListOf(items, span=_span(opening).to(_span(closing))))

    def path(self, name: Token, *steps: _Step) -> Node:
        found: Variable | Index = Variable((ROOT_ALIASES.get(str(name), str(name)),), span=_span(name))
        for step in steps:
            found = _within_depth(stepped(found, step.key, found.span.to(step.span)))
        return found

    def member(self, name: Token) -> _Step:
        return _Step(Literal(Kind.TEXT, str(name[1:]), span=_span(name)), _span(name))

    def index(self, opening: Token, key: Node, closing: Token) -> _Step:
        return _Step(key, _span(closing))

    def number(self, token: Token) -> Node:
        value = exact_number(str(token))
        if isinstance(value, int) and abs(value) > INTEGER_MAX:
            raise Refused("NUMBER_NOT_KEPT", "integers end at ±2^53-1", _span(token))
        return Literal(Kind.INTEGER if isinstance(value, int) else Kind.DECIMAL, value, span=_span(token))

    def text(self, token: Token) -> Node:
        return Literal(Kind.TEXT, _unescaped(token), span=_span(token))

    def constant(self, token: Token) -> Node:
        value = _CONSTANTS[str(token)]
        return Literal(Kind.NULL if value is None else Kind.BOOLEAN, value, span=_span(token))


def stepped(target: Variable | Index, key: Node, span: Span) -> Variable | Index:
    """`target` and one more step; a step by a plain name lengthens the variable's path."""
    if isinstance(target, Variable) and isinstance(key, Literal) and is_name(key.value):
        path = (*target.path, cast("str", key.value))
        return Variable(PATH_ALIASES.get(path, path), span=span)
    return Index(target, key, span=span)


def is_name(value: object) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def exact_number(text: str) -> int | Decimal:
    """`1.50` is 1.5 and `2.0` is 2: one value for every spelling."""
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return Decimal(f"{whole}.{fraction}") if fraction else int(whole)


def _within_depth(node: N) -> N:
    # Called for every node as it is made, so `depth_of` never goes deeper than one level past the limit.
    if depth_of(node) > EXPRESSION_DEPTH_LEVELS_MAX:
        message = f"an expression is nested at most {EXPRESSION_DEPTH_LEVELS_MAX} levels deep"
        raise Refused("EXPRESSION_TOO_DEEP", message, node.span, "split it over several edges or rules")
    return node


def _unescaped(token: Token) -> str:
    def replacement(found: re.Match[str]) -> str:
        code, start = found[1], _span(token).start + 1 + found.start()
        if len(code) > 1:
            return _character(int(code[1:], 16), Span(start, start + 6))
        if code not in _ESCAPED:
            raise Refused(
                SYNTAX, f"`\\{code}` is not an escape", Span(start, start + 2), "a backslash is written \\\\"
            )
        return _ESCAPED[code]

    return _ESCAPE.sub(replacement, token[1:-1])


def _character(code: int, span: Span) -> str:
    if code == 0 or 0xD800 <= code <= 0xDFFF:
        raise Refused("TEXT_NOT_KEPT", "this is not a character that text can hold", span)
    return chr(code)


def _span(token: Token) -> Span:
    start = token.start_pos or 0
    return Span(start, start + len(token))
