"""Static checks: every variable exists, and only like is compared with like.

Whatever has no declared type is let through; `assent.language.values` defines what happens with it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from assent.language.functions import CONDITIONS_ON_LISTS, IF, LIST_FUNCTIONS, PARAMETERS, result_type
from assent.language.render import render_node
from assent.language.syntax import (
    ORDERING,
    SUMS,
    And,
    Arithmetic,
    ArithmeticOperator,
    Compare,
    Expression,
    FunctionCall,
    Index,
    ListOf,
    Literal,
    Negative,
    Node,
    Not,
    Operator,
    Or,
    TextSpan,
    Variable,
    marked,
)
from assent.language.types import (
    BOOLEAN,
    DECIMAL,
    DURATION,
    INTEGER,
    NUMBERS,
    ORDERED,
    TIMES,
    UNKNOWN,
    Scope,
    Type,
    TypeKind,
    list_of,
)
from assent.language.values import as_decimal, as_duration, as_time, is_number
from assent.model.patterns import compile_pattern
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
    **{
        kind: kind.value
        for kind in (TypeKind.BOOLEAN, TypeKind.TEXT, TypeKind.DURATION, TypeKind.LIST, TypeKind.OBJECT)
    },
}
_UNSAID: Final = frozenset({TypeKind.UNKNOWN, TypeKind.NULL})


def complaints(compare: Compare, left: Typed, right: Typed) -> Iterator[Complaint]:
    """Yield what is wrong with comparing `left` and `right` so."""
    match compare.operator:
        case Operator.IN:
            yield from _membership(compare, left, right)
        case Operator.CONTAINS if left.kind is not TypeKind.TEXT:
            yield from _membership(compare, right, left)
        case Operator.CONTAINS | Operator.STARTS_WITH | Operator.ENDS_WITH:
            yield from _text_only(compare, left, right)
        case Operator.MATCHES:
            yield from _text_only(compare, left)
            yield from _pattern(right)
        case _:
            yield from _comparison(compare, left, right)


def _text_only(compare: Compare, *sides: Typed) -> Iterator[Complaint]:
    for side in sides:
        if side.kind not in (TypeKind.TEXT, TypeKind.UNKNOWN):
            yield Complaint("UNLIKE_TYPES", f"`{compare.operator}` is for text, but {side}", side.node)


def _pattern(side: Typed) -> Iterator[Complaint]:
    if not isinstance(side.node, Literal) or side.kind is not TypeKind.TEXT:
        message = f"`matches` takes a pattern in quotes, found `{render_node(side.node)}`"
        yield Complaint("BAD_PATTERN", message, side.node)
    elif isinstance(found := compile_pattern(str(side.node.value)), str):
        hint = "patterns are regular expressions of RE2: no look-around, no back references"
        yield Complaint("BAD_PATTERN", f"this is no pattern: {found}", side.node, hint)


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
    """Return whether a quoted text stands for a value of a narrower type."""
    is_text = isinstance(literal.node, Literal) and literal.kind is TypeKind.TEXT
    stands_for = TIMES | {TypeKind.DECIMAL, TypeKind.DURATION}
    return is_text and (declared.kind in stands_for or bool(declared.type.values))


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
    elif declared.kind is TypeKind.DURATION:
        if as_duration(text) is text:
            hint = "write it as 90s, 15m, 24h or 3d"
            yield Complaint("BAD_LITERAL", f"{declared}, but '{text}' is no duration", literal.node, hint)
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


def arithmetic(node: Arithmetic, left: Typed, right: Typed) -> tuple[Type, list[Complaint]]:
    """Return the type of what an operation yields, and what is wrong with it."""
    sides = [_operand(side) for side in (left, right)]
    found = [complaint for _, complaint in sides if complaint is not None]
    a, b = (kind for kind, _ in sides)
    if found or TypeKind.UNKNOWN in (a, b):
        return UNKNOWN, found
    if node.operator is ArithmeticOperator.DIVIDED and _is_zero(right.node):
        return UNKNOWN, [Complaint("BAD_LITERAL", "nothing can be divided by zero", right.node)]
    result = _result(node, a, b, right.node)
    if result is not None:
        return result, []
    is_money = a is b is TypeKind.MONEY
    hint = "money times money is no money" if is_money else None
    message = f"there is no `{node.operator}` of these: {left} and {right}"
    return UNKNOWN, [Complaint("UNLIKE_TYPES", message, node, hint)]


def _operand(side: Typed) -> tuple[TypeKind, Complaint | None]:
    """Return the kind of an operand; that of a text in quotes is what it stands for."""
    if side.kind is TypeKind.TEXT and isinstance(side.node, Literal):
        kind = _stood_for(str(side.node.value))
        if kind is None:
            hint = "text stands for a number, a time or a duration; to join texts, write concat(a, b)"
            message = f"{side}, which cannot be computed with"
            return TypeKind.UNKNOWN, Complaint("BAD_LITERAL", message, side.node, hint)
        return kind, None
    if side.kind in NUMBERS | TIMES | {TypeKind.DURATION, TypeKind.UNKNOWN}:
        return side.kind, None
    advice = "to join texts, write concat(a, b)" if side.kind is TypeKind.TEXT else None
    message = f"{side}, which cannot be computed with"
    return TypeKind.UNKNOWN, Complaint("UNLIKE_TYPES", message, side.node, advice)


def _stood_for(text: str) -> TypeKind | None:
    if as_decimal(text) is not text:
        return TypeKind.DECIMAL
    if as_duration(text) is not text:
        return TypeKind.DURATION
    if as_time(text) is not text:
        return TypeKind.DATE if len(text) == len("2026-01-31") else TypeKind.DATETIME
    return None


def _is_zero(node: Node) -> bool:
    if not isinstance(node, Literal):
        return False
    found = as_decimal(node.value)
    return is_number(found) and found == 0


def _result(node: Arithmetic, left: TypeKind, right: TypeKind, right_node: Node) -> Type | None:  # noqa: PLR0911
    """Return the type that an operation on two kinds yields; None if there is no such operation."""
    is_sum, duration = node.operator in SUMS, TypeKind.DURATION
    if left in NUMBERS and right in NUMBERS:
        if left is right is TypeKind.MONEY and node.operator is ArithmeticOperator.TIMES:
            return None
        return DECIMAL if node.operator is ArithmeticOperator.DIVIDED else Type(_wider(left, right))
    if left is duration and right is duration:
        return DURATION if is_sum else DECIMAL if node.operator is ArithmeticOperator.DIVIDED else None
    if left in TIMES and right is duration:
        return Type(_shifted(left, right_node)) if is_sum else None
    if left is duration and right in TIMES:
        return Type(TypeKind.DATETIME) if node.operator is ArithmeticOperator.PLUS else None
    if left in TIMES and right in TIMES:
        return DURATION if node.operator is ArithmeticOperator.MINUS else None
    if left is duration and right in NUMBERS:
        return None if is_sum else DURATION
    scales = left in NUMBERS and right is duration and node.operator is ArithmeticOperator.TIMES
    return DURATION if scales else None


def _wider(left: TypeKind, right: TypeKind) -> TypeKind:
    order = (TypeKind.DECIMAL, TypeKind.MONEY, TypeKind.INTEGER)
    return min(left, right, key=order.index)


def _shifted(moment: TypeKind, length: Node) -> TypeKind:
    """Return the kind of a moment moved by a length of time: a date and whole days are a date."""
    is_whole = isinstance(length, Literal) and str(length.value).endswith("d")
    return moment if is_whole else TypeKind.DATETIME


def _either(left: Type, right: Type) -> Type:
    """Return the type of a value that has one type or the other."""
    if left == right or right.kind is TypeKind.NULL:
        return left
    if left.kind is TypeKind.NULL:
        return right
    if left.kind in NUMBERS and right.kind in NUMBERS:
        return Type(_wider(left.kind, right.kind))
    is_plain = left.kind is right.kind and left.kind not in (TypeKind.LIST, TypeKind.OBJECT)
    return Type(left.kind) if is_plain else UNKNOWN


def check(expression: Expression, scope: Scope) -> tuple[Type, list[Problem]]:
    """Return the type of what the expression yields, and everything that cannot be right in it."""
    checker = _Checker(scope, expression.text)
    return checker.visit(expression.root), checker.problems


def check_condition(expression: Expression, scope: Scope) -> list[Problem]:
    """Return the problems of an expression that must say yes or no."""
    checker = _Checker(scope, expression.text)
    checker.visit_condition(expression.root)
    return checker.problems


def infer(node: Node, scope: Scope) -> Type:
    """Return the type of a node; unknown where nothing is declared."""
    return _Checker(scope, "").visit(node)


class _Checker:
    """One walk over a tree: gives each node its type and notes what is wrong."""

    def __init__(self, scope: Scope, text: str) -> None:
        self._scope = scope
        self._text = text
        self.problems: list[Problem] = []

    def visit(self, node: Node) -> Type:  # noqa: PLR0911 - one return for each form
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
                self._note_all(complaints(node, self._typed(left), self._typed(right)))
            case Not(operand=operand):
                self.visit_condition(operand)
            case And(parts=parts) | Or(parts=parts):
                for part in parts:
                    self.visit_condition(part)
            case Arithmetic(left=left, right=right):
                found, wrong = arithmetic(node, self._typed(left), self._typed(right))
                self._note_all(wrong)
                return found
            case Negative():
                return self._negative(node)
            case FunctionCall():
                return self._call(node)
        return BOOLEAN

    def visit_condition(self, node: Node) -> None:
        found = self.visit(node)
        if found.kind not in (TypeKind.BOOLEAN, TypeKind.UNKNOWN):
            message = f"expected a condition that is true or false, but `{render_node(node)}` is {found}"
            self._note("NOT_A_CONDITION", message, node, "compare it with something")

    def _note(self, code: str, message: str, node: Node, hint: str | None = None) -> None:
        self.problems.append(marked(code, message, self._text, node.span, hint))

    def _note_all(self, found: Iterable[Complaint]) -> None:
        for complaint in found:
            self._note(complaint.code, complaint.message, complaint.node, complaint.hint)

    def _negative(self, node: Negative) -> Type:
        side = self._typed(node.operand)
        kind, complaint = _operand(side)
        if complaint is None and kind in TIMES:
            complaint = Complaint("UNLIKE_TYPES", f"there is no `-` of a time: {side}", node)
        self._note_all([complaint] if complaint else [])
        return UNKNOWN if complaint else Type(kind)

    def _call(self, call: FunctionCall) -> Type:
        if call.function == IF:
            condition, *values = call.arguments
            self.visit_condition(condition)
            return _either(*map(self.visit, values))
        if call.function in LIST_FUNCTIONS:
            return self._over_items(call)
        found = [self._typed(argument) for argument in call.arguments]
        for side, wanted in zip(found, PARAMETERS[call.function], strict=False):
            if side.kind not in wanted | {TypeKind.UNKNOWN}:
                expected = " or ".join(str(Type(kind)) for kind in TypeKind if kind in wanted)
                message = f"`{call.function}` takes {expected} here, but {side}"
                self._note("UNLIKE_TYPES", message, side.node)
        return result_type(call.function, [side.type for side in found])

    def _over_items(self, call: FunctionCall) -> Type:
        source = self._typed(call.arguments[0])
        if source.kind not in (TypeKind.LIST, TypeKind.UNKNOWN):
            message = f"`{call.function}` goes through a list, but {source}"
            self._note("NOT_A_COLLECTION", message, source.node)
            return UNKNOWN
        item = source.type.item or UNKNOWN
        if call.function == "count" and len(call.arguments) == 1:
            return INTEGER
        found = self._value_of_item(call, item)
        if call.function in CONDITIONS_ON_LISTS:
            return INTEGER if call.function == "count" else BOOLEAN
        if call.function == "map":
            return list_of(found)
        return self._folded(call, found)

    def _value_of_item(self, call: FunctionCall, item: Type) -> Type:
        """Return the type of what is evaluated for each item."""
        outer, self._scope = self._scope, self._scope.with_roots(item=item)
        try:
            body = call.arguments[1] if len(call.arguments) > 1 else None
            if call.function not in CONDITIONS_ON_LISTS:
                return item if body is None else self.visit(body)
            if body is not None:
                self.visit_condition(body)
            elif item.kind not in (TypeKind.BOOLEAN, TypeKind.UNKNOWN):
                message = f"`{call.function}` needs a condition of an item: an item is {item}"
                self._note("NOT_A_CONDITION", message, call, f"write {call.function}(list, item == 'x')")
            return BOOLEAN
        finally:
            self._scope = outer

    def _folded(self, call: FunctionCall, found: Type) -> Type:
        """Return the type of a sum, or of the smallest or largest value."""
        node = call.arguments[-1]
        if call.function == "sum":
            if found.kind not in NUMBERS | {TypeKind.DURATION, TypeKind.UNKNOWN}:
                self._note("UNLIKE_TYPES", f"`sum` adds numbers or durations, this is {found}", node)
                return UNKNOWN
        elif found.kind not in ORDERED | {TypeKind.UNKNOWN} or found.values:
            self._note("NOT_ORDERED", f"there is no order of {found}", node)
            return UNKNOWN
        return found

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
        """Return where `name` stands in a variable that is written without aliases and brackets; else all of it."""
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
