"""What comparisons mean for values as they come: of any type, or missing.

JSON has neither decimals nor times nor durations, so text stands in for them: where text meets a number it is read
as a decimal, where it meets a time as ISO 8601, where it meets a duration as `90s` or `3d`. Text that cannot be read
so is unlike the other side. Unlike values are unequal and in no order. Nothing here raises, whatever it is given.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, cast
from uuid import UUID

from assent.model.values import DECIMAL_DIGITS_MAX

_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")

# Tuples, because `a | b` would be built again at every call; `Mapping` last, because it is slow to ask for.
_LISTS: Final = (list, tuple)
_STACKS: Final = (list, tuple, set, frozenset)
_OBJECTS: Final = (dict, Mapping)
_IDS: Final = (str, UUID)


def as_decimal(value: object) -> object:
    """Text that is a decimal number as that number; anything else as it is."""
    if isinstance(value, str) and len(value) <= DECIMAL_DIGITS_MAX and _DECIMAL.fullmatch(value):
        return Decimal(value)
    return value


def as_time(value: object) -> object:
    """Return a date or an ISO 8601 text as the moment it begins, in UTC unless it says otherwise; else as it is."""
    if isinstance(value, str):
        value = _read_time(value)
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value


def _read_time(text: str) -> datetime | str:
    if text[4:8:3] != "--":
        # Not YYYY-MM-DD: the library would also read weeks and days without dashes.
        return text
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


_DURATION: Final = re.compile(r"(-?)([0-9]{1,12})(\.[0-9]{1,6})?([smhd])")
_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_MICROSECOND: Final = timedelta(microseconds=1)


def as_duration(value: object) -> object:
    """Text such as `90s`, `24h` or `-3d` as the length of time that it says; anything else as it is."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None or (found[3] and found[4] != "s"):
        return value
    seconds = Decimal(f"{found[1]}{found[2]}{found[3] or ''}") * _UNITS[found[4]]
    try:
        return int(seconds * 1_000_000) * _MICROSECOND
    except OverflowError:
        return value


def duration_text(length: timedelta) -> str:
    """Return a length of time as text, in the largest unit that leaves no fraction."""
    microseconds = length // _MICROSECOND
    seconds, rest = divmod(abs(microseconds), 1_000_000)
    sign = "-" if microseconds < 0 else ""
    if rest:
        return f"{sign}{seconds}.{rest:06}".rstrip("0") + "s"
    unit = next(unit for unit, size in _UNITS.items() if seconds % size == 0)
    return f"{sign}{seconds // _UNITS[unit]}{unit}"


def is_number(value: object) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, Decimal) and value.is_finite()


def same(left: object, right: object) -> bool:
    """Return whether two values are equal; `True` is not 1, and null equals null only."""
    if left is None or right is None:
        return left is right
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    pair = alike(left, right)
    if pair is not None:
        return bool(pair[0] == pair[1])
    if isinstance(left, _LISTS) and isinstance(right, _LISTS):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, _OBJECTS) and isinstance(right, _OBJECTS):
        return left.keys() == right.keys() and all(same(item, right[key]) for key, item in left.items())
    return False


def different(left: object, right: object) -> bool:
    return not same(left, right)


def ordered(test: Callable[[Any, Any], bool], left: object, right: object) -> bool:
    """Return whether `test` (such as `operator.lt`) holds of two values that have an order; else false."""
    pair = alike(left, right)
    return pair is not None and test(*pair)


def alike(left: object, right: object) -> tuple[Any, Any] | None:
    """Both values in one comparable form, or None when there is none."""
    if isinstance(left, str) and isinstance(right, str):
        return left, right
    if isinstance(left, date) or isinstance(right, date):
        left, right = as_time(left), as_time(right)
        return (left, right) if isinstance(left, datetime) and isinstance(right, datetime) else None
    if isinstance(left, timedelta) or isinstance(right, timedelta):
        left, right = as_duration(left), as_duration(right)
        return (left, right) if isinstance(left, timedelta) and isinstance(right, timedelta) else None
    if isinstance(left, UUID) or isinstance(right, UUID):
        return (str(left), str(right)) if isinstance(left, _IDS) and isinstance(right, _IDS) else None
    left, right = as_decimal(left), as_decimal(right)
    return (exact(left), exact(right)) if is_number(left) and is_number(right) else None


def exact(value: Any) -> int | Decimal:
    # A float stands for the decimal that JSON spelled: 0.1 is one tenth, not its binary neighbour.
    return Decimal(repr(value)) if isinstance(value, float) else value


def member(needle: object, stack: object) -> bool:
    """Return whether `stack`, a list, holds a value equal to `needle`, or, an object, has it as a key."""
    if needle is None:
        return False
    if isinstance(stack, _STACKS):
        return _listed(needle, stack)
    return isinstance(stack, _OBJECTS) and _key(needle) in stack


def _listed(needle: object, stack: Collection[object]) -> bool:
    if isinstance(needle, str):
        # Lists of text are the common case and may be long; Python finds text in them much faster than we do.
        if needle in stack:
            return True
        stack = [item for item in stack if type(item) is not str]
    return bool(stack) and any(same(needle, item) for item in stack)


def contains(stack: object, needle: object) -> bool:
    """`member` the other way round; text also contains its parts."""
    if isinstance(stack, str):
        return isinstance(needle, str) and needle in stack
    return member(needle, stack)


def starts_with(text: object, prefix: object) -> bool:
    return isinstance(text, str) and isinstance(prefix, str) and text.startswith(prefix)


def ends_with(text: object, suffix: object) -> bool:
    return isinstance(text, str) and isinstance(suffix, str) and text.endswith(suffix)


def looked_up(target: object, key: object) -> object:
    """`target[key]`, or None: wrong types, absent keys and indexes outside the list are all missing."""
    if isinstance(target, _LISTS):
        is_index = isinstance(key, int) and not isinstance(key, bool)
        return target[cast("int", key)] if is_index and 0 <= cast("int", key) < len(target) else None
    return target.get(_key(key)) if isinstance(target, _OBJECTS) else None


def _key(key: object) -> str | None:
    # Keys of JSON objects are text, so an integer asks for its digits.
    if isinstance(key, str):
        return key
    return str(key) if isinstance(key, int) and not isinstance(key, bool) else None


_KEPT: Final = frozenset({str, int, bool, float, type(None)})


def as_json(value: Any) -> Any:
    """Return a result in the form in which it can be kept, sent and read back."""
    if type(value) in _KEPT:
        return value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    return [as_json(item) for item in value] if isinstance(value, list | tuple) else value
