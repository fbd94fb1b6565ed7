"""Small kinds of text that several declarations share: durations, capabilities, expressions, cron lines.

Their form is checked where they are read, with messages of their own; what expressions mean is checked by the
compiler, which knows their scope.
"""

import re
from collections.abc import Sized
from enum import Enum, auto
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from assent.model.contract import Name
from assent.model.parse import shown
from assent.model.problems import Problem
from assent.model.timing import parse_duration

_CAPABILITY: Final = re.compile(r"(\*|[a-z0-9][a-z0-9_.-]*(:[a-z0-9][a-z0-9_.-]*)*(:\*)?)", re.ASCII)
_DOTTED: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*", re.ASCII)
_CRON_ITEM: Final = re.compile(r"(\*|[0-9A-Za-z]+(-[0-9A-Za-z]+)?)(/[0-9]+)?|[0-7A-Za-z]+#[1-5]")


def refuse(code: str, message: str, *, hint: str | None = None) -> PydanticCustomError:
    """Return an error that `assent.model.parse` turns into a problem with this code."""
    # Braces in a message would be taken for pydantic's own placeholders.
    context: dict[str, Any] = {"message": message} | ({"hint": hint} if hint else {})
    return PydanticCustomError(code, "{message}", context)


def not_empty(value: Sized) -> Any:
    # pydantic's own `min_length` also complains where the items themselves were bad; this asks for good ones.
    if not value:
        raise refuse("WRONG_TYPE", "at least one was expected, found none")
    return value


def _duration(value: str) -> str:
    found = parse_duration(value)
    if isinstance(found, Problem):
        raise refuse(found.code, found.message, hint=found.hint)
    return value


def seconds_of(duration: str) -> int:
    """Return the length of a duration that was checked before."""
    found = parse_duration(duration)
    assert not isinstance(found, Problem), found
    return int(found.total_seconds())


def _capability(value: str) -> str:
    if not _CAPABILITY.fullmatch(value):
        raise refuse("BAD_CAPABILITY", f"{shown(value)} is not a capability such as `orders:approve`")
    return value


def _dotted(value: str) -> str:
    if not _DOTTED.fullmatch(value):
        raise refuse("BAD_NAME", f"{shown(value)} is not a dotted name such as `orders.confirm`")
    return value


def _cron(value: str) -> str:
    fields = value.split()
    if len(fields) != 5 or not all(_CRON_ITEM.fullmatch(item) for part in fields for item in part.split(",")):
        message = f"{shown(value)} is not a cron line: minute, hour, day, month and weekday were expected"
        raise refuse("BAD_CRON", message, hint="the first of every month at eight: `0 8 1 * *`")
    return value


def _condition(value: Any) -> Any:
    if not isinstance(value, str | dict):
        raise refuse("WRONG_TYPE", f"an expression was expected, found {shown(value)}")
    return value


def _scalar(value: Any) -> Any:
    if not isinstance(value, str | int | float | None):
        message = f"an expression, a number, a boolean or null was expected, found {shown(value)}"
        raise refuse("WRONG_TYPE", message)
    return value


Duration = Annotated[str, AfterValidator(_duration)]
Capability = Annotated[str, StringConstraints(max_length=200), AfterValidator(_capability)]
DottedName = Annotated[str, StringConstraints(max_length=200), AfterValidator(_dotted)]
Cron = Annotated[str, StringConstraints(max_length=100), AfterValidator(_cron)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
Expression = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
Condition = Annotated[
    Any, AfterValidator(_condition), Field(json_schema_extra={"type": ["string", "object"]})
]
"""An expression as text, or in its JSON form; the language room reads both."""
Scalar = Annotated[
    Any, AfterValidator(_scalar), Field(json_schema_extra={"type": ["string", "number", "boolean", "null"]})
]
Values = dict[str, Scalar]
"""Name → an expression as text, or a number, a boolean or null that stands for itself."""


Outputs = dict[Name, Scalar]
"""Variable of the workflow → an expression of what it becomes."""

INSTANCE_VARIABLES: Final = frozenset({"tenant_id", "subject_id", "partition_id"})
"""Variables that every workflow has from its instance."""

DECISION_VARIABLES: Final = {"approved": "approved_by", "rejected": "rejected_by"}
"""Outcome of an approval → the variable that holds the id of the person whose decision ended the request."""

RESERVED_VARIABLES: Final = INSTANCE_VARIABLES | frozenset(DECISION_VARIABLES.values())
"""Variables that the engine sets; no author's `set`, `output` or form names them."""

_DECISION_NAMES: Final = frozenset(DECISION_VARIABLES.values())


def is_engines_own(name: str) -> bool:
    """Return whether only the engine gives this variable a value, so that no caller's data may name it."""
    return name.startswith("_") or name in _DECISION_NAMES


class Language(Enum):
    """How a text in a node's configuration is read."""

    EXPRESSION = auto()
    RESULT = auto()
    """An expression that also knows `result`: what a call, an event or a form brought."""
    MOMENT = auto()
    """An expression of a date or a time."""
    NUMBER = auto()
    PEOPLE = auto()
    """An expression of a person or a list of them."""
    ID = auto()
    """An expression of an entity's id."""
    TEMPLATE = auto()
    URL = auto()
    """A template whose values are percent-encoded where they stand."""
    HEADER = auto()
    """A template that may also name secrets: `Bearer {secret.erp}`."""
    VERB = auto()
    RESOLUTION = auto()
    """A verb that asks an outside party for documents."""
