"""The registry of verbs: which there are, and what arguments they take.

Verbs are declared in Python or as data in the shape `domain: {verb: {args: […]}}`. Nothing here runs a verb.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from assent.language.verb_syntax import VERB_NAME
from assent.language.verb_values import UNBOUND, ArgumentType, fits
from assent.model.parse import Declaration, parse_declaration, shown
from assent.model.problems import Problem

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
        """What is wrong with a value for this argument."""
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
    behavior: Literal["crud", "plugin"] = "plugin"
    """`crud` reads or writes a record of ours; `plugin` runs an application's function."""
    metadata: Mapping[str, Any] = {}
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
    """The verbs declared in `data`, or everything that is wrong with their declarations."""
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
