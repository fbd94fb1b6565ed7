"""Static types: what can be known of a value before there is one.

A contract's fields become types here; `assent.language.check` compares them. Nothing here looks at values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from assent.model.contract import FieldSpec, FieldType


class Kind(StrEnum):
    UNKNOWN = "unknown"
    """Nothing was declared; such a value is allowed anywhere."""
    NULL = "null"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    MONEY = "money"
    DECIMAL = "decimal"
    TEXT = "text"
    DATE = "date"
    DATETIME = "datetime"
    LIST = "list"
    OBJECT = "object"


NUMBERS: Final = frozenset({Kind.INTEGER, Kind.MONEY, Kind.DECIMAL})
TIMES: Final = frozenset({Kind.DATE, Kind.DATETIME})
ORDERED: Final = NUMBERS | TIMES | {Kind.TEXT}


@dataclass(frozen=True, slots=True)
class Type:
    kind: Kind
    values: tuple[str, ...] = ()
    """The only texts there are, for an enum."""
    item: "Type | None" = None
    """What a list holds."""
    fields: Mapping[str, "Type"] = field(default_factory=dict)
    """What an object holds."""
    open: bool = False
    """Whether an object may hold more than its `fields`."""

    def __str__(self) -> str:
        if self.values:
            return f"one of {', '.join(self.values)}"
        if self.item is not None and self.item.kind is not Kind.UNKNOWN:
            return f"a list of {self.item.kind}"
        return _WORDS[self.kind]

    def member(self, name: str) -> "Type | None":
        """The type under `name`; None where the type says that there is no such thing."""
        if self.kind is Kind.UNKNOWN:
            return UNKNOWN
        if self.kind is not Kind.OBJECT:
            return None
        return self.fields.get(name, UNKNOWN if self.open else None)


_WORDS: Final[Mapping[Kind, str]] = {
    Kind.UNKNOWN: "a value of unknown type",
    Kind.NULL: "null",
    Kind.BOOLEAN: "a boolean",
    Kind.INTEGER: "an integer",
    Kind.MONEY: "money",
    Kind.DECIMAL: "a decimal number",
    Kind.TEXT: "text",
    Kind.DATE: "a date",
    Kind.DATETIME: "a date and time",
    Kind.LIST: "a list",
    Kind.OBJECT: "an object",
}

UNKNOWN: Final = Type(Kind.UNKNOWN)
NULL: Final = Type(Kind.NULL)
BOOLEAN: Final = Type(Kind.BOOLEAN)
INTEGER: Final = Type(Kind.INTEGER)
DECIMAL: Final = Type(Kind.DECIMAL)
TEXT: Final = Type(Kind.TEXT)
DATETIME: Final = Type(Kind.DATETIME)


def choice(*values: str) -> Type:
    return Type(Kind.TEXT, values=values)


def list_of(item: Type) -> Type:
    return Type(Kind.LIST, item=item)


def object_of(fields: Mapping[str, Type], *, open: bool = False) -> Type:
    return Type(Kind.OBJECT, fields=fields, open=open)


_PLAIN: Final[Mapping[FieldType, Type]] = {
    FieldType.TEXT: TEXT,
    FieldType.INTEGER: INTEGER,
    FieldType.MONEY: Type(Kind.MONEY),
    FieldType.DECIMAL: DECIMAL,
    FieldType.DATE: Type(Kind.DATE),
    FieldType.DATETIME: DATETIME,
    FieldType.BOOLEAN: BOOLEAN,
    FieldType.REFERENCE: TEXT,
}


def type_of_field(spec: FieldSpec) -> Type:
    """The type of what a declared field holds."""
    if spec.type is FieldType.ENUM:
        return choice(*(spec.values or ()))
    if spec.type is FieldType.LIST:
        return list_of(type_of_field(spec.of) if spec.of else UNKNOWN)
    if spec.type is FieldType.OBJECT:
        return object_of(types_of_fields(spec.fields or {}), open=spec.fields is None)
    return _PLAIN[spec.type]


def types_of_fields(fields: Mapping[str, FieldSpec]) -> dict[str, Type]:
    return {name: type_of_field(spec) for name, spec in fields.items()}
