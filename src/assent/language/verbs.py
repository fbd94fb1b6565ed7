"""Verbs: the registry, their arguments, and checked calls.

Verbs are declared in Python or as data in the shape `domain: {verb: {args: […]}}`. Nothing here runs a verb.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final
from typing import Literal as OneOf

from pydantic import Field, StringConstraints

from assent.language.syntax import Literal, Variable, marked
from assent.language.values import as_decimal, as_time, is_number, looked_up
from assent.language.verb_syntax import (
    UUID_FORM,
    VERB_NAME,
    Argument,
    Entries,
    Items,
    Value,
    VerbCall,
    variables_of,
)
from assent.model.parse import Declaration, parse_declaration, shown
from assent.model.problems import Problem, nearest


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
    """Return the value with its `$variables` replaced."""
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
    """Return whether `value` is one of the wanted type; `of` is the type of a list's items."""
    if value is UNBOUND:
        return True
    if wanted is ArgumentType.LIST:
        return isinstance(value, list) and all(fits(of or ArgumentType.STRING, item) for item in value)
    return _FITS[wanted](value)


def kept(wanted: ArgumentType, value: Any) -> Any:
    """Return a fitting value as JSON."""
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


ArgumentName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,62}$")]


class ArgumentSpec(Declaration):
    """One argument of a verb, called `:name`."""

    name: ArgumentName
    type: ArgumentType = ArgumentType.STRING
    of: ArgumentType | None = None
    """What a list holds; text unless it is said."""
    required: bool = False
    default: Any = None
    values: tuple[str, ...] | None = Field(default=None, alias="valid_values")
    """The only texts that are accepted."""
    description: str = ""

    def complaint(self, value: Any) -> str | None:
        """Return what is wrong with a value for this argument."""
        if not fits(self.type, value, self.of):
            items = f" of {self.of}" if self.of else ""
            return f"`:{self.name}` takes {self.type}{items}, found {shown(value)}"
        for item in value if isinstance(value, list) else [value]:
            if self.values and item is not UNBOUND and item not in self.values:
                return f"`:{self.name}` is one of {', '.join(self.values)}, found {shown(item)}"
        return None


class VerbSpec(Declaration):
    """What a verb does and which arguments it takes."""

    description: str = ""
    behavior: OneOf["crud", "plugin"] = "plugin"
    """`crud` reads or writes a record of ours; `plugin` runs an application's function."""
    metadata: Mapping[str, Any] = {}
    capability: str = ""
    """What a caller must hold."""
    args: tuple[ArgumentSpec, ...] = ()

    def argument(self, name: str) -> ArgumentSpec | None:
        return next((spec for spec in self.args if spec.name == name), None)


@dataclass(frozen=True, slots=True)
class VerbRegistry:
    """The verbs that can be called, by full name; a value, so adding to it makes another one."""

    verbs: Mapping[str, VerbSpec] = field(default_factory=dict)

    def find(self, name: str) -> VerbSpec | None:
        return self.verbs.get(name)

    def with_verb(self, name: str, spec: VerbSpec) -> "VerbRegistry":
        return replace(self, verbs={**self.verbs, name: spec})


def load_verbs(data: object) -> tuple[VerbRegistry | None, list[Problem]]:
    """Return the verbs declared in `data`, or everything that is wrong with their declarations."""
    verbs: dict[str, VerbSpec] = {}
    problems: list[Problem] = []
    for domain, verb, declared in _declarations(data, problems):
        spec, found = parse_declaration(VerbSpec, declared)
        found = found or _check_spec(f"{domain}.{verb}", spec or VerbSpec())
        problems += (problem.under(domain, verb) for problem in found)
        if spec is not None:
            verbs[f"{domain}.{verb}"] = spec
    return (None if problems else VerbRegistry(verbs)), problems


def _declarations(data: object, problems: list[Problem]) -> Iterator[tuple[str, str, object]]:
    if not isinstance(data, Mapping):
        problems.append(Problem("WRONG_TYPE", f"expected domains with their verbs, found {shown(data)}"))
        return
    for domain, verbs in data.items():
        if not isinstance(verbs, Mapping):
            problems.append(
                Problem("WRONG_TYPE", f"expected verbs by name, found {shown(verbs)}", (str(domain),))
            )
            continue
        for verb, declared in verbs.items():
            yield str(domain), str(verb), declared


def _check_spec(name: str, spec: VerbSpec) -> list[Problem]:
    problems = [] if VERB_NAME.fullmatch(name) else [Problem("BAD_NAME", f"`{name}` cannot name a verb")]
    names = [argument.name for argument in spec.args]
    for index, argument in enumerate(spec.args):
        problems += (Problem(code, message, ("args", index)) for code, message in _check_argument(argument))
        if argument.name in names[:index]:
            problems.append(Problem("DUPLICATE", f"`{argument.name}` is declared twice", ("args", index)))
    return problems


def _check_argument(spec: ArgumentSpec) -> Iterator[tuple[str, str]]:
    if spec.default is not None and (complaint := spec.complaint(spec.default)):
        yield "BAD_VALUE", f"the default does not fit: {complaint}"
    if spec.required and spec.default is not None:
        yield "MISPLACED_KEY", "a required argument has no use for a default"
    if spec.of is not None and spec.type is not ArgumentType.LIST:
        yield "MISPLACED_KEY", f"`of` goes with type list, this is {spec.type}"


Lookup = Callable[[Variable], Any]


def check_verb(
    call: VerbCall, registry: VerbRegistry, variables: Collection[str] | None = None
) -> list[Problem]:
    """Return what is wrong with a call; `variables` are the names that `$` may refer to, where they are known."""
    spec = registry.find(call.name)
    if spec is None:
        hint = _nearest(call.name, registry.verbs)
        return [marked("UNKNOWN_VERB", f"there is no verb `{call.name}`", call.text, call.span, hint)]
    given = {argument.key for argument in call.arguments}
    return [
        *_check_arguments(call, spec, lambda variable: UNBOUND),
        *_missing(call, spec, given),
        *(_unknown_variables(call, variables) if variables is not None else ()),
    ]


def bind_verb(
    call: VerbCall, variables: Mapping[str, Any], spec: VerbSpec | None = None
) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Return the call's arguments by name, as JSON, with `$variables` replaced and defaults filled in.

    A variable that has no value leaves its argument out, which is a problem unless the argument is optional.
    """

    def lookup(variable: Variable) -> Any:
        value: Any = variables
        for name in variable.path:
            value = looked_up(value, name)
        return value

    values = {argument.key: resolved(argument.value, lookup) for argument in call.arguments}
    given = {key: value for key, value in values.items() if value is not None}
    if spec is None:
        problems = list(_unvalued(call, given))
    else:
        problems = [*_check_arguments(call, spec, lookup), *_missing(call, spec, given)]
    return (None if problems else _bound(given, spec or VerbSpec())), problems


def _bound(given: Mapping[str, Any], spec: VerbSpec) -> dict[str, Any]:
    defaults = {known.name: known.default for known in spec.args if known.default is not None}
    types = {known.name: known.of or known.type for known in spec.args}
    return {
        key: kept(types.get(key, ArgumentType.JSON), value) for key, value in {**defaults, **given}.items()
    }


def _check_arguments(call: VerbCall, spec: VerbSpec, lookup: Lookup) -> Iterator[Problem]:
    for argument in call.arguments:
        declared = spec.argument(argument.key)
        value = resolved(argument.value, lookup)
        if declared is None:
            yield _unknown_argument(call, argument, spec)
        elif value is not None and (complaint := declared.complaint(value)):
            yield marked("WRONG_TYPE", complaint, call.text, argument.value.span)


def _unknown_argument(call: VerbCall, argument: Argument, spec: VerbSpec) -> Problem:
    message = f"`{call.name}` takes no `:{argument.key}`"
    hint = _nearest(argument.key, [known.name for known in spec.args])
    return marked("UNKNOWN_ARGUMENT", message, call.text, argument.span, hint)


def _missing(call: VerbCall, spec: VerbSpec, given: Collection[str]) -> Iterator[Problem]:
    for known in spec.args:
        if known.required and known.name not in given:
            message = f"`{call.name}` needs a value for `:{known.name}`"
            yield marked("MISSING_ARGUMENT", message, call.text, call.span)


def _unvalued(call: VerbCall, given: Collection[str]) -> Iterator[Problem]:
    for argument in call.arguments:
        if argument.key not in given:
            message = f"`:{argument.key}` has no value"
            yield marked("MISSING_ARGUMENT", message, call.text, argument.value.span)


def _unknown_variables(call: VerbCall, variables: Collection[str]) -> Iterator[Problem]:
    for found in variables_of(call):
        name = ".".join(found.path)
        if name not in variables and found.path[0] not in variables:
            hint = _nearest(name, variables)
            yield marked("UNKNOWN_VARIABLE", f"there is no `${name}` here", call.text, found.span, hint)


def _nearest(name: str, known: Collection[str]) -> str | None:
    if near := nearest(name, known):
        return f"did you mean `{near}`?"
    return f"known here: {', '.join(sorted(known)[:12])}" if known else None
