"""Lowers a syntax tree to closures: chooses, for each node, the closure that fits its shape and types."""

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeGuard

from assent.language import closures, values
from assent.language.check import infer
from assent.language.closures import Run, Test
from assent.language.functions import APPLY, IF, ITEM, LIST_FUNCTIONS
from assent.language.render import render_node
from assent.language.syntax import (
    EQUALITY,
    And,
    Arithmetic,
    Compare,
    FunctionCall,
    Index,
    ListOf,
    Literal,
    Negative,
    Node,
    Not,
    Operator,
    Or,
    Variable,
)
from assent.language.types import TIMES, UNKNOWN, Scope, Type, TypeKind
from assent.model.patterns import compile_pattern

Convert = Callable[[Any], Any]

_TESTS: Final[Mapping[Operator, tuple[Test, Test]]] = {
    # The first for plain values of one type, the second for any values.
    Operator.EQUAL: (operator.eq, values.same),
    Operator.NOT_EQUAL: (operator.ne, values.different),
    Operator.GREATER: (operator.gt, partial(values.ordered, operator.gt)),
    Operator.GREATER_OR_EQUAL: (operator.ge, partial(values.ordered, operator.ge)),
    Operator.LESS: (operator.lt, partial(values.ordered, operator.lt)),
    Operator.LESS_OR_EQUAL: (operator.le, partial(values.ordered, operator.le)),
}
_SEARCHES: Final[Mapping[Operator, Callable[[Run, Run], Run]]] = {
    Operator.CONTAINS: closures.containment,
    Operator.STARTS_WITH: partial(closures.tested, values.starts_with),
    Operator.ENDS_WITH: partial(closures.tested, values.ends_with),
}


def body_of(call: FunctionCall) -> Node | None:
    """Return what a function of lists evaluates for each item; None where it only counts them."""
    if len(call.arguments) > 1:
        return call.arguments[1]
    return None if call.function == "count" else Variable((ITEM,))


def reads_item(node: Variable | Index) -> bool:
    """Return whether a path begins at the item of a list."""
    while isinstance(node, Index):
        node = node.target
    return node.path[0] == ITEM


class Lowering:
    """Lowers one expression, with or without a record of the variables that it reads.

    `items`: the name under which items of the list around are recorded, `entity.lines[]`; empty if they are not.
    """

    def __init__(self, scope: Scope, *, record: bool, items: str | None = None) -> None:
        self._scope = scope
        self._record = record
        self._items = items

    @property
    def _is_inside(self) -> bool:
        return self._items is not None

    def inside(self, call: FunctionCall, items: str | None = None) -> "Lowering":
        """Return the lowering of what is evaluated for each item of a list."""
        found = infer(call.arguments[0], self._scope).item or UNKNOWN
        name = self._name_of_items(call.arguments[0]) if items is None else items
        return Lowering(self._scope.with_roots(item=found), record=self._record, items=name)

    def _name_of_items(self, source: Node) -> str:
        if not isinstance(source, Variable | Index):
            return ""
        name = self._name_of(source)
        return f"{name}[]" if name else ""

    def _name_of(self, node: Variable | Index) -> str:
        """Return the name under which a value is recorded; empty if it is not."""
        name = render_node(node)
        if self._items is None or not reads_item(node):
            return name
        return f"{self._items}{name.removeprefix(ITEM)}" if self._items else ""

    def lower(self, node: Node) -> Run:
        match node:
            case Variable() | Index():
                lowered = self._recorded(node) if self._record else self._reader(node)
            case Literal(value=value):
                lowered = closures.constant(value)
            case ListOf(items=items):
                lowered = closures.listed([self.lower(item) for item in items])
            case Not(operand=operand):
                lowered = closures.negation(self.lower(operand))
            case And(parts=parts):
                lowered = closures.conjunction([self.lower(part) for part in parts])
            case Or(parts=parts):
                lowered = closures.disjunction([self.lower(part) for part in parts])
            case Compare():
                lowered = self._compare(node)
            case Arithmetic(operator=operator, left=left, right=right):
                lowered = closures.computed(operator, self.lower(left), self.lower(right))
            case Negative(operand=operand):
                lowered = closures.negative(self.lower(operand))
            case FunctionCall():
                lowered = self._call(node)
        return lowered

    def _recorded(self, node: Variable | Index) -> Run:
        if self._is_inside:
            return self._recorded_inside(node, self._reader(node))
        if isinstance(node, Variable) and len(node.path) == 2:
            return closures.recorded_field_reader(*node.path)
        return closures.recorded(self._reader(node), render_node(node))

    def _recorded_inside(self, node: Variable | Index, reader: Run) -> Run:
        name = self._name_of(node)
        if not name:
            return reader
        each = reads_item(node) and self._items != ITEM
        return (closures.recorded_of_items if each else closures.recorded)(reader, name)

    def _reader(self, node: Variable | Index) -> Run:
        if self._is_inside and not reads_item(node):
            return closures.counted(self._plain_reader(node))
        return self._plain_reader(node)

    def _plain_reader(self, node: Variable | Index) -> Run:
        if isinstance(node, Index):
            # Of `org.owners[entity.cost_center]` the entry and the key are evidence; all the owners are not.
            return closures.index(self._plain_reader(node.target), self.lower(node.key))
        is_field = len(node.path) == 2
        return closures.field_reader(*node.path) if is_field else closures.path_reader(node.path)

    def _call(self, call: FunctionCall) -> Run:
        if call.function not in LIST_FUNCTIONS:
            arguments = [self.lower(argument) for argument in call.arguments]
            if call.function == IF:
                return closures.choice(*arguments)
            return closures.applied(APPLY[call.function], arguments)
        lowered = self._over_items(call)
        is_recorded = self._record and not self._is_inside
        return closures.recorded(lowered, render_node(call)) if is_recorded else lowered

    def _over_items(self, call: FunctionCall) -> Run:
        source, body = self.source(call.arguments[0]), body_of(call)
        if body is None:
            return closures.length_of_list(source)
        inside = self.inside(call)
        run = inside.lower(body)
        convert = inside._conversion(body) if call.function in ("min", "max") else None
        return closures.over_items(
            call.function, source, closures.converted(run, convert) if convert else run
        )

    def source(self, node: Node) -> Run:
        """Return the list that a function goes through; what it reads of items is recorded, the whole list is not."""
        if not isinstance(node, Variable | Index):
            return self.lower(node)
        name = self._name_of(node)
        if not self._record or not name or (self._is_inside and reads_item(node)):
            return self._reader(node)
        return closures.recorded_unless_list(self._reader(node), name)

    def _compare(self, node: Compare) -> Run:
        convert = self._conversion(node.left) or self._conversion(node.right)
        if node.operator is Operator.IN:
            return self._membership(node, convert)
        if node.operator is Operator.MATCHES:
            return self._match(node)
        left, right = self._operand(node.left, convert), self._operand(node.right, convert)
        if node.operator in _SEARCHES:
            return _SEARCHES[node.operator](left, right)
        fixed = _fixed(node.right, convert)
        if node.operator in EQUALITY and (fixed is None or isinstance(fixed, bool)):
            return closures.identity(left, fixed, wanted=node.operator is Operator.EQUAL)
        plain = closures.PLAIN_TIMES if convert is values.as_time else closures.PLAIN
        if type(fixed) in plain:
            return closures.against_constant(left, fixed, _TESTS[node.operator])
        return closures.comparison(left, right, _TESTS[node.operator], plain)

    def _match(self, node: Compare) -> Run:
        text, pattern = self.lower(node.left), node.right
        found = compile_pattern(str(pattern.value)) if _is_text(pattern) else ""
        # Whatever is no pattern matches nothing; the check refuses it.
        return closures.matched(text, _never if isinstance(found, str) else found)

    def _membership(self, node: Compare, convert: Convert | None) -> Run:
        needle = self._operand(node.left, convert)
        if isinstance(node.right, ListOf):
            fixed = [_fixed(item, convert) for item in node.right.items]
            if all(isinstance(item, str) for item in fixed):
                return closures.among_texts(needle, frozenset(fixed))
        return closures.membership(needle, self._operand(node.right, convert))

    def _operand(self, node: Node, convert: Convert | None) -> Run:
        if convert is None:
            return self.lower(node)
        if isinstance(node, Literal):
            return closures.constant(convert(node.value))
        if isinstance(node, ListOf) and all(isinstance(item, Literal) for item in node.items):
            return closures.constant([_fixed(item, convert) for item in node.items])
        return closures.converted(self.lower(node), convert)

    def _conversion(self, node: Node) -> Convert | None:
        """Return how declared decimals and times are read, where they and their lists hold text."""
        found = infer(node, self._scope)
        if isinstance(node, Literal | ListOf):
            return None
        return _conversion_of(found) or (_conversion_of(found.item) if found.item else None)


def _conversion_of(found: Type) -> Convert | None:
    if found.kind is TypeKind.DECIMAL:
        return values.as_decimal
    if found.kind is TypeKind.DURATION:
        return values.as_duration
    return values.as_time if found.kind in TIMES else None


def _is_text(node: Node) -> TypeGuard[Literal]:
    return isinstance(node, Literal) and node.kind is TypeKind.TEXT


def _never(text: str) -> bool:
    return False


def _fixed(node: Node, convert: Convert | None) -> Any:
    """Return the value of a literal; for anything else nothing that could be one."""
    if not isinstance(node, Literal):
        return _UNFIXED
    return convert(node.value) if convert else node.value


_UNFIXED: Final = object()
