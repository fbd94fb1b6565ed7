"""Filters of entities: what lists, counts and saved filters share, from the texts that callers write to typed ranges.

    grand_total >= 100000
    currency in EUR,USD
    number prefix INV-2026-
    cost_center is null

A condition names an indexed field. Every operator but `!=` and `is not null` is a union of ranges of the texts by which
values are sorted (`assent.model.index_values`).
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import AwareDatetime

from assent.model.contract import SORTED_TIMES, Contract, FieldSpec, FieldType
from assent.model.index_values import (
    FIRST,
    LAST,
    NO_VALUE,
    TEXT_CHARACTERS_MAX,
    WORD_CHARACTERS_MAX,
    WORDS,
    IndexDeclaration,
    fold,
    text_of,
)
from assent.model.mutation import Refused, Rejection
from assent.model.parse import Declaration, parse_declaration, shown
from assent.model.problems import Invalid, Path, Problem, did_you_mean
from assent.model.values import check_value

CONDITIONS_MAX: Final = 20
CONDITION_CHARACTERS_MAX: Final = 1_000
VALUES_MAX: Final = 50
"""Of one `in`."""
STATES_MAX: Final = 20
SEARCH_CHARACTERS_MAX: Final = 200
SEARCH_WORDS_MAX: Final = 8

OPERATORS: Final = ("=", "!=", "<", "<=", ">", ">=", "in", "prefix", "is null", "is not null")

_CONDITION: Final = re.compile(
    r"\s*([a-z][a-z0-9_]*)\s*(<=|>=|!=|=|<|>|(?<=\s)(?:in|prefix|is\s+null|is\s+not\s+null)(?=\s|$))\s*(.*)",
    re.DOTALL | re.IGNORECASE,
)
FIRST_TIME: Final = datetime(1900, 1, 1, tzinfo=UTC)
LAST_TIME: Final = datetime(2999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """A condition on one field, as its author wrote it."""

    field: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Texts of values from `low` to before `high`."""

    low: str
    high: str

    @property
    def is_point(self) -> bool:
        return self.high == self.low + FIRST


@dataclass(frozen=True, slots=True)
class RangeCondition:
    """Ranges of which the value of a field has to lie in one; in none of them, if it is negated."""

    field: str
    ranges: tuple[ValueRange, ...]
    negated: bool = False

    @property
    def points(self) -> list[str] | None:
        """The values that it asks for, if it asks for single values."""
        if self.negated or not all(each.is_point for each in self.ranges):
            return None
        return [each.low for each in self.ranges]

    def to_json(self) -> dict[str, Any]:
        return {
            "field": self.field,
            "negated": self.negated,
            "lows": [each.low for each in self.ranges],
            "highs": [each.high for each in self.ranges],
        }


@dataclass(frozen=True, slots=True)
class EntitySort:
    """The order of a list: a time of the entity or an indexed field, and the id where that is equal."""

    field: str = "created_at"
    descending: bool = True

    @property
    def text(self) -> str:
        return f"{'-' if self.descending else ''}{self.field}"


class EntityFilter(Declaration):
    """Which entities of a type are asked for, and in which order, as the caller wrote it; what is None does not filter.

    EntityFilter(where=["grand_total >= 100000", "currency in EUR,USD"], q="acm* rent", sort="-grand_total")
    """

    state: tuple[str, ...] | None = None
    where: tuple[str, ...] = ()
    """Conditions on indexed fields; all must hold."""
    q: str | None = None
    """Words of searched fields; all must be there. `acm*` is the beginning of one."""
    created_by: str | None = None
    created_since: AwareDatetime | None = None
    created_until: AwareDatetime | None = None
    updated_since: AwareDatetime | None = None
    updated_until: AwareDatetime | None = None
    """From `since` to before `until`."""
    sort: str | None = None
    """A time or an indexed field, with `-` before it the greatest first. `-created_at` by default."""

    @property
    def needs_indexes(self) -> bool:
        """Whether it names a field, or words."""
        return (
            bool(self.where) or self.q is not None or (self.sort or "").lstrip("-") not in ("", *SORTED_TIMES)
        )

    def to_json(self) -> dict[str, Any]:
        """Return what is said, as a saved filter keeps it."""
        return self.model_dump(mode="json", exclude_defaults=True)


def filter_from(data: object) -> EntityFilter:
    """Return the filter that `data` says; raise `Invalid` with every problem of its form."""
    found, problems = parse_declaration(EntityFilter, data)
    if found is None:
        raise Invalid(problems)
    return found


@dataclass(frozen=True, slots=True)
class ResolvedFilter:
    """A filter against the indexes of its entity type."""

    filter: EntityFilter
    conditions: tuple[RangeCondition, ...]
    sort: EntitySort

    @property
    def created(self) -> tuple[datetime, datetime]:
        return self.filter.created_since or FIRST_TIME, self.filter.created_until or LAST_TIME

    @property
    def updated(self) -> tuple[datetime, datetime]:
        return self.filter.updated_since or FIRST_TIME, self.filter.updated_until or LAST_TIME


def resolve_filter(
    wanted: EntityFilter, contract: Contract, declared: IndexDeclaration, building: Mapping[str, float]
) -> ResolvedFilter:
    """Return a filter as ranges of indexed values; raise `Refused` with every problem.

    `building` has the fields whose index is not complete yet, with the part that is done.
    """
    problems: list[Problem] = []
    names = _IndexNames(contract, declared, building)
    conditions = [
        *_field_conditions(wanted.where, names, problems),
        *_word_conditions(wanted.q, names, problems),
    ]
    sort = _sort_of(wanted.sort, names, problems)
    for name in ("created_since", "created_until", "updated_since", "updated_until"):
        at = getattr(wanted, name)
        if at is not None and not FIRST_TIME <= at <= LAST_TIME:
            message = f"expected a time from {FIRST_TIME.year} to {LAST_TIME.year}"
            problems.append(Problem("BAD_VALUE", message, (name,)))
    texts = [wanted.q, wanted.created_by, wanted.sort, *(wanted.state or ())]
    if any("\x00" in text for text in texts if text):
        problems.append(Problem("BAD_VALUE", "expected texts without NUL", ()))
    if len(wanted.state or ()) > STATES_MAX:
        message = f"at most {STATES_MAX} states were expected, found {len(wanted.state or ())}"
        problems.append(Problem("TOO_LARGE", message, ("state",)))
    if problems:
        raise Refused(Rejection.of(problems))
    return ResolvedFilter(wanted, tuple(conditions), sort)


@dataclass(frozen=True, slots=True)
class _IndexNames:
    """What lists of an entity type can be filtered by."""

    contract: Contract
    declared: IndexDeclaration
    building: Mapping[str, float]

    def spec(self, name: str, path: Path) -> FieldSpec | Problem:
        """Return the field of this name if lists can be filtered by it."""
        spec, kind = self.contract.fields.get(name), self.declared.fields.get(name)
        if spec is None:
            message = f"{shown(name)} is not a field of {self.contract.name}"
            return Problem("UNKNOWN_FIELD", message, path, did_you_mean(name, self._usable))
        if not spec.index:
            hint = did_you_mean(name, self._usable) or f"declare it in the contract: {name}: {{index: true}}"
            message = f"lists filter and sort by indexed fields only, and `{name}` is none"
            return Problem("NOT_INDEXED", message, path, hint)
        if kind is not spec.type:
            hint = "publish the contract that declares it"
            return Problem("NOT_INDEXED", f"the index of `{name}` was not published", path, hint)
        return self._unless_building(name, f"the index of `{name}`", path) or spec

    def searched(self, path: Path) -> Problem | None:
        """Return why there is no search over the entities; None if there is one."""
        if not self.contract.searched_fields:
            hint = "declare fields of it in the contract: {search: true}"
            return Problem("NOT_INDEXED", f"no field of {self.contract.name} is searched", path, hint)
        if not set(self.contract.searched_fields) <= set(self.declared.searched):
            hint = "publish the contract that declares them"
            return Problem("NOT_INDEXED", "the searched fields were not published", path, hint)
        return self._unless_building(WORDS, "the index of words", path)

    def _unless_building(self, name: str, what: str, path: Path) -> Problem | None:
        if name not in self.building:
            return None
        done = f"{self.building[name]:.0%}"
        hint = "a worker builds it; ask again later"
        return Problem("INDEX_BUILDING", f"{what} is being built: {done} is done", path, hint)

    @property
    def _usable(self) -> list[str]:
        return sorted(self.contract.indexed_fields)


def _field_conditions(
    texts: Sequence[str], names: _IndexNames, problems: list[Problem]
) -> Iterator[RangeCondition]:
    if len(texts) > CONDITIONS_MAX:
        message = f"at most {CONDITIONS_MAX} conditions were expected, found {len(texts)}"
        problems.append(Problem("TOO_LARGE", message, ("where",)))
        return
    for number, text in enumerate(texts):
        path = ("where", number)
        condition = parse_condition(text, path)
        if isinstance(condition, Problem):
            problems.append(condition)
            continue
        spec = names.spec(condition.field, path)
        found = spec if isinstance(spec, Problem) else _ranges(condition, spec, path)
        if isinstance(found, Problem):
            problems.append(found)
        else:
            yield found


_HINT: Final = "write it like `grand_total >= 100000`, `currency in EUR,USD` or `note is null`"


def parse_condition(text: str, path: Path) -> FieldCondition | Problem:
    """Return the condition that a text says, or what is wrong with it."""
    if len(text) > CONDITION_CHARACTERS_MAX or "\x00" in text:
        message = f"a condition has at most {CONDITION_CHARACTERS_MAX} characters, and none of them is NUL"
        return Problem("BAD_FILTER", message, path)
    match = _CONDITION.fullmatch(text)
    if match is None:
        message = f"expected a field, one of {', '.join(OPERATORS)} and a value, found {shown(text)}"
        return Problem("BAD_FILTER", message, path, _HINT)
    name, operator, rest = match[1], " ".join(match[2].lower().split()), match[3].strip()
    if operator.startswith("is ") == bool(rest):
        message = (
            f"`{operator}` takes no value, found {shown(rest)}"
            if rest
            else f"`{name} {operator}` needs a value"
        )
        return Problem("BAD_FILTER", message, path, _HINT)
    try:
        values = _values(operator, rest)
    except (ValueError, csv.Error):
        return Problem("BAD_FILTER", f"the quotes in {shown(rest)} do not fit together", path, _HINT)
    if len(values) > VALUES_MAX:
        return Problem("BAD_FILTER", f"`in` takes at most {VALUES_MAX} values, found {len(values)}", path)
    return FieldCondition(name, operator, values)


def _values(operator: str, text: str) -> tuple[str, ...]:
    """Return the values behind an operator, without the quotes that they may have."""
    if operator == "in":
        (values,) = csv.reader([text], skipinitialspace=True, strict=True)
        return tuple(dict.fromkeys(value.strip() for value in values))
    if not text:
        return ()
    return (str(json.loads(text)) if text.startswith('"') else text,)


def _ranges(condition: FieldCondition, spec: FieldSpec, path: Path) -> RangeCondition | Problem:
    """Return a condition as ranges of the texts by which values are sorted."""
    name, operator = condition.field, condition.operator
    if operator == "prefix":
        return _prefix_range(condition, spec, path)
    texts = [_text_of(spec, value, path) for value in condition.values]
    for text in texts:
        if isinstance(text, Problem):
            return text
    # Two ways to write a value, such as 1 and 01, are one value.
    points = tuple(_point(str(text)) for text in dict.fromkeys(texts or [NO_VALUE]))
    low, high = points[0].low, points[0].high
    match operator:
        case "<":
            points = (ValueRange(FIRST, low),)
        case "<=":
            points = (ValueRange(FIRST, high),)
        case ">":
            points = (ValueRange(high, LAST),)
        case ">=":
            points = (ValueRange(low, LAST),)
    return RangeCondition(name, points, negated=operator in ("!=", "is not null"))


def _point(text: str) -> ValueRange:
    """Return the range of one text: nothing lies between it and itself with the smallest character behind it."""
    return ValueRange(text, text + FIRST)


def _prefix_range(condition: FieldCondition, spec: FieldSpec, path: Path) -> RangeCondition | Problem:
    (prefix,) = condition.values
    if spec.type not in (FieldType.TEXT, FieldType.ENUM):
        message = f"`prefix` goes with text, `{condition.field}` is {spec.type}"
        return Problem("BAD_FILTER", message, path, hint="use < and >=")
    if len(fold(prefix)) > TEXT_CHARACTERS_MAX:
        message = f"a prefix has at most {TEXT_CHARACTERS_MAX} characters, found {len(prefix)}"
        return Problem("BAD_FILTER", message, path)
    return RangeCondition(condition.field, (ValueRange(fold(prefix), fold(prefix) + LAST),))


_READ: Final[Mapping[FieldType, Callable[[str], Any]]] = {
    FieldType.INTEGER: int,
    FieldType.MONEY: int,
    FieldType.BOOLEAN: {"true": True, "false": False}.__getitem__,
}


def _text_of(spec: FieldSpec, value: str, path: Path) -> str | Problem:
    """Return the text by which a value is sorted; a value need not be within the limits of its field."""
    bare = FieldSpec(type=spec.type, to=spec.to, values=(value,) if spec.type is FieldType.ENUM else None)
    try:
        read = _READ.get(spec.type, str)(value)
    except (ValueError, KeyError):
        read = value
    kept, problems = check_value(bare, read, path)
    return problems[0] if problems else text_of(spec.type, kept)


def _word_conditions(q: str | None, names: _IndexNames, problems: list[Problem]) -> Iterator[RangeCondition]:
    """Yield a condition for each word of a search; the words that an entity has are conditions like any other."""
    if q is None:
        return
    path = ("q",)
    if problem := names.searched(path):
        problems.append(problem)
        return
    if len(q) > SEARCH_CHARACTERS_MAX:
        message = f"a search has at most {SEARCH_CHARACTERS_MAX} characters, found {len(q)}"
        problems.append(Problem("TOO_LONG", message, path))
        return
    whole, begun = set[str](), set[str]()
    for part in q.split():
        *before, last = words_of_in_order(part) or [""]
        whole.update(before)
        (begun if part.endswith("*") else whole).add(last)
    whole.discard("")
    begun.discard("")
    if not whole | begun:
        problems.append(Problem("BAD_FILTER", f"expected words to search for, found {shown(q)}", path))
    if len(whole | begun) > SEARCH_WORDS_MAX:
        message = f"a search has at most {SEARCH_WORDS_MAX} words, found {len(whole | begun)}"
        problems.append(Problem("TOO_LONG", message, path))
        return
    for word in sorted(whole):
        yield RangeCondition(WORDS, (_point(word),))
    for word in sorted(begun):
        yield RangeCondition(WORDS, (ValueRange(word, word + LAST),))


def words_of_in_order(text: str) -> list[str]:
    """Return the words of a part of a search, cut as they are in the index."""
    return [word[:WORD_CHARACTERS_MAX] for word in re.findall(r"\w+", fold(text))]


def _sort_of(text: str | None, names: _IndexNames, problems: list[Problem]) -> EntitySort:
    if text is None:
        return EntitySort()
    name = text.removeprefix("-")
    sort = EntitySort(name, text.startswith("-"))
    if name not in SORTED_TIMES:
        path: Path = ("sort",)
        found = names.spec(name, path)
        if isinstance(found, Problem):
            times = list(SORTED_TIMES)
            hint = did_you_mean(name, times) or found.hint
            problems.append(Problem(found.code, found.message, path, hint))
    return sort
