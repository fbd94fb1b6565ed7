"""Programs: checked expressions made ready to run.

A program never raises: absent variables and values of unexpected types have defined results. Each run tells
which variables it read and what they were, in JSON, and never more of it than a step should keep: that is its
evidence. There is no `eval`.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import islice
from typing import Any, Final, NamedTuple

from assent.language.check import check_condition
from assent.language.closures import Run, Variables
from assent.language.json_form import from_json
from assent.language.lowering import Lowering
from assent.language.parse import parse
from assent.language.syntax import Expression
from assent.language.types import OPEN, Scope
from assent.language.values import duration_text
from assent.model.canonical import INTEGER_MAX
from assent.model.problems import Problem

EVIDENCE_ITEMS_MAX: Final = 50
"""A list of ten thousand trusted vendors is not copied into every step that looked into it."""
EVIDENCE_CHARACTERS_MAX: Final = 1000


def as_evidence(value: object) -> Any:
    """`value` as JSON; what is too long is cut, and says how much is missing."""
    if value is None or isinstance(value, bool) or _is_kept(value):
        return value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, Mapping):
        return _object(value)
    if isinstance(value, set | frozenset):
        # Sets come in another order in every process; evidence must not.
        return _list(sorted(value, key=str))
    return _list(value) if isinstance(value, list | tuple) else _text(str(value))


def _is_kept(value: object) -> bool:
    """Return whether this is a number that every JSON reader gives back unchanged."""
    if isinstance(value, int):
        return abs(value) <= INTEGER_MAX
    return isinstance(value, float) and math.isfinite(value)


def _object(value: Mapping[Any, Any]) -> dict[str, Any]:
    kept = {str(key): as_evidence(item) for key, item in islice(value.items(), EVIDENCE_ITEMS_MAX)}
    missing = len(value) - len(kept)
    return kept | {"…": f"{missing} more"} if missing > 0 else kept


def _list(value: Sequence[Any]) -> list[Any]:
    kept = [as_evidence(item) for item in islice(value, EVIDENCE_ITEMS_MAX)]
    missing = len(value) - len(kept)
    return [*kept, f"… {missing} more"] if missing > 0 else kept


def _text(text: str) -> str:
    missing = len(text) - EVIDENCE_CHARACTERS_MAX
    return f"{text[:EVIDENCE_CHARACTERS_MAX]}… {missing} more" if missing > 0 else text


class Evaluation(NamedTuple):
    """What one run of a program found."""

    expression: str
    variables: dict[str, Any]
    """What was read, by name; parts that were not needed were not read."""
    result: Any

    @property
    def holds(self) -> bool:
        """Whether the condition is met: only `true` is true."""
        return self.result is True

    def to_json(self) -> dict[str, Any]:
        """Return the evaluation as a step's output keeps it."""
        return {
            "expression": self.expression,
            "variables": {name: as_evidence(value) for name, value in self.variables.items()},
            "result": as_evidence(self.result),
        }


class Program:
    """An expression or a template that is ready to run."""

    __slots__ = ("_quiet", "_recording", "text")

    def __init__(self, text: str, recording: Run, quiet: Run) -> None:
        self.text = text
        self._recording = recording
        self._quiet = quiet

    def __call__(self, variables: Variables) -> Evaluation:
        read: dict[str, Any] = {}
        result = self._recording(variables, read)
        return Evaluation(self.text, read, result)

    def value(self, variables: Variables) -> Any:
        """Return the result alone, for where no evidence is kept."""
        return self._quiet(variables, _UNREAD)

    def holds(self, variables: Variables) -> bool:
        return self._quiet(variables, _UNREAD) is True


_UNREAD: Final[dict[str, Any]] = {}


def compile_expression(expression: Expression, scope: Scope = OPEN) -> Program:
    """Compile an expression.

    The scope matters where text meets text: decimals and times are compared as such only if it declares them.
    """
    recording, quiet = (Lowering(scope, record=record).lower(expression.root) for record in (True, False))
    return Program(expression.text, recording, quiet)


Condition = str | Mapping[str, Any]
"""An expression as text, or a condition as JSON."""


def parse_condition(condition: Condition) -> tuple[Expression | None, list[Problem]]:
    """Return the expression of a condition, whichever form it is in."""
    return parse(condition) if isinstance(condition, str) else from_json(condition)


def prepare(condition: Condition, scope: Scope) -> tuple[Program | None, list[Problem]]:
    """Return a condition parsed, checked and compiled, or everything that is wrong with it."""
    expression, problems = parse_condition(condition)
    if expression is None:
        return None, problems
    problems = check_condition(expression, scope)
    return (None if problems else compile_expression(expression, scope)), problems
