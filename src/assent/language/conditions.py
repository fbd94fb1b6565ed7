"""Conditions, whichever form they come in: the one entry for those who only want to run them."""

from collections.abc import Mapping
from typing import Any

from assent.language.check import check_condition
from assent.language.json_form import from_json
from assent.language.parse import parse
from assent.language.program import Program, compile_expression
from assent.language.scope import Scope
from assent.language.syntax import Expression
from assent.model.problems import Problem

Condition = str | Mapping[str, Any]
"""An expression as text, or a condition as JSON."""


def parse_condition(condition: Condition) -> tuple[Expression | None, list[Problem]]:
    """The expression of a condition, whichever form it is in."""
    return parse(condition) if isinstance(condition, str) else from_json(condition)


def prepare(condition: Condition, scope: Scope) -> tuple[Program | None, list[Problem]]:
    """A condition parsed, checked and compiled, or everything that is wrong with it."""
    expression, problems = parse_condition(condition)
    if expression is None:
        return None, problems
    problems = check_condition(expression, scope)
    return (None if problems else compile_expression(expression, scope)), problems
