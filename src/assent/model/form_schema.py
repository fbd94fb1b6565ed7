"""Declared fields as JSON Schema 2020-12, for clients that show a form.

What it accepts, `assent.model.values` accepts too, but for the limits of decimals, dates and times: these are in
`formatMinimum` and `formatMaximum`, which not every validator reads. The check on the server is the one that counts.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from assent.model.canonical import INTEGER_MAX
from assent.model.contract import FieldSpec, FieldType
from assent.model.values import DECIMAL_DIGITS_MAX, LIST_ITEMS_MAX

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]


def form_schema(fields: Mapping[str, FieldSpec], title: str) -> Schema:
    """The schema of a whole form; without fields, whatever comes is taken."""
    found: Schema = {"$schema": DIALECT, "title": title, "type": "object"}
    return found | _object(fields) if fields else found


def _object(fields: Mapping[str, FieldSpec]) -> Schema:
    required = [name for name, spec in fields.items() if spec.required and not spec.system]
    return {
        "properties": {name: _named(name, spec) for name, spec in fields.items()},
        "required": required,
        "additionalProperties": False,
    }


def _named(name: str, spec: FieldSpec) -> Schema:
    found = {"title": spec.label or name.replace("_", " ").capitalize()} | _value(spec)
    return found | {"readOnly": True} if spec.system else found


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
    return {"type": "string"} | _limits(spec, "minLength", "maxLength", int)


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
