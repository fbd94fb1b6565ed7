"""The contract: what an entity type is, how it lives, when it may be edited, and by which roles.

`Contract` is the declaration as its author writes it; `check_contract` finds what its parts say against each
other. Values are checked against it in `assent.model.values`, the compiler turns it into an envelope.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal, DecimalException
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from assent.model.parse import NAME_PATTERN, Declaration, listed, parse_declaration
from assent.model.patterns import compile_pattern
from assent.model.problems import Invalid, Problem, did_you_mean
from assent.model.series import NumberSeries, read_series

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Role = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Version = Annotated[int, Field(ge=1, le=2**31 - 1)]
"""Of what an author declares; it fits PostgreSQL's `integer`."""


class EditWindow(StrEnum):
    """What an edit means at some point of a workflow."""

    EDITABLE = "editable"
    """The edit is written and the workflow goes on."""
    AMEND_ONLY = "amend_only"
    """The edit is written, unapplied approvals are void, and the workflow goes to its amendment branch."""
    LOCKED = "locked"
    """The edit is refused."""

    @property
    def strictness(self) -> int:
        return tuple(EditWindow).index(self)


def strictest(windows: "Iterator[EditWindow] | list[EditWindow]") -> EditWindow:
    return max(windows, key=lambda window: window.strictness)


class FieldType(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    MONEY = "money"
    """An integer of minor units: 1999 is 19.99."""
    DECIMAL = "decimal"
    """A decimal number as text, so that no reader rounds it."""
    DATE = "date"
    DATETIME = "datetime"
    BOOLEAN = "boolean"
    ENUM = "enum"
    REFERENCE = "reference"
    """The id of another entity."""
    LIST = "list"
    OBJECT = "object"


FIELDS_MAX: Final = 2_000
INDEXES_MAX: Final = 20
"""Indexed fields, and searched ones, of a contract: each is a row or more for every entity."""
STATES_MAX: Final = 500
TRANSITIONS_MAX: Final = 2_000
WAYS_MAX: Final = 4_000
"""Pairs of a state and a transition that leaves it."""

RESERVED_FIELD_NAMES: Final = frozenset({"id", "state", "version", "type"})
"""`entity.state` and its like are the entity's own in expressions."""


class FieldSpec(Declaration):
    """One field of an entity, or one item of a list."""

    type: FieldType
    required: bool = False
    system: bool = False
    """Written by the workflow only; a person's edit of it is refused."""
    min: int | float | str | None = None
    """Smallest number or date; for text and lists the smallest length."""
    max: int | float | str | None = None
    values: tuple[str, ...] | None = None
    """The choices of an enum."""
    to: Name | None = None
    """The entity type that a reference leads to."""
    of: "FieldSpec | None" = None
    """What a list holds."""
    fields: Mapping[Name, "FieldSpec"] | None = None
    """What an object holds; absent means any JSON object."""
    unique: bool = False
    """Whether no two entities of an org and type have the same value."""
    pattern: str | None = None
    """What all of a text has to fit: a regular expression of RE2."""
    default: Any = None
    """What a new entity has where nothing was sent: a value, or an expression in braces, such as `{now + '14d'}`."""
    series: str | None = None
    """How new entities are numbered, such as `INV-{year}-{number:05}`: gapless, unique, and written by no caller."""
    currency: str | None = None
    """The currency of money: a field beside it, or a code such as `EUR`; by default `currency` beside it."""
    index: bool = False
    """Whether lists of entities can be filtered and sorted by it."""
    search: bool = False
    """Whether the words of a text are found by a search over entities."""
    label: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _series_is_drawn(cls, data: Any) -> Any:
        """Make a series a unique system field, so that everything that asks about either is right about it."""
        if not isinstance(data, Mapping) or data.get("series") is None:
            return data
        return {"system": True, "unique": True, **data}


class StateSpec(Declaration):
    edit: EditWindow
    label: str | None = None
    final: bool | None = None
    """Whether a workflow ends here; by default it does where nothing leaves the state or edits are locked."""


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class TransitionSpec(Declaration):
    from_: Annotated[
        tuple[Name, ...], BeforeValidator(_as_tuple, json_schema_input_type=Name | tuple[Name, ...])
    ] = Field(alias="from", min_length=1)
    to: Name
    approval: Literal["required", "none"] = "none"
    on_reject: Name | None = None
    """The state that a rejection leads to."""
    auto: bool | None = None
    """Whether the workflow sets out by itself on reaching a source state, without a command; by default it does
    where approval is required and the state is not `editable`."""
    label: str | None = None


class Lifecycle(Declaration):
    initial: Name
    states: Mapping[Name, StateSpec] = Field(max_length=STATES_MAX)
    transitions: Mapping[Name, TransitionSpec] = Field(default={}, max_length=TRANSITIONS_MAX)

    @cached_property
    def leaving(self) -> Mapping[str, tuple[str, ...]]:
        """State → the transitions that leave it, ordered by name."""
        found: dict[str, list[str]] = {}
        for name, transition in sorted(self.transitions.items()):
            for state in set(transition.from_):
                found.setdefault(state, []).append(name)
        return {state: tuple(names) for state, names in found.items()}


class SlotSpec(Declaration):
    """What a contract changes about a derived slot; the key is the slot's derived id."""

    name: Name | None = None
    """Another id for the slot, in `slot:name` form without the prefix."""
    enabled: bool = True


class SeparationSpec(Declaration):
    """Which duties may lie in one hand; by default none."""

    originator: Literal["allowed", "refused"] | None = None
    """Whether a person may approve what they wrote or submitted."""
    twice: Literal["allowed", "refused"] | None = None
    """Whether one person may answer in several seats."""


class InboxSpec(Declaration):
    """What people see of an entity before they open it."""

    title: Name | None = None
    """A field; by default the first required text by name, else the first text."""
    figure: Name | None = None
    """A field of numbers; by default the first amount of money by name, else the first number."""


class Contract(Declaration):
    contract: Name
    version: Version
    label: str | None = None
    fields: Mapping[Name, FieldSpec] = Field(default={}, max_length=FIELDS_MAX)
    lifecycle: Lifecycle
    slots: Mapping[str, SlotSpec] = Field(default={}, max_length=WAYS_MAX)
    on_drift: Literal["amend", "fail"] = "amend"
    workflow: Literal["envelope", "none"] = "envelope"
    """`none`: transitions go straight through, without a workflow instance."""
    permissions: Mapping[Name, tuple[Role, ...]] = {}
    """Action or transition → the roles that may do it."""
    separation: SeparationSpec = SeparationSpec()
    inbox: InboxSpec = InboxSpec()

    def __hash__(self) -> int:
        # Equal contracts agree on these; the mappings inside could not be hashed.
        return hash((self.contract, self.version))

    @property
    def name(self) -> str:
        return self.contract

    @cached_property
    def unique_fields(self) -> tuple[str, ...]:
        return tuple(name for name, spec in self.fields.items() if spec.unique)

    @cached_property
    def indexed_fields(self) -> Mapping[str, FieldType]:
        """The fields by which lists can be filtered and sorted, with their types."""
        return {name: spec.type for name, spec in self.fields.items() if spec.index}

    @cached_property
    def searched_fields(self) -> tuple[str, ...]:
        return tuple(name for name, spec in self.fields.items() if spec.search)

    @cached_property
    def series(self) -> Mapping[str, NumberSeries]:
        """Field → the series that numbers it."""
        found = {name: read_series(spec.series) for name, spec in self.fields.items() if spec.series}
        return {name: series for name, series in found.items() if isinstance(series, NumberSeries)}

    def window(self, state: str) -> EditWindow:
        return self.lifecycle.states[state].edit


BUILT_IN_ACTIONS: Final = frozenset({"create", "update", "transition", "amend"})


def parse_contract(data: object) -> tuple[Contract | None, list[Problem]]:
    """Return the contract in `data`, with the problems of its form and of its sense."""
    contract, problems = parse_declaration(Contract, data)
    if contract is None:
        return None, problems
    problems = list(check_contract(contract))
    return (None if problems else contract), problems


def contract_from(data: object) -> Contract:
    """Return the contract in `data`; raise `Invalid` with every problem."""
    contract, problems = parse_contract(data)
    if contract is None:
        raise Invalid(problems)
    return contract


def check_contract(contract: Contract) -> Iterator[Problem]:
    """Yield what the parts of a well-formed contract say against each other."""
    yield from check_fields(contract.fields, ("fields",))
    yield from _check_indexes(contract)
    yield from _check_lifecycle(contract.lifecycle)
    yield from _check_permissions(contract)
    yield from _check_inbox(contract)
    if contract.workflow == "none":
        yield from _check_straight_through(contract.lifecycle)


CURRENCY: Final = "currency"
"""The field that holds the currency of the money beside it, unless the money names another."""
CURRENCY_TYPES: Final = frozenset({FieldType.TEXT, FieldType.ENUM})
_CURRENCY_CODE: Final = re.compile("[A-Z]{3}")


def currency_named(fields: Mapping[str, FieldSpec], spec: FieldSpec) -> str | None:
    """Return the field or the code that money among these fields has its currency from; None for none."""
    if spec.type is not FieldType.MONEY:
        return None
    beside = fields.get(CURRENCY)
    has_beside = beside is not None and beside.type in CURRENCY_TYPES
    return spec.currency or (CURRENCY if has_beside else None)


def is_currency_code(named: str) -> bool:
    """Return whether this is a code, such as `EUR`, and no field."""
    return _CURRENCY_CODE.fullmatch(named) is not None


def currency_of(fields: Mapping[str, FieldSpec], name: str, data: Mapping[str, Any]) -> str | None:
    """Return the currency of a field of money in this data; None for other fields, and where there is none."""
    named = currency_named(fields, fields[name]) if name in fields else None
    if named is None or is_currency_code(named):
        return named
    value = data.get(named)
    return value if isinstance(value, str) and value else None


def _check_currency(
    spec: FieldSpec, path: tuple[str, ...], beside: Mapping[str, FieldSpec]
) -> Iterator[Problem]:
    named = spec.currency
    if named is None or is_currency_code(named):
        return
    if (found := beside.get(named)) is None:
        message = f"expected a field beside it or a code such as EUR, found `{named}`"
        yield Problem("UNKNOWN_FIELD", message, (*path, "currency"), did_you_mean(named, beside))
    elif found.type not in CURRENCY_TYPES:
        message = f"a text or an enum was expected, `{named}` is {found.type}"
        yield Problem("WRONG_TYPE", message, (*path, "currency"))


def check_fields(fields: Mapping[str, FieldSpec], path: tuple[str, ...]) -> Iterator[Problem]:
    """Yield what fields, of a contract or of a form, say against themselves."""
    for name, spec in fields.items():
        if path == ("fields",) and name in RESERVED_FIELD_NAMES:
            yield Problem(
                "RESERVED_NAME", f"`{name}` is the entity's own; choose another name", (*path, name)
            )
        yield from _check_field(spec, (*path, name), fields)


_ONLY_WITH: Final[Mapping[str, FieldType]] = {
    "values": FieldType.ENUM,
    "to": FieldType.REFERENCE,
    "of": FieldType.LIST,
    "fields": FieldType.OBJECT,
    "pattern": FieldType.TEXT,
    "series": FieldType.TEXT,
    "currency": FieldType.MONEY,
}
_ONLY_OF_ENTITIES: Final = ("default", "index", "search")
"""What is declared for fields of entities alone; so is `unique`, except that a series brings it along."""
_NOT_UNIQUE: Final = frozenset({FieldType.LIST, FieldType.OBJECT, FieldType.BOOLEAN})
_WITHOUT_LIMITS: Final = frozenset({FieldType.BOOLEAN, FieldType.ENUM, FieldType.REFERENCE, FieldType.OBJECT})


def _check_field(
    spec: FieldSpec, path: tuple[str, ...], beside: Mapping[str, FieldSpec]
) -> Iterator[Problem]:
    for key, kind in _ONLY_WITH.items():
        if getattr(spec, key) is not None and spec.type is not kind:
            yield Problem(
                "MISPLACED_KEY", f"`{key}` goes with type {kind}, this is {spec.type}", (*path, key)
            )
    if spec.type is FieldType.ENUM and not spec.values:
        yield Problem("MISSING_KEY", "an enum needs its `values`", path)
    if spec.values and len(set(spec.values)) != len(spec.values):
        yield Problem("DUPLICATE", "a value is listed twice", (*path, "values"))
    if spec.type is FieldType.LIST and spec.of is None:
        yield Problem("MISSING_KEY", "a list needs `of`, the type of its items", path)
    if spec.pattern is not None and isinstance(found := compile_pattern(spec.pattern), str):
        hint = "patterns are regular expressions of RE2: no look-around, no back references"
        yield Problem("BAD_PATTERN", f"this is no pattern: {found}", (*path, "pattern"), hint)
    is_of_entity = len(path) == len(("fields", "name")) and path[0] == "fields"
    for key in (*_ONLY_OF_ENTITIES, "series" if spec.series is not None else "unique"):
        if getattr(spec, key) not in (None, False) and not is_of_entity:
            yield Problem("MISPLACED_KEY", f"`{key}` goes with a field of an entity", (*path, key))
    if spec.unique and spec.type in _NOT_UNIQUE:
        yield Problem("MISPLACED_KEY", f"a {spec.type} cannot be unique", (*path, "unique"))
    if spec.default is not None and spec.system:
        yield Problem("MISPLACED_KEY", "what the workflow writes has no `default`", (*path, "default"))
    yield from _check_series(spec, path)
    yield from _check_limits(spec, path)
    yield from _check_currency(spec, path, beside)
    if spec.of is not None:
        yield from _check_field(spec.of, (*path, "of"), beside)
    if spec.fields:
        yield from check_fields(spec.fields, (*path, "fields"))


def _check_series(spec: FieldSpec, path: tuple[str, ...]) -> Iterator[Problem]:
    if spec.series is None:
        return
    if isinstance(found := read_series(spec.series), str):
        hint = "write it like INV-{year}-{number:05}"
        yield Problem("BAD_PATTERN", f"this is no number series: {found}", (*path, "series"), hint)
    for key in ("system", "unique"):
        if not getattr(spec, key):
            message = f"a series is always `{key}`; found `{key}: false`"
            yield Problem("BAD_VALUE", message, (*path, key), hint="leave the key out")
    for key in ("pattern", "min", "max"):
        if getattr(spec, key) is not None:
            yield Problem("MISPLACED_KEY", f"a number that is drawn has no `{key}`", (*path, key))


def _check_limits(spec: FieldSpec, path: tuple[str, ...]) -> Iterator[Problem]:
    for key in ("min", "max"):
        bound = getattr(spec, key)
        if bound is None:
            continue
        if spec.type in _WITHOUT_LIMITS:
            yield Problem("MISPLACED_KEY", f"`{key}` means nothing for type {spec.type}", (*path, key))
            continue
        try:
            limit_of(spec.type, bound)
        except (ValueError, DecimalException):
            yield Problem("WRONG_TYPE", f"{bound!r} cannot limit {spec.type}", (*path, key))


def limit_of(kind: FieldType, bound: int | float | str) -> Any:
    """Return a `min` or `max` as something that a value of this type, or its length, is compared with."""
    match kind:
        case FieldType.INTEGER | FieldType.MONEY | FieldType.DECIMAL:
            return Decimal(str(bound))
        case FieldType.DATE:
            return date.fromisoformat(str(bound))
        case FieldType.DATETIME:
            moment = datetime.fromisoformat(str(bound))
            if moment.tzinfo is None:
                raise ValueError("a time needs its zone")
            return moment
        case _:
            return int(bound)


def _check_lifecycle(lifecycle: Lifecycle) -> Iterator[Problem]:
    states = lifecycle.states
    known = listed(states)
    ways = sum(len(transition.from_) for transition in lifecycle.transitions.values())
    if ways > WAYS_MAX:
        message = f"{ways:,} ways lead out of states; at most {WAYS_MAX:,} are read"
        yield Problem("TOO_LARGE", message, ("lifecycle", "transitions"))
        return

    def unknown(state: str, *path: str | int) -> Problem:
        message = f"`{state}` is not one of the states: {known}"
        return Problem("UNKNOWN_STATE", message, ("lifecycle", *path), did_you_mean(state, states))

    if lifecycle.initial not in states:
        yield unknown(lifecycle.initial, "initial")
    for name, transition in lifecycle.transitions.items():
        at = ("transitions", name)
        for index, state in enumerate(transition.from_):
            if state not in states:
                yield unknown(state, *at, "from", index)
        if transition.to not in states:
            yield unknown(transition.to, *at, "to")
        if transition.on_reject is not None and transition.on_reject not in states:
            yield unknown(transition.on_reject, *at, "on_reject")
        if name in BUILT_IN_ACTIONS:
            yield Problem("RESERVED_NAME", f"`{name}` is a built-in action", ("lifecycle", *at))


SORTED_TIMES: Final = ("created_at", "updated_at")
"""The times of the entity itself, by which every list can be sorted."""


def _check_indexes(contract: Contract) -> Iterator[Problem]:
    for name, spec in contract.fields.items():
        if spec.index and spec.type in (FieldType.LIST, FieldType.OBJECT):
            message = f"a {spec.type} has no order to be listed by"
            yield Problem("MISPLACED_KEY", message, ("fields", name, "index"))
        if spec.search and spec.type is not FieldType.TEXT:
            message = f"`search` goes with type text, this is {spec.type}"
            yield Problem("MISPLACED_KEY", message, ("fields", name, "search"))
    for name in SORTED_TIMES:
        if name in contract.indexed_fields:
            message = f"lists are sorted by the `{name}` of the entity itself; give the field another name"
            yield Problem("RESERVED_NAME", message, ("fields", name, "index"))
    for key, names in (("index", contract.indexed_fields), ("search", contract.searched_fields)):
        if len(names) > INDEXES_MAX:
            message = f"at most {INDEXES_MAX} fields have `{key}: true`, found {len(names)}"
            yield Problem("TOO_LARGE", message, ("fields",), hint="every one is written with every entity")


def _check_permissions(contract: Contract) -> Iterator[Problem]:
    for action, roles in contract.permissions.items():
        if not roles:
            yield Problem(
                "EMPTY_ROLES", "no role is listed", ("permissions", action), hint="leave the key out instead"
            )


NUMBER_TYPES: Final = (FieldType.MONEY, FieldType.INTEGER, FieldType.DECIMAL)
_NO_TITLE: Final = frozenset({FieldType.LIST, FieldType.OBJECT})


def _check_inbox(contract: Contract) -> Iterator[Problem]:
    for key, name in (("title", contract.inbox.title), ("figure", contract.inbox.figure)):
        if name is None:
            continue
        if (spec := contract.fields.get(name)) is None:
            message = f"{contract.name} has no field `{name}`"
            yield Problem("UNKNOWN_FIELD", message, ("inbox", key), did_you_mean(name, contract.fields))
        elif key == "figure" and spec.type not in NUMBER_TYPES:
            message = f"money, an integer or a decimal was expected, `{name}` is {spec.type}"
            yield Problem("WRONG_TYPE", message, ("inbox", key))
        elif spec.type in _NO_TITLE:
            message = f"a field that fits on a line was expected, `{name}` is {spec.type}"
            yield Problem("WRONG_TYPE", message, ("inbox", key))


def _check_straight_through(lifecycle: Lifecycle) -> Iterator[Problem]:
    """Without a workflow there are no approvers, and no branch for an amendment."""
    hint = "leave `workflow: none` out"
    for name, state in lifecycle.states.items():
        if state.edit is EditWindow.AMEND_ONLY:
            path = ("lifecycle", "states", name, "edit")
            yield Problem("NEEDS_WORKFLOW", "`amend_only` needs a workflow to amend in", path, hint)
    for name, transition in lifecycle.transitions.items():
        if transition.approval == "required":
            path = ("lifecycle", "transitions", name, "approval")
            yield Problem("NEEDS_WORKFLOW", "an approval needs a workflow to ask for it", path, hint)
