"""Conditions as JSON, the form in which rule editors keep them.

`{"field": "entity.grand_total", "op": ">", "value": 1000}`, combined by `all`, `any` and `not`; `expression`
holds text. JSON becomes the same tree under the same limits, so that nothing else needs to know of it.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from assent.language.parse import exact_number, parse
from assent.language.render import render_node
from assent.language.syntax import (
    EXPRESSION_CHARACTERS_MAX,
    EXPRESSION_DEPTH_LEVELS_MAX,
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
    Variable,
)
from assent.language.types import TypeKind
from assent.model.canonical import NotCanonical, require_canonical
from assent.model.parse import shown
from assent.model.problems import Path, Problem

_OPERATORS: Final = {**{operator.value: operator for operator in Operator}, "=": Operator.EQUAL}


def from_json(value: object) -> tuple[Expression | None, list[Problem]]:
    """Return the expression that a JSON condition stands for; its text is the canonical one."""
    reader = _ConditionReader()
    node = reader.condition(value, ())
    if node is None or reader.problems:
        return None, reader.problems
    return parse(render_node(node))


def to_json(expression: Expression) -> dict[str, Any]:
    """Return the JSON condition that stands for an expression; what JSON has no form for stays text."""
    return _written(expression.root)


def _written(node: Node) -> dict[str, Any]:
    match node:
        case And(parts=parts):
            return {"all": [_written(part) for part in parts]}
        case Or(parts=parts):
            return {"any": [_written(part) for part in parts]}
        case Not(operand=operand):
            return {"not": _written(operand)}
        case Compare(operator=operator, left=Variable() | Index() as left, right=right) if _is_json(right):
            return {"field": render_node(left), "op": operator.value, "value": _plain(right)}
        case _:
            return {"expression": render_node(node)}


def _is_json(node: Node) -> bool:
    if isinstance(node, ListOf):
        return all(map(_is_json, node.items))
    return isinstance(node, Literal) and node.kind is not TypeKind.DECIMAL


def _plain(node: Node) -> Any:
    if isinstance(node, ListOf):
        return [_plain(item) for item in node.items]
    return node.value if isinstance(node, Literal) else None


class _ConditionReader:
    """Reads one JSON condition and notes what is wrong, each problem with its path."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._budget = EXPRESSION_CHARACTERS_MAX

    def condition(self, value: object, path: Path) -> Node | None:
        # No condition is shorter than a character, so more of them cannot fit into an expression.
        self._budget -= 1
        if self._budget < 0:
            return self._too_long(path) if self._budget == -1 else None
        if len(path) > 2 * EXPRESSION_DEPTH_LEVELS_MAX:
            return self._note("EXPRESSION_TOO_DEEP", "conditions are nested too deep here", path)
        if not isinstance(value, Mapping):
            return self._note("WRONG_TYPE", f"expected a condition, found {shown(value)}", path)
        form = _FORMS.get(frozenset(value))
        if form is None:
            found = ", ".join(map(str, list(value)[:5])) or "no keys"
            message = f"expected all, any, not, expression, or field with op and value; found {shown(found)}"
            return self._note("CONDITION_FORM", message, path)
        return form(self, value, path)

    def _note(self, code: str, message: str, path: Path) -> Node | None:
        self.problems.append(Problem(code, message, path))
        return None

    def _too_long(self, path: Path) -> Node | None:
        message = f"expected at most {EXPRESSION_CHARACTERS_MAX} conditions in one"
        return self._note("EXPRESSION_TOO_LONG", message, path)

    def _all(self, value: Mapping[str, Any], path: Path) -> Node | None:
        parts = self._parts(value["all"], (*path, "all"))
        return And(parts) if len(parts) > 1 else next(iter(parts), None)

    def _any(self, value: Mapping[str, Any], path: Path) -> Node | None:
        parts = self._parts(value["any"], (*path, "any"))
        return Or(parts) if len(parts) > 1 else next(iter(parts), None)

    def _parts(self, value: object, path: Path) -> tuple[Node, ...]:
        if not isinstance(value, list | tuple) or not value:
            self._note("WRONG_TYPE", f"expected a list of conditions, found {shown(value)}", path)
            return ()
        few = value[: EXPRESSION_CHARACTERS_MAX + 1]
        parts = [self.condition(part, (*path, index)) for index, part in enumerate(few)]
        return tuple(part for part in parts if part is not None)

    def _not(self, value: Mapping[str, Any], path: Path) -> Node | None:
        operand = self.condition(value["not"], (*path, "not"))
        return Not(operand) if operand is not None else None

    def _expression(self, value: Mapping[str, Any], path: Path) -> Node | None:
        return self._parsed(value["expression"], (*path, "expression"))

    def _comparison(self, value: Mapping[str, Any], path: Path) -> Node | None:
        operator = _OPERATORS.get(value["op"]) if isinstance(value["op"], str) else None
        if operator is None:
            known = " ".join(_OPERATORS)
            self._note("BAD_VALUE", f"expected one of {known}, found {shown(value['op'])}", (*path, "op"))
        left = self._field(value["field"], (*path, "field"))
        right = self._value(value["value"], (*path, "value"))
        if operator is None or left is None or right is None:
            return None
        return Compare(operator, left, right)

    def _parsed(self, text: object, path: Path) -> Node | None:
        if not isinstance(text, str):
            return self._note("WRONG_TYPE", f"expected an expression as text, found {shown(text)}", path)
        expression, problems = parse(text)
        self.problems += (problem.under(*path) for problem in problems)
        return expression.root if expression else None

    def _field(self, text: object, path: Path) -> Node | None:
        node = self._parsed(text, path)
        if node is None or isinstance(node, Variable | Index):
            return node
        return self._note("WRONG_TYPE", f"expected a variable, found {shown(text)}", path)

    def _value(self, value: object, path: Path) -> Node | None:
        if isinstance(value, Mapping) and frozenset(value) == {"field"}:
            return self._field(value["field"], (*path, "field"))
        try:
            require_canonical(value)
        except NotCanonical as error:
            return self._note(error.code, str(error), (*path, *error.path))
        if isinstance(value, Mapping):
            return self._note("WRONG_TYPE", f"a condition compares with no object: {shown(value)}", path)
        if isinstance(value, list | tuple):
            items = [self._value(item, (*path, index)) for index, item in enumerate(value)]
            return ListOf(tuple(item for item in items if item is not None))
        return literal_of(value)


_FORMS: Final[Mapping[frozenset[str], Callable[[_ConditionReader, Mapping[str, Any], Path], Node | None]]] = {
    frozenset({"all"}): _ConditionReader._all,
    frozenset({"any"}): _ConditionReader._any,
    frozenset({"not"}): _ConditionReader._not,
    frozenset({"expression"}): _ConditionReader._expression,
    frozenset({"field", "op", "value"}): _ConditionReader._comparison,
}


def literal_of(value: Any) -> Literal:
    """Return A JSON scalar as a literal of the language; a float is the decimal that it was spelled as."""
    if isinstance(value, float | Decimal):
        value = exact_number(f"{Decimal(str(value)):f}")
    return Literal(_KINDS[type(value)], value)


_KINDS: Final[Mapping[type, TypeKind]] = {
    type(None): TypeKind.NULL,
    bool: TypeKind.BOOLEAN,
    int: TypeKind.INTEGER,
    Decimal: TypeKind.DECIMAL,
    str: TypeKind.TEXT,
}
