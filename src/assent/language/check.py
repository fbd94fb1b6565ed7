"""Static checks: every variable exists, and only like is compared with like.

Whatever has no declared type is let through; `assent.language.values` defines what happens with it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from assent.language.render import render_node
from assent.language.syntax import (
    ORDERING,
    And,
    Compare,
    Expression,
    Index,
    ListOf,
    Literal,
    Node,
    Not,
    Operator,
    Or,
    TextSpan,
    Variable,
    marked,
)
from assent.language.types import BOOLEAN, NUMBERS, ORDERED, TIMES, UNKNOWN, Scope, Type, TypeKind, list_of
from assent.language.values import as_decimal, as_time
from assent.model.problems import HINTS_MAX, Problem, nearest


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


def check(expression: Expression, scope: Scope) -> tuple[Type, list[Problem]]:
    """The type of what the expression yields, and everything that cannot be right in it."""
    checker = _Checker(scope, expression.text)
    return checker.visit(expression.root), checker.problems


def check_condition(expression: Expression, scope: Scope) -> list[Problem]:
    """The problems of an expression that must say yes or no."""
    checker = _Checker(scope, expression.text)
    checker.visit_condition(expression.root)
    return checker.problems


def infer(node: Node, scope: Scope) -> Type:
    """The type of a node; unknown where nothing is declared."""
    return _Checker(scope, "").visit(node)


class _Checker:
    """One walk over a tree: gives each node its type and notes what is wrong."""

    def __init__(self, scope: Scope, text: str) -> None:
        self._scope = scope
        self._text = text
        self.problems: list[Problem] = []

    def visit(self, node: Node) -> Type:
        match node:
            case Literal(kind=kind):
                return Type(kind)
            case Variable():
                return self._variable(node)
            case Index():
                return self._index(node)
            case ListOf(items=items):
                return _list_type([self.visit(item) for item in items])
            case Compare(left=left, right=right):
                for complaint in complaints(node, self._typed(left), self._typed(right)):
                    self._note(complaint.code, complaint.message, complaint.node, complaint.hint)
            case Not(operand=operand):
                self.visit_condition(operand)
            case And(parts=parts) | Or(parts=parts):
                for part in parts:
                    self.visit_condition(part)
        return BOOLEAN

    def visit_condition(self, node: Node) -> None:
        found = self.visit(node)
        if found.kind not in (TypeKind.BOOLEAN, TypeKind.UNKNOWN):
            message = f"expected a condition that is true or false, but `{render_node(node)}` is {found}"
            self._note("NOT_A_CONDITION", message, node, "compare it with something")

    def _note(self, code: str, message: str, node: Node, hint: str | None = None) -> None:
        self.problems.append(marked(code, message, self._text, node.span, hint))

    def _typed(self, node: Node) -> Typed:
        if not isinstance(node, ListOf):
            return Typed(node, self.visit(node))
        items = tuple(self._typed(item) for item in node.items)
        return Typed(node, _list_type([item.type for item in items]), items)

    def _variable(self, node: Variable) -> Type:
        root, *names = node.path
        if root not in self._scope.roots:
            if not self._scope.open:
                self._unknown(node.span, f"there is no variable `{root}` here", root, self._scope.roots)
            return UNKNOWN
        found, so_far = self._scope.roots[root], root
        for name in names:
            inner = found.member(name)
            if inner is None:
                lack = "has no" if found.fields else f"is {found} and has no"
                self._unknown(
                    self._part(node, so_far, name), f"`{so_far}` {lack} `{name}`", name, found.fields
                )
                return UNKNOWN
            found, so_far = inner, f"{so_far}.{name}"
        return found

    def _part(self, node: Variable, before: str, name: str) -> TextSpan:
        """Where `name` stands in a variable that is written without aliases and brackets; else all of it."""
        start = node.span.start + len(before) + 1
        span = TextSpan(start, start + len(name))
        return span if self._text[node.span.start : span.end] == f"{before}.{name}" else node.span

    def _unknown(self, span: TextSpan, message: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = nearest(name, names) if len(self.problems) < HINTS_MAX else None
        all_names = f"known here: {', '.join(names[:12])}" if names else None
        hint = f"did you mean `{near}`?" if near else all_names
        self.problems.append(marked("UNKNOWN_VARIABLE", message, self._text, span, hint))

    def _index(self, node: Index) -> Type:
        target, key = self.visit(node.target), self.visit(node.key)
        if target.kind not in (TypeKind.UNKNOWN, TypeKind.LIST, TypeKind.OBJECT):
            message = f"`{render_node(node.target)}` is {target} and cannot be indexed"
            self._note("NOT_A_COLLECTION", message, node)
            return UNKNOWN
        wanted = TypeKind.INTEGER if target.kind is TypeKind.LIST else TypeKind.TEXT
        if key.kind not in (wanted, TypeKind.INTEGER, TypeKind.UNKNOWN):
            message = f"expected {Type(wanted)} as index, but `{render_node(node.key)}` is {key}"
            self._note("BAD_INDEX", message, node.key)
        if target.kind is TypeKind.LIST:
            return target.item or UNKNOWN
        return self._entry(node, target)

    def _entry(self, node: Index, target: Type) -> Type:
        if not isinstance(node.key, Literal):
            return UNKNOWN
        name = str(node.key.value)
        found = target.member(name)
        if found is None:
            self._unknown(node.span, f"`{render_node(node.target)}` has no `{name}`", name, target.fields)
        return found or UNKNOWN


def _list_type(items: list[Type]) -> Type:
    kinds = {item.kind for item in items}
    return list_of(Type(kinds.pop()) if len(kinds) == 1 else UNKNOWN)
