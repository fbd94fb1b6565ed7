"""Why a condition is true or false, in plain words: which part decided it, and with which values."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from assent.language.arithmetic import why_missing
from assent.language.closures import Read, Variables
from assent.language.functions import IF, ITEM, LIST_FUNCTIONS, ItemScope
from assent.language.lowering import Lowering, body_of
from assent.language.render import render_node, render_value
from assent.language.syntax import (
    ORDERING,
    And,
    Arithmetic,
    Compare,
    Expression,
    FunctionCall,
    Node,
    Not,
    Or,
    children,
)
from assent.language.types import OPEN, Scope
from assent.language.values import alike

_SHOWN_CHARACTERS_MAX: Final = 80


@dataclass(frozen=True, slots=True)
class Explanation:
    text: str
    """The part of the expression that is explained, in canonical spelling."""
    result: Any
    values: dict[str, Any]
    """What was read for it."""
    parts: tuple["Explanation", ...] = ()
    """The parts that decided the result."""
    remark: str = ""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, level: int = 0) -> Iterator[str]:
        head = f"{'  ' * level}{self.text} is {_word(self.result)}"
        if self.parts:
            yield f"{head}{self.remark}, because"
            for part in self.parts:
                yield from part.lines(level + 1)
        else:
            others = ((name, value) for name, value in self.values.items() if name != self.text)
            facts = ", ".join(f"{name} is {_word(value)}" for name, value in others)
            yield f"{head}: {facts}{self.remark}" if facts else f"{head}{self.remark}"


def explain(expression: Expression, variables: Variables, scope: Scope = OPEN) -> Explanation:
    """Return why the expression has the result that it has for these variables."""
    return _explain(expression.root, variables, Lowering(scope, record=True))


def _explain(node: Node, variables: Variables, lowering: Lowering) -> Explanation:
    read: Read = {}
    result = lowering.lower(node)(variables, read)
    if isinstance(node, FunctionCall):
        parts = tuple(_parts_of_call(node, result, variables, lowering))
    else:
        parts = tuple(_explain(part, variables, lowering) for part in _parts(node))
    if isinstance(node, And | Or):
        parts = _deciding(parts, result)
    remark = _remark(node, variables, lowering)
    return Explanation(render_node(node), result, read, parts, remark)


def _parts(node: Node) -> tuple[Node, ...]:
    if isinstance(node, And | Or):
        return node.parts
    return (node.operand,) if isinstance(node, Not) else ()


def _parts_of_call(
    call: FunctionCall, result: object, variables: Variables, lowering: Lowering
) -> Iterator[Explanation]:
    """Yield the condition of an `if` and the value that it chose, or the item that decided about a list."""
    if call.function == IF:
        condition = _explain(call.arguments[0], variables, lowering)
        yield condition
        yield _explain(call.arguments[1 if condition.result is True else 2], variables, lowering)
    elif call.function in _DECIDED_BY and (result is True) is not _DECIDED_BY[call.function]:
        yield from _deciding_item(call, variables, lowering)


_DECIDED_BY: Final = {"any": False, "all": True, "none": True}
"""The functions that one item decides, and what they are when none does."""


def _deciding_item(call: FunctionCall, variables: Variables, lowering: Lowering) -> Iterator[Explanation]:
    source, body = call.arguments[0], body_of(call)
    items = lowering.source(source)(variables, {})
    if body is None or not isinstance(items, list | tuple):
        return
    inside = lowering.inside(call, ITEM)
    run, decides = inside.lower(body), call.function != "all"
    for index, item in enumerate(items):
        scope = ItemScope(variables, item)
        if (run(scope, {}) is True) is decides:
            found = _explain(body, scope, inside)
            yield replace(found, remark=f"{found.remark}; item is {render_node(source)}[{index}]")
            return


def _deciding(parts: tuple[Explanation, ...], result: bool) -> tuple[Explanation, ...]:
    """Return the parts that decide: one false part of an `and`, one true part of an `or`; otherwise all of them."""
    return tuple(part for part in parts if (part.result is True) is result)


def _remark(node: Node, variables: Variables, lowering: Lowering) -> str:
    if isinstance(node, And | Or | Not):
        return ""
    if reason := _without_result(node, variables, lowering):
        return reason
    if not isinstance(node, Compare) or node.operator not in ORDERING:
        return ""
    left, right = (lowering.lower(side)(variables, {}) for side in (node.left, node.right))
    if left is None or right is None:
        return "; a missing value is in no order"
    return "" if alike(left, right) else "; these are of unlike types"


def _without_result(node: Node, variables: Variables, lowering: Lowering) -> str:
    """Say which operation in the node has no result, and why."""
    is_list = isinstance(node, FunctionCall) and node.function in LIST_FUNCTIONS
    for part in children(node)[:1] if is_list else children(node):
        if reason := _without_result(part, variables, lowering):
            return reason
    if not isinstance(node, Arithmetic) or lowering.lower(node)(variables, {}) is not None:
        return ""
    left, right = (lowering.lower(side)(variables, {}) for side in (node.left, node.right))
    return f"; `{render_node(node)}` has no result: {why_missing(node.operator, left, right)}"


def _word(value: object) -> str:
    if value is None:
        return "missing"
    text = render_value(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"
