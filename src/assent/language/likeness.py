"""Which types may stand on the two sides of an operator."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from assent.language.render import render_node
from assent.language.syntax import ORDERING, Compare, Literal, Node, Operator
from assent.language.types import NUMBERS, ORDERED, TIMES, Type, TypeKind
from assent.language.values import as_decimal, as_time
from assent.model.hints import nearest


@dataclass(frozen=True, slots=True)
class Typed:
    """A node with its type."""

    node: Node
    type: Type
    items: tuple["Typed", ...] = ()
    """What stands in a list in brackets."""
    part: str = ""
    """What of the node is meant, when it is not the whole."""

    @property
    def kind(self) -> TypeKind:
        return self.type.kind

    def __str__(self) -> str:
        return f"{self.part}`{render_node(self.node)}` is {self.type}"


@dataclass(frozen=True, slots=True)
class Complaint:
    code: str
    message: str
    node: Node
    hint: str | None = None


_FAMILIES: Final[Mapping[TypeKind, str]] = {
    **dict.fromkeys(NUMBERS, "number"),
    **dict.fromkeys(TIMES, "time"),
    **{kind: kind.value for kind in (TypeKind.BOOLEAN, TypeKind.TEXT, TypeKind.LIST, TypeKind.OBJECT)},
}
_UNSAID: Final = frozenset({TypeKind.UNKNOWN, TypeKind.NULL})


def complaints(compare: Compare, left: Typed, right: Typed) -> Iterator[Complaint]:
    """What is wrong with comparing `left` and `right` so."""
    match compare.operator:
        case Operator.IN:
            yield from _membership(compare, left, right)
        case Operator.CONTAINS if left.kind is not TypeKind.TEXT:
            yield from _membership(compare, right, left)
        case Operator.CONTAINS | Operator.STARTS_WITH | Operator.ENDS_WITH:
            yield from _text_only(compare, left, right)
        case _:
            yield from _comparison(compare, left, right)


def _text_only(compare: Compare, *sides: Typed) -> Iterator[Complaint]:
    for side in sides:
        if side.kind not in (TypeKind.TEXT, TypeKind.UNKNOWN):
            yield Complaint("UNLIKE_TYPES", f"`{compare.operator}` is for text, but {side}", side.node)


def _membership(compare: Compare, needle: Typed, stack: Typed) -> Iterator[Complaint]:
    if stack.kind is TypeKind.UNKNOWN:
        return
    if stack.kind is TypeKind.LIST:
        for item in stack.items or _declared_items(stack):
            yield from _equality(compare, needle, item)
    elif stack.kind is TypeKind.OBJECT:
        if needle.kind not in (TypeKind.TEXT, TypeKind.INTEGER, TypeKind.UNKNOWN):
            yield Complaint("UNLIKE_TYPES", f"keys of an object are text, but {needle}", needle.node)
    else:
        message = f"`{compare.operator}` looks into a list or an object, but {stack}"
        hint = "for a part of a text, write text contains 'part'" if stack.kind is TypeKind.TEXT else None
        yield Complaint("NOT_A_COLLECTION", message, stack.node, hint)


def _declared_items(stack: Typed) -> Iterator[Typed]:
    if stack.type.item is not None:
        yield Typed(stack.node, stack.type.item, part="an item of ")


def _comparison(compare: Compare, left: Typed, right: Typed) -> Iterator[Complaint]:
    found = list(_equality(compare, left, right))
    yield from found
    if compare.operator in ORDERING and not found:
        for side in (left, right):
            if side.kind not in ORDERED | {TypeKind.UNKNOWN} or side.type.values:
                yield Complaint("NOT_ORDERED", f"there is no order: {side}", side.node, "use == or !=")


def _equality(compare: Compare, left: Typed, right: Typed) -> Iterator[Complaint]:
    if left.kind in _UNSAID or right.kind in _UNSAID:
        return
    literals = [(a, b) for a, b in ((left, right), (right, left)) if _stands_in(a, b)]
    if literals:
        for literal, declared in literals:
            yield from _misspelled(literal, declared)
    elif _FAMILIES[left.kind] != _FAMILIES[right.kind] or _disjoint(left.type, right.type):
        yield Complaint("UNLIKE_TYPES", f"{left} and {right}, which are never alike", compare)
    else:
        yield from _fraction(compare, left, right)


def _disjoint(left: Type, right: Type) -> bool:
    return bool(left.values and right.values) and not set(left.values) & set(right.values)


def _stands_in(literal: Typed, declared: Typed) -> bool:
    """Whether a quoted text stands for a value of a narrower type."""
    is_text = isinstance(literal.node, Literal) and literal.kind is TypeKind.TEXT
    return is_text and (declared.kind in TIMES | {TypeKind.DECIMAL} or bool(declared.type.values))


def _misspelled(literal: Typed, declared: Typed) -> Iterator[Complaint]:
    text = str(cast("Literal", literal.node).value)
    if declared.type.values:
        if text not in declared.type.values:
            near = nearest(text, declared.type.values)
            hint = f"did you mean '{near}'?" if near else None
            yield Complaint("NOT_AN_ENUM_VALUE", f"{declared}, never '{text}'", literal.node, hint)
    elif declared.kind is TypeKind.DECIMAL:
        if as_decimal(text) is text:
            yield Complaint("BAD_LITERAL", f"{declared}, but '{text}' is not a number", literal.node)
    elif as_time(text) is text:
        hint = "write it as 2026-01-31 or 2026-01-31T09:00:00Z"
        yield Complaint("BAD_LITERAL", f"{declared}, but '{text}' is not ISO 8601", literal.node, hint)


def _fraction(compare: Compare, left: Typed, right: Typed) -> Iterator[Complaint]:
    for literal, declared in ((left, right), (right, left)):
        if isinstance(literal.node, Literal) and literal.kind is TypeKind.DECIMAL:
            if declared.kind is TypeKind.MONEY:
                hint = "money counts minor units: 19.99 is written 1999"
                yield Complaint("UNLIKE_TYPES", f"{declared}, which has no fractions", compare, hint)
            elif declared.kind is TypeKind.INTEGER and not isinstance(declared.node, Literal):
                yield Complaint("UNLIKE_TYPES", f"{declared}, which has no fractions", compare)
