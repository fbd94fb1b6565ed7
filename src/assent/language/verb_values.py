"""Values of a verb's arguments: what each type accepts, and the JSON in which it is kept."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from assent.language.syntax import Literal, Variable
from assent.language.values import as_decimal, as_time, is_number
from assent.language.verb_syntax import UUID_FORM, Entries, Items, Value


class ArgumentType(StrEnum):
    STRING = "string"
    UUID = "uuid"
    INTEGER = "integer"
    DECIMAL = "decimal"
    """Kept as text, so that no reader rounds it."""
    BOOLEAN = "boolean"
    DATE = "date"
    DATETIME = "datetime"
    LIST = "list"
    JSON = "json"
    """Any value at all."""


class _Unbound:
    """Stands for a `$variable` whose value is not known yet; it fits everywhere."""


UNBOUND: Final = _Unbound()


def resolved(value: Value, lookup: Callable[[Variable], Any]) -> Any:
    """The value with its `$variables` replaced."""
    match value:
        case Literal(value=literal):
            return literal
        case Variable():
            return lookup(value)
        case Items(items=items):
            return [resolved(item, lookup) for item in items]
        case Entries(entries=entries):
            return {entry.key: resolved(entry.value, lookup) for entry in entries}


def fits(wanted: ArgumentType, value: Any, of: ArgumentType | None = None) -> bool:
    """Whether `value` is one of the wanted type; `of` is the type of a list's items."""
    if value is UNBOUND:
        return True
    if wanted is ArgumentType.LIST:
        return isinstance(value, list) and all(fits(of or ArgumentType.STRING, item) for item in value)
    return _FITS[wanted](value)


def kept(wanted: ArgumentType, value: Any) -> Any:
    """A fitting value as JSON."""
    if isinstance(value, list):
        return [kept(wanted, item) for item in value]
    if isinstance(value, Mapping):
        return {key: kept(wanted, item) for key, item in value.items()}
    if wanted is ArgumentType.DECIMAL and is_number(value):
        return f"{value:f}" if isinstance(value, Decimal) else str(value)
    if isinstance(value, Decimal):
        nearest = float(value)
        return nearest if Decimal(repr(nearest)) == value else f"{value:f}"
    return value.lower() if wanted is ArgumentType.UUID and isinstance(value, str) else value


def _is_uuid(value: Any) -> bool:
    return isinstance(value, str) and UUID_FORM.fullmatch(value.lower()) is not None


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and as_time(value) is not value


_FITS: Final[Mapping[ArgumentType, Callable[[Any], bool]]] = {
    ArgumentType.STRING: lambda value: isinstance(value, str),
    ArgumentType.UUID: _is_uuid,
    ArgumentType.INTEGER: lambda value: isinstance(value, int) and not isinstance(value, bool),
    ArgumentType.DECIMAL: lambda value: is_number(as_decimal(value)),
    ArgumentType.BOOLEAN: lambda value: isinstance(value, bool),
    ArgumentType.DATE: lambda value: _is_time(value) and len(value) == len("2026-01-31"),
    ArgumentType.DATETIME: lambda value: _is_time(value) and len(value) > len("2026-01-31"),
    ArgumentType.JSON: lambda value: True,
}
