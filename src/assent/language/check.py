"""Static checks: every variable exists, and only like is compared with like.

Whatever has no declared type is let through; `assent.language.values` defines what happens with it.
"""

from collections.abc import Iterable

from assent.language.likeness import Typed, complaints
from assent.language.marks import marked
from assent.language.render import render_node
from assent.language.scope import Scope
from assent.language.syntax import (
    And,
    Compare,
    Expression,
    Index,
    ListOf,
    Literal,
    Node,
    Not,
    Or,
    TextSpan,
    Variable,
)
from assent.language.types import BOOLEAN, UNKNOWN, Type, TypeKind, list_of
from assent.model.hints import nearest
from assent.model.problems import HINTS_MAX, Problem


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
