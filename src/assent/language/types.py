"""Static types: what can be known of a value before there is one; and scopes, the variables that may be named.

A contract's fields become types here; `assent.language.check` compares them. Nothing here looks at values.
In a scope `entity` and `actor` are closed: a name that was not declared is a problem. `org` and `workflow` are open,
because an org's settings and earlier steps fill them; what is declared of them is still checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from assent.model.contract import Contract, FieldSpec, FieldType
from assent.model.terms import RESERVED_VARIABLES


class TypeKind(StrEnum):
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
    DURATION = "duration"
    LIST = "list"
    OBJECT = "object"


NUMBERS: Final = frozenset({TypeKind.INTEGER, TypeKind.MONEY, TypeKind.DECIMAL})
TIMES: Final = frozenset({TypeKind.DATE, TypeKind.DATETIME})
ORDERED: Final = NUMBERS | TIMES | {TypeKind.TEXT, TypeKind.DURATION}


@dataclass(frozen=True, slots=True)
class Type:
    kind: TypeKind
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
        if self.item is not None and self.item.kind is not TypeKind.UNKNOWN:
            return f"a list of {self.item.kind}"
        return _WORDS[self.kind]

    def member(self, name: str) -> "Type | None":
        """Return the type under `name`; None where the type says that there is no such thing."""
        if self.kind is TypeKind.UNKNOWN:
            return UNKNOWN
        if self.kind is not TypeKind.OBJECT:
            return None
        return self.fields.get(name, UNKNOWN if self.open else None)


_WORDS: Final[Mapping[TypeKind, str]] = {
    TypeKind.UNKNOWN: "a value of unknown type",
    TypeKind.NULL: "null",
    TypeKind.BOOLEAN: "a boolean",
    TypeKind.INTEGER: "an integer",
    TypeKind.MONEY: "money",
    TypeKind.DECIMAL: "a decimal number",
    TypeKind.TEXT: "text",
    TypeKind.DATE: "a date",
    TypeKind.DATETIME: "a date and time",
    TypeKind.DURATION: "a duration",
    TypeKind.LIST: "a list",
    TypeKind.OBJECT: "an object",
}

UNKNOWN: Final = Type(TypeKind.UNKNOWN)
NULL: Final = Type(TypeKind.NULL)
BOOLEAN: Final = Type(TypeKind.BOOLEAN)
INTEGER: Final = Type(TypeKind.INTEGER)
DECIMAL: Final = Type(TypeKind.DECIMAL)
TEXT: Final = Type(TypeKind.TEXT)
DATETIME: Final = Type(TypeKind.DATETIME)
DURATION: Final = Type(TypeKind.DURATION)


def choice(*values: str) -> Type:
    return Type(TypeKind.TEXT, values=values)


def list_of(item: Type) -> Type:
    return Type(TypeKind.LIST, item=item)


def object_of(fields: Mapping[str, Type], *, open: bool = False) -> Type:
    return Type(TypeKind.OBJECT, fields=fields, open=open)


_PLAIN: Final[Mapping[FieldType, Type]] = {
    FieldType.TEXT: TEXT,
    FieldType.INTEGER: INTEGER,
    FieldType.MONEY: Type(TypeKind.MONEY),
    FieldType.DECIMAL: DECIMAL,
    FieldType.DATE: Type(TypeKind.DATE),
    FieldType.DATETIME: DATETIME,
    FieldType.BOOLEAN: BOOLEAN,
    FieldType.REFERENCE: TEXT,
}


def type_of_field(spec: FieldSpec) -> Type:
    """Return the type of what a declared field holds."""
    if spec.type is FieldType.ENUM:
        return choice(*(spec.values or ()))
    if spec.type is FieldType.LIST:
        return list_of(type_of_field(spec.of) if spec.of else UNKNOWN)
    if spec.type is FieldType.OBJECT:
        return object_of(types_of_fields(spec.fields or {}), open=spec.fields is None)
    return _PLAIN[spec.type]


def types_of_fields(fields: Mapping[str, FieldSpec]) -> dict[str, Type]:
    return {name: type_of_field(spec) for name, spec in fields.items()}


Fields = Mapping[str, FieldSpec]


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables that exist, by the first part of their name."""

    roots: Mapping[str, Type]
    open: bool = False
    """Whether other first parts are let in, with unknown type."""

    def with_roots(self, **roots: Type) -> "Scope":
        return replace(self, roots={**self.roots, **roots})


OPEN: Final = Scope({"now": DATETIME}, open=True)
"""Where nothing is declared."""

ACTOR: Final = object_of(
    {
        "id": TEXT,
        "roles": list_of(TEXT),
        "capabilities": list_of(TEXT),
        "kind": choice("user", "service_account", "system"),
    }
)

_RESERVED_IN_WORKFLOW: Final = dict.fromkeys(sorted(RESERVED_VARIABLES), TEXT)


def scope_of(
    contract: Contract | None = None, *, org: Fields | None = None, workflow: Fields | None = None
) -> Scope:
    """Return the scope of a workflow's expressions; without a contract there is no `entity`."""
    roots = {
        "actor": ACTOR,
        "org": object_of({"id": TEXT, **types_of_fields(org or {})}, open=True),
        "workflow": object_of({**types_of_fields(workflow or {}), **_RESERVED_IN_WORKFLOW}, open=True),
        "now": DATETIME,
    }
    return Scope(roots if contract is None else {"entity": entity_type(contract), **roots})


def entity_type(contract: Contract) -> Type:
    """Return an entity as expressions see it: its fields, and what is the entity's own."""
    own = {
        "id": TEXT,
        "type": choice(contract.name),
        "version": INTEGER,
        "state": choice(*contract.lifecycle.states),
    }
    return object_of({**types_of_fields(contract.fields), **own})


def event_scope(fields: Fields | None = None) -> Scope:
    """Return the scope of a trigger's match: the event's fields by their bare names, and all of it as `event`.

    A field whose name is taken (`now`, `actor`, `context` …) is reached as `event.<name>`.
    """
    if fields is None:
        return OPEN.with_roots(event=object_of({}, open=True))
    types = types_of_fields(fields)
    return Scope({**types, "event": object_of(types), "now": DATETIME})
