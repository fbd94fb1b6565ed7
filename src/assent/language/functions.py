"""The functions of the language: what they take, and what those of plain values return.

Nothing here raises but `ExpressionTooCostly`. An argument of an unlike type makes the result missing.
`assent.language.check` knows the types of what functions return; `assent.language.closures` evaluates `if` and the
functions of lists.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from operator import gt, lt
from typing import Any, Final, NamedTuple

from assent.language.arithmetic import absolute, rounded, total
from assent.language.types import DECIMAL, INTEGER, NUMBERS, TEXT, TIMES, Type, TypeKind
from assent.language.values import alike, duration_text, ordered
from assent.model.money import money_text
from assent.model.problems import Invalid, Problem

TEXT_CHARACTERS_MAX: Final = 100_000
"""Of what a function returns; a longer text is missing."""
STEPS_MAX: Final = 100_000
"""Items that the functions of lists look at, one inside the other, with what they read besides and what they return."""

IF: Final = "if"
ITEM: Final = "item"
LIST_FUNCTIONS: Final = frozenset({"any", "all", "none", "count", "sum", "min", "max", "map"})
CONDITIONS_ON_LISTS: Final = frozenset({"any", "all", "none", "count"})
"""Their second argument says yes or no of an item."""
SELECTIONS: Final = frozenset({IF, "any", "all", "none", "min", "max", "map"})
"""Functions that return a value that was there before; others compute a new one."""


class ExpressionTooCostly(Invalid):
    """An evaluation looked at more items than it may."""

    def __init__(self) -> None:
        message = f"an expression looks at no more than {STEPS_MAX:,} items of lists in one evaluation"
        hint = "do not go through one list for each item of another"
        super().__init__([Problem("EXPRESSION_TOO_COSTLY", message, hint=hint)])


class Arity(NamedTuple):
    least: int
    most: int
    usage: str


ARITIES: Final[Mapping[str, Arity]] = {
    IF: Arity(3, 3, "if(condition, value, other)"),
    "any": Arity(1, 2, "any(list, condition of item)"),
    "all": Arity(1, 2, "all(list, condition of item)"),
    "none": Arity(1, 2, "none(list, condition of item)"),
    "count": Arity(1, 2, "count(list) or count(list, condition of item)"),
    "sum": Arity(1, 2, "sum(list) or sum(list, number of item)"),
    "min": Arity(1, 2, "min(list) or min(list, value of item)"),
    "max": Arity(1, 2, "max(list) or max(list, value of item)"),
    "map": Arity(2, 2, "map(list, value of item)"),
    "round": Arity(1, 2, "round(number) or round(number, places)"),
    "abs": Arity(1, 1, "abs(number)"),
    "money": Arity(1, 2, "money(amount) or money(amount, currency)"),
    "length": Arity(1, 1, "length(text)"),
    "lower": Arity(1, 1, "lower(text)"),
    "upper": Arity(1, 1, "upper(text)"),
    "trim": Arity(1, 1, "trim(text)"),
    "substring": Arity(2, 3, "substring(text, start) or substring(text, start, length)"),
    "replace": Arity(3, 3, "replace(text, part, other)"),
    "concat": Arity(1, 20, "concat(value, value, …) of at most 20 values"),
    "join": Arity(1, 2, "join(list) or join(list, separator)"),
}


def text_of(value: Any) -> str:  # noqa: PLR0911 - one return for each form
    """Return a plain value as it reads within text; missing is empty."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return duration_text(value)
    return str(value)


def _short(text: str) -> str | None:
    return text if len(text) <= TEXT_CHARACTERS_MAX else None


def _of_text(function: Callable[[str], Any]) -> Callable[..., Any]:
    def apply(text: object) -> Any:
        if not isinstance(text, str) or len(text) > TEXT_CHARACTERS_MAX:
            return None
        return function(text)

    return apply


def _substring(text: object, start: object, length: object = TEXT_CHARACTERS_MAX) -> str | None:
    if not isinstance(text, str) or type(start) is not int or type(length) is not int:
        return None
    if start < 0 or length < 0:
        return None
    return _short(text[start : start + length])


def _replace(text: object, part: object, other: object) -> str | None:
    if not isinstance(text, str) or not isinstance(part, str) or not isinstance(other, str) or not part:
        return None
    # Counted first: the text that comes out may be many times as long.
    if len(text) + text.count(part) * (len(other) - len(part)) > TEXT_CHARACTERS_MAX:
        return None
    return text.replace(part, other)


def _concat(*values: object) -> str | None:
    if any(isinstance(value, list | tuple | Mapping) for value in values):
        return None
    return _short("".join(map(text_of, values)))


def _join(items: object, separator: object = "") -> str | None:
    if items is None:
        items = ()
    if not isinstance(items, list | tuple) or not isinstance(separator, str):
        return None
    kept = [item for item in items if item is not None]
    if any(isinstance(item, list | tuple | Mapping) for item in kept):
        return None
    texts = list(map(text_of, kept))
    if sum(map(len, texts)) + len(separator) * len(texts) > TEXT_CHARACTERS_MAX + len(separator):
        return None
    return separator.join(texts)


def _money(amount: object, currency: object = None) -> str | None:
    """Minor units as people read money: 2060000 of EUR is `20,600.00 EUR`."""
    units = rounded(amount)
    if units is None or not isinstance(currency, str | None):
        return None
    return money_text(units, currency)


APPLY: Final[Mapping[str, Callable[..., Any]]] = {
    "round": rounded,
    "abs": absolute,
    "money": _money,
    "length": _of_text(len),
    "lower": _of_text(lambda text: _short(text.lower())),
    "upper": _of_text(lambda text: _short(text.upper())),
    "trim": _of_text(lambda text: text.strip(" \t\r\n")),
    "substring": _substring,
    "replace": _replace,
    "concat": _concat,
    "join": _join,
}
"""The functions that evaluate all their arguments and compute with the values."""


def _holds_of_any(values: Iterable[Any]) -> bool:
    return any(value is True for value in values)


def _holds_of_all(values: Iterable[Any]) -> bool:
    return all(value is True for value in values)


def _extreme(is_better: Callable[[Any, Any], bool]) -> Callable[[Iterable[Any]], Any]:
    def fold(values: Iterable[Any]) -> Any:
        best = None
        for value in values:
            if value is None:
                continue
            if alike(value, value if best is None else best) is None:
                return None
            if best is None or ordered(is_better, value, best):
                best = value
        return best

    return fold


FOLD: Final[Mapping[str, Callable[[Iterable[Any]], Any]]] = {
    "any": _holds_of_any,
    "all": _holds_of_all,
    "none": lambda values: not _holds_of_any(values),
    "count": lambda values: sum(value is True for value in values),
    "sum": total,
    "min": _extreme(lt),
    "max": _extreme(gt),
    "map": list,
}
"""The functions of lists: what they make of the value of each item, in order."""

OF_NO_LIST: Final[Mapping[str, Any]] = dict.fromkeys(LIST_FUNCTIONS, None) | dict.fromkeys(
    ("any", "all", "none"), False
)
"""What they return of a value that is no list. A missing list is an empty one."""


class Steps:
    """How much an evaluation has looked at."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = 0

    def take(self, count: int = 1) -> None:
        """Raise `ExpressionTooCostly` if the limit is passed."""
        self.taken += count
        if self.taken > STEPS_MAX:
            raise ExpressionTooCostly

    def take_value(self, value: object) -> None:
        """Count all that a value holds; text counts by its length."""
        waiting = [value]
        while waiting:
            found = waiting.pop()
            if isinstance(found, str):
                self.take(len(found) >> 6)
            elif isinstance(found, list | tuple | set | frozenset):
                self.take(len(found))
                waiting += found
            elif isinstance(found, Mapping):
                self.take(len(found))
                waiting += found.values()


class ItemScope(Mapping[str, Any]):
    """The variables around a function of lists, and the `item` that it looks at now."""

    __slots__ = ("_outer", "item", "steps")

    def __init__(self, outer: Mapping[str, Any], item: Any = None) -> None:
        self._outer = outer
        self.item = item
        self.steps: Steps = outer.steps if isinstance(outer, ItemScope) else Steps()

    def get(self, name: str, default: Any = None) -> Any:
        return self.item if name == ITEM else self._outer.get(name, default)

    def __getitem__(self, name: str) -> Any:
        return self.item if name == ITEM else self._outer[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._outer, ITEM: None})

    def __len__(self) -> int:
        return len({**self._outer, ITEM: None})


TEXT_ONLY: Final = frozenset({TypeKind.TEXT})
INTEGER_ONLY: Final = frozenset({TypeKind.INTEGER})
SCALARS: Final = NUMBERS | TIMES | {TypeKind.TEXT, TypeKind.BOOLEAN, TypeKind.DURATION, TypeKind.NULL}

PARAMETERS: Final[Mapping[str, tuple[frozenset[TypeKind], ...]]] = {
    "round": (NUMBERS, INTEGER_ONLY),
    "abs": (NUMBERS | {TypeKind.DURATION},),
    "money": (NUMBERS, TEXT_ONLY | {TypeKind.NULL}),
    "length": (TEXT_ONLY,),
    "lower": (TEXT_ONLY,),
    "upper": (TEXT_ONLY,),
    "trim": (TEXT_ONLY,),
    "substring": (TEXT_ONLY, INTEGER_ONLY, INTEGER_ONLY),
    "replace": (TEXT_ONLY, TEXT_ONLY, TEXT_ONLY),
    "concat": (SCALARS,) * 20,
    "join": (frozenset({TypeKind.LIST}), TEXT_ONLY),
}
"""The types that each argument may have."""


def result_type(function: str, arguments: list[Type]) -> Type:
    """Return the type of what a function of plain values returns."""
    if function == "round":
        return INTEGER if len(arguments) == 1 else DECIMAL
    if function == "abs":
        return arguments[0]
    return INTEGER if function == "length" else TEXT
