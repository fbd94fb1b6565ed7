"""A form that a person is asked to fill in: the seats, the claim and the draft.

Declared fields as JSON Schema 2020-12, for clients that show a form.

What it accepts, `assent.model.values` accepts too, but for the limits of decimals, dates and times: these are in
`formatMinimum` and `formatMaximum`, which not every validator reads. The check on the server is the one that counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from assent.model.approval import Seat, SeatedRequest, changed_seats
from assent.model.canonical import INTEGER_MAX
from assent.model.contract import FieldSpec, FieldType, currency_named, is_currency_code
from assent.model.problems import Problem
from assent.model.values import DECIMAL_DIGITS_MAX, LIST_ITEMS_MAX

ASSIGNEES: Final = "assignees"
"""The name of the one group of people who are asked."""

DRAFT_BYTES_MAX: Final = 65_536
"""The size limit of a draft, as canonical JSON."""


@dataclass(frozen=True, slots=True)
class FormDraft:
    """What a person has written so far, kept for that person only: the answer is what is sent."""

    data: Mapping[str, Any]
    by: str
    at: datetime
    problems: tuple[Problem, ...] = ()
    """The problems that sending it would have."""


@dataclass(frozen=True)
class FormRequest(SeatedRequest):
    """A form that rests at a step. It ends with the step, and its row is closed with it; its id is that of the step."""

    label: str | None = None
    schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema of the fields; written once, and not read again."""
    answers: tuple[str, ...] = ()
    """The events with which it can be sent."""
    declared: Mapping[str, Any] = field(default_factory=dict)
    """The assignee that its author named; without one, the person who started the workflow."""
    draft: FormDraft | None = None
    """A draft to be kept now; an older one stays in its row, unread."""


@dataclass(frozen=True, slots=True)
class FormChanges:
    """The difference between a form and its rows."""

    form: FormRequest
    is_new: bool
    is_claimed: bool
    """Whether the claim differs from the row."""
    seats: tuple[Seat, ...]
    has_draft: bool

    @classmethod
    def between(cls, stored: FormRequest | None, form: FormRequest) -> "FormChanges":
        if stored is None:
            return cls(form, True, False, form.seats, form.draft is not None)
        is_claimed = (form.claimed_by, form.claimed_at) != (stored.claimed_by, stored.claimed_at)
        has_draft = form.draft is not None and form.draft is not stored.draft
        return cls(form, False, is_claimed, changed_seats(stored, form), has_draft)


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]


def form_schema(fields: Mapping[str, FieldSpec], title: str) -> Schema:
    """Return the schema of a whole form; without fields, whatever comes is taken."""
    found: Schema = {"$schema": DIALECT, "title": title, "type": "object"}
    return found | _object(fields) if fields else found


def _object(fields: Mapping[str, FieldSpec]) -> Schema:
    required = [name for name, spec in fields.items() if spec.required and not spec.system]
    return {
        "properties": {name: _named(name, spec) | _currency(fields, spec) for name, spec in fields.items()},
        "required": required,
        "additionalProperties": False,
    }


def _named(name: str, spec: FieldSpec) -> Schema:
    found = {"title": spec.label or name.replace("_", " ").capitalize()} | _value(spec)
    return found | {"readOnly": True} if spec.system else found


def _currency(fields: Mapping[str, FieldSpec], spec: FieldSpec) -> Schema:
    """Return the schema of a currency of money: a code, or the property beside it that holds one."""
    named = currency_named(fields, spec)
    if named is None:
        return {}
    return {"x-currency": named} if is_currency_code(named) else {"x-currency-field": named}


def _value(spec: FieldSpec) -> Schema:
    return _SCHEMAS[spec.type](spec)


def _limits(spec: FieldSpec, least: str, most: str, as_: Callable[[Any], Any] = str) -> Schema:
    bounds = {least: spec.min, most: spec.max}
    return {key: as_(bound) for key, bound in bounds.items() if bound is not None}


def _number(bound: float | str) -> float:
    """Authors may write a limit as text; a schema takes numbers."""
    value = Decimal(str(bound))
    return int(value) if value == value.to_integral_value() else float(value)


def _text(spec: FieldSpec) -> Schema:
    found = {"type": "string"} | _limits(spec, "minLength", "maxLength", int)
    return found | {"pattern": f"^(?:{spec.pattern})$"} if spec.pattern is not None else found


def _integer(spec: FieldSpec) -> Schema:
    kept = {"type": "integer", "minimum": -INTEGER_MAX, "maximum": INTEGER_MAX}
    return kept | _limits(spec, "minimum", "maximum", _number)


def _money(spec: FieldSpec) -> Schema:
    return _integer(spec) | {
        "format": "money",
        "description": "A whole number of minor units: 1999 is 19.99.",
    }


def _decimal(spec: FieldSpec) -> Schema:
    found = {"type": "string", "format": "decimal", "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)$"}
    return found | {"maxLength": DECIMAL_DIGITS_MAX} | _limits(spec, "formatMinimum", "formatMaximum")


def _moment(format_: str) -> Callable[[FieldSpec], Schema]:
    return lambda spec: (
        {"type": "string", "format": format_} | _limits(spec, "formatMinimum", "formatMaximum")
    )


def _reference(spec: FieldSpec) -> Schema:
    found = {"type": "string", "format": "uuid"}
    return found | {"x-entity-type": spec.to} if spec.to else found


def _list(spec: FieldSpec) -> Schema:
    found: Schema = {"type": "array", "maxItems": LIST_ITEMS_MAX} | _limits(spec, "minItems", "maxItems", int)
    return found | {"items": _value(spec.of)} if spec.of else found


_SCHEMAS: Final[Mapping[FieldType, Callable[[FieldSpec], Schema]]] = {
    FieldType.TEXT: _text,
    FieldType.INTEGER: _integer,
    FieldType.MONEY: _money,
    FieldType.DECIMAL: _decimal,
    FieldType.DATE: _moment("date"),
    FieldType.DATETIME: _moment("date-time"),
    FieldType.BOOLEAN: lambda spec: {"type": "boolean"},
    FieldType.ENUM: lambda spec: {"type": "string", "enum": list(spec.values or ())},
    FieldType.REFERENCE: _reference,
    FieldType.LIST: _list,
    FieldType.OBJECT: lambda spec: {"type": "object"} | (_object(spec.fields) if spec.fields else {}),
}
