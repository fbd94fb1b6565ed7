"""Lowers a syntax tree to closures: chooses, for each node, the closure that fits its shape and types."""

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from assent.language import closures, values
from assent.language.check import infer
from assent.language.closures import Run, Test
from assent.language.render import render_node
from assent.language.syntax import (
    EQUALITY,
    And,
    Compare,
    Index,
    ListOf,
    Literal,
    Node,
    Not,
    Operator,
    Or,
    Variable,
)
from assent.language.types import TIMES, Scope, Type, TypeKind

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


class Lowering:
    """Lowers one expression, with or without a record of the variables that it reads."""

    def __init__(self, scope: Scope, *, record: bool) -> None:
        self._scope = scope
        self._record = record

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
        return lowered

    def _recorded(self, node: Variable | Index) -> Run:
        if isinstance(node, Variable) and len(node.path) == 2:
            return closures.recorded_field_reader(*node.path)
        return closures.recorded(self._reader(node), render_node(node))

    def _reader(self, node: Variable | Index) -> Run:
        if isinstance(node, Index):
            # Of `org.owners[entity.cost_center]` the entry and the key are evidence; all the owners are not.
            return closures.index(self._reader(node.target), self.lower(node.key))
        is_field = len(node.path) == 2
        return closures.field_reader(*node.path) if is_field else closures.path_reader(node.path)

    def _compare(self, node: Compare) -> Run:
        convert = self._conversion(node.left) or self._conversion(node.right)
        if node.operator is Operator.IN:
            return self._membership(node, convert)
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
        """How declared decimals and times are read, where they and their lists hold text."""
        found = infer(node, self._scope)
        if isinstance(node, Literal | ListOf):
            return None
        return _conversion_of(found) or (_conversion_of(found.item) if found.item else None)


def _conversion_of(found: Type) -> Convert | None:
    if found.kind is TypeKind.DECIMAL:
        return values.as_decimal
    return values.as_time if found.kind in TIMES else None


def _fixed(node: Node, convert: Convert | None) -> Any:
    """The value of a literal; for anything else nothing that could be one."""
    if not isinstance(node, Literal):
        return _UNFIXED
    return convert(node.value) if convert else node.value


_UNFIXED: Final = object()
