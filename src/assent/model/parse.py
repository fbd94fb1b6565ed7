"""From loose data to frozen declarations: pydantic's complaints become our problems.

Every declaration that an author writes (contract, patch, flow) derives from `Declaration`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, Tag, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from assent.model.problems import HINTS_MAX, PROBLEMS_MAX, TOO_MANY, Path, Problem, did_you_mean

D = TypeVar("D", bound="Declaration")

DETAILS_MAX: Final = 1_000
"""Of more complaints pydantic is not asked the details: it gives all or none, at two microseconds each."""

NAME_PATTERN: Final = r"^[a-z][a-z0-9_]{0,62}$"
"""Names of entity types, fields, states and transitions: plain ASCII, so that no two look alike."""


class Declaration(BaseModel):
    """Base of what authors write: frozen, and closed to keys that we do not know."""

    # Without `use_attribute_docstrings`, which parses the source of each model when it is imported: a tenth of the
    # start of every command. The schemas read the sentences below fields when they are made.
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, strict=False)

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Keys that authors look for here → the hint that says where their meaning is said."""


_CODES: Final[dict[str, str]] = {
    "missing": "MISSING_KEY",
    "extra_forbidden": "UNKNOWN_KEY",
    "string_pattern_mismatch": "BAD_NAME",
    "literal_error": "BAD_VALUE",
    "enum": "BAD_VALUE",
    "union_tag_invalid": "BAD_VALUE",
}


def parse_declaration(kind: type[D], data: object) -> tuple[D | None, list[Problem]]:
    """`data` as a declaration of `kind`, or every problem that keeps it from being one."""
    try:
        return kind.model_validate(data), []
    except ValidationError as error:
        return None, problems_of(error, kind)


def problems_of(error: ValidationError, kind: type[BaseModel] | None = None) -> list[Problem]:
    """Return the problems of an error; of more than `PROBLEMS_MAX` the first, and one with their number.

    `kind`, what was read, makes hints for keys that it does not have.
    """
    if (number := error.error_count()) > DETAILS_MAX:
        return [Problem(TOO_MANY, _too_many(number))]
    found = error.errors(include_url=False)
    if number <= PROBLEMS_MAX:
        return _hinted(found, kind)
    listed = PROBLEMS_MAX - 1
    message = f"{number:,} problems, of which the first {listed} are listed"
    return [*_hinted(found[:listed], kind), Problem(TOO_MANY, message)]


def _hinted(details: list[ErrorDetails], kind: type[BaseModel] | None) -> list[Problem]:
    """Return the problems; the first of them name what was probably meant."""
    problems = [_problem(detail) for detail in details]
    for number, detail in enumerate(details[:HINTS_MAX]):
        if problems[number].hint is None:
            problems[number] = replace(problems[number], hint=_meant(detail, kind))
    return problems


def _meant(detail: ErrorDetails, kind: type[BaseModel] | None) -> str | None:
    context, value = detail.get("ctx", {}), detail["input"]
    if detail["type"] == "extra_forbidden":
        if kind is None:
            return None
        models, key = list(_models_at(kind, detail["loc"][:-1])), str(detail["loc"][-1])
        for model in models:
            if issubclass(model, Declaration) and key in model.elsewhere:
                return model.elsewhere[key]
        known = sorted(_keys_of(models))
        return did_you_mean(key, known) or (f"known here: {listed(known)}" if known else None)
    if detail["type"] == "UNKNOWN_KIND":
        value = value.get("type") if isinstance(value, dict) else None
        known = context.get("known", "").split(", ")
    else:
        known = _QUOTED.findall(str(context.get("expected", "")))
    return did_you_mean(value, known) if isinstance(value, str) else None


_QUOTED: Final = re.compile(r"'([^']*)'")


def _keys_of(models: list[type[BaseModel]]) -> set[str]:
    """Return the keys that an author can write where one of these declarations stands."""
    return {spec.alias or name for model in models for name, spec in model.model_fields.items()}


def _models_at(annotation: Any, place: tuple[str | int, ...]) -> Iterator[type[BaseModel]]:
    """Yield the declarations that may stand at a place, as pydantic names it: with the tags of unions."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        tags = [part.tag for part in annotation.__metadata__ if isinstance(part, Tag)]
        if not tags or place[:1] == (tags[0],):
            yield from _models_at(arguments[0], place[1:] if tags else place)
    elif origin in (Union, UnionType):
        for member in arguments:
            found = list(_models_at(member, place))
            # A union without tags puts the name of the member into the place.
            yield from found or (_models_at(member, place[1:]) if place else ())
    elif isinstance(annotation, type) and origin is None and issubclass(annotation, BaseModel):
        if not place:
            yield annotation
        for name, spec in annotation.model_fields.items() if place else ():
            if place[0] in (name, spec.alias):
                yield from _models_at(spec.annotation, place[1:])
    elif arguments and place:
        # A list, a tuple or a mapping: the last type is that of its items, but for the dots of a tuple.
        items = [argument for argument in arguments if argument is not Ellipsis]
        yield from _models_at(items[-1], place[1:])


def _too_many(number: int) -> str:
    return f"{number:,} problems, which is too many to list"


class FewProblems(BaseModel):
    """Base of bodies that others validate: pydantic's complaints beyond a number become one."""

    @model_validator(mode="wrap")
    @classmethod
    def _complain_once(cls, data: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return validate(data)
        except ValidationError as error:
            if (number := error.error_count()) <= DETAILS_MAX:
                raise
            raise PydanticCustomError(TOO_MANY, "{message}", {"message": _too_many(number)}) from None


def _problem(detail: ErrorDetails) -> Problem:
    kind, path = detail["type"], tuple(detail["loc"])
    describe: Callable[[ErrorDetails], str] = _MESSAGES.get(kind, lambda d: d["msg"])
    code = kind if kind.isupper() else _CODES.get(kind, "WRONG_TYPE")  # upper-case kinds are our own codes
    hint = detail.get("ctx", {}).get("hint")
    return Problem(code=code, message=describe(detail), path=_without_markers(path), hint=hint)


_MESSAGES: Final[dict[str, Callable[[ErrorDetails], str]]] = {
    "missing": lambda d: f"`{d['loc'][-1]}` is required here",
    "extra_forbidden": lambda d: f"`{d['loc'][-1]}` is not a key that is known here",
    "string_pattern_mismatch": lambda d: (
        f"{shown(d['input'])} is not a name: lower-case ASCII letters, digits and _"
    ),
}


def _without_markers(path: Path) -> Path:
    # pydantic marks dictionary keys and union members in the path; authors know neither.
    return tuple(part for part in path if not (isinstance(part, str) and (part == "[key]" or "[" in part)))


def shown(value: Any, length_max: int = 60) -> str:
    """Return a short, safe rendering of a value for a message; of a large one, only the beginning is rendered."""
    text = ""
    for piece in _pieces(value, length_max):
        text += piece
        if len(text) > length_max:
            return f"{text[: length_max - 1]}…"
    return text


def _pieces(value: Any, length_max: int) -> Iterator[str]:
    """Yield what `repr` says, piece by piece."""
    if type(value) is str:
        yield repr(value if len(value) <= length_max else value[: length_max + 1])
    elif type(value) is list:
        yield "["
        for index, item in enumerate(value):
            yield ", " if index else ""
            yield from _pieces(item, length_max)
        yield "]"
    elif type(value) is dict:
        yield "{"
        for index, (key, item) in enumerate(value.items()):
            yield ", " if index else ""
            yield from _pieces(key, length_max)
            yield ": "
            yield from _pieces(item, length_max)
        yield "}"
    else:
        yield repr(value)


def listed(names: Iterable[str], count_max: int = 20) -> str:
    """Return a few names for a message, and a sign that there are more."""
    first = list(islice(names, count_max + 1))
    return ", ".join(first[:count_max]) + (", …" if len(first) > count_max else "")
