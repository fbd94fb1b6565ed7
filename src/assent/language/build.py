"""Builds the nodes of an expression while the parser reads it, from the leaves up.

Spellings end here: `=` and `==`, `context.x` and `workflow.x`, `a['b']` and `a.b` are built alike.
"""

import re
from typing import Any, Final, NamedTuple, TypeVar, cast

from lark import Token, Transformer, v_args

from assent.language.complaints import SyntaxRefused
from assent.language.literals import constant_literal, number_literal, span_of, text_literal
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
    TextSpan,
    Variable,
    depth_of,
)
from assent.language.types import TypeKind

ROOT_ALIASES: Final = {"context": "workflow"}
PATH_ALIASES: Final[dict[tuple[str, ...], tuple[str, ...]]] = {("actor", "user_id"): ("actor", "id")}

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

N = TypeVar("N", bound=Node)


class _Step(NamedTuple):
    """One `.name` or `[key]` of a path."""

    key: Node
    span: TextSpan


@v_args(inline=True)
class Builder(Transformer[Token, Node]):
    """One method for each alternative of the grammar; raises `SyntaxRefused` for what grows too deep."""

    def either(self, *parts: Node) -> Node:
        flat = (inner for part in parts for inner in (part.parts if isinstance(part, Or) else (part,)))
        return _within_depth(Or(tuple(flat), span=parts[0].span.to(parts[-1].span)))

    def both(self, *parts: Node) -> Node:
        flat = (inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,)))
        return _within_depth(And(tuple(flat), span=parts[0].span.to(parts[-1].span)))

    def negated(self, sign: Token, operand: Node) -> Node:
        return _within_depth(Not(operand, span=span_of(sign).to(operand.span)))

    def compared(self, left: Node, sign: Token, right: Node) -> Node:
        operator = Operator("==" if sign == "=" else str(sign))
        return _within_depth(Compare(operator, left, right, span=left.span.to(right.span)))

    def listed(self, opening: Token, *rest: Any) -> Node:
        items, closing = rest[:-1], cast("Token", rest[-1])
        return _within_depth(ListOf(items, span=span_of(opening).to(span_of(closing))))

    def path(self, name: Token, *steps: _Step) -> Node:
        found: Variable | Index = Variable((ROOT_ALIASES.get(str(name), str(name)),), span=span_of(name))
        for step in steps:
            found = _within_depth(_stepped(found, step))
        return found

    def member(self, name: Token) -> _Step:
        return _Step(Literal(TypeKind.TEXT, str(name[1:]), span=span_of(name)), span_of(name))

    def index(self, opening: Token, key: Node, closing: Token) -> _Step:
        return _Step(key, span_of(closing))

    def number(self, token: Token) -> Node:
        return number_literal(token)

    def text(self, token: Token) -> Node:
        return text_literal(token)

    def constant(self, token: Token) -> Node:
        return constant_literal(token)


def is_name(value: object) -> bool:
    """Whether a key can be written after a dot."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _stepped(target: Variable | Index, step: _Step) -> Variable | Index:
    """`target` and one more step; a step by a plain name lengthens the variable's path."""
    span, key = target.span.to(step.span), step.key
    if isinstance(target, Variable) and isinstance(key, Literal) and is_name(key.value):
        path = (*target.path, cast("str", key.value))
        return Variable(PATH_ALIASES.get(path, path), span=span)
    return Index(target, key, span=span)


def _within_depth(node: N) -> N:
    # Called for every node as it is made, so `depth_of` never goes deeper than one level past the limit.
    if depth_of(node) > EXPRESSION_DEPTH_LEVELS_MAX:
        message = f"an expression is nested at most {EXPRESSION_DEPTH_LEVELS_MAX} levels deep"
        raise SyntaxRefused("EXPRESSION_TOO_DEEP", message, node.span, "split it over several edges or rules")
    return node
