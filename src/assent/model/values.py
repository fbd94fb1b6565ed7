"""Values against a contract's fields: what is accepted, in which form it is kept, and what is wrong with it.

`null` is absence everywhere: setting a field to null removes it, and required fields refuse it.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from assent.model.canonical import INTEGER_MAX, JsonValue, NotCanonical, require_canonical
from assent.model.contract import FieldSpec, FieldType, limit_of
from assent.model.parse import shown
from assent.model.patterns import compile_pattern
from assent.model.problems import HINTS_MAX, PROBLEMS_MAX, Path, Problem, did_you_mean

Fields = Mapping[str, FieldSpec]
Checked = tuple[JsonValue, list[Problem]]

LIST_ITEMS_MAX: Final = 10_000
DECIMAL_DIGITS_MAX: Final = 100
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
"""In ASCII: `\\d` takes the digits of every script, and other readers of the value do not."""


def check_changes(
    fields: Fields, changes: Mapping[str, Any], path: Path = (), found_before: int = 0
) -> tuple[dict[str, Any], list[Problem]]:
    """Some fields' new values in the form in which they are kept, with the first `PROBLEMS_MAX` problems among them."""
    kept: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in changes.items():
        so_far = found_before + len(problems)
        if so_far >= PROBLEMS_MAX:
            break
        spec = fields.get(name) if isinstance(name, str) else None
        if spec is None:
            problems.append(_unknown_field(fields, name, path, is_hinted=so_far < HINTS_MAX))
            continue
        kept[name], found = check_value(spec, value, (*path, name), so_far)
        problems += found
    return kept, problems


def check_required(fields: Fields, data: Mapping[str, Any], path: Path = ()) -> list[Problem]:
    """Return the required fields that `data` lacks; those that the system fills in come when they come."""
    return [
        Problem("MISSING_FIELD", f"`{name}` is required", (*path, name))
        for name, spec in fields.items()
        if spec.required and not spec.system and data.get(name) is None
    ]


def check_value(spec: FieldSpec, value: Any, path: Path, found_before: int = 0) -> Checked:
    """Return one value in the form in which it is kept, or what is wrong with it."""
    if value is None:
        return None, []
    if spec.type is FieldType.LIST:
        return _check_list(spec, value, path, found_before)
    if spec.type is FieldType.OBJECT:
        return _check_object(spec, value, path, found_before)
    return _CHECKS[spec.type](spec, value, path)


def _unknown_field(fields: Fields, name: object, path: Path, *, is_hinted: bool) -> Problem:
    hint = did_you_mean(str(name), fields) if is_hinted else None
    return Problem(
        "UNKNOWN_FIELD", f"{shown(name)} is not a field of this contract", (*path, str(name)), hint
    )


def _wrong_type(spec: FieldSpec, wanted: str, value: object, path: Path) -> Checked:
    found = f"{type(value).__name__} {shown(value)}"
    return None, [Problem("WRONG_TYPE", f"{spec.type} takes {wanted}, found {found}", path)]


def _kept_text(value: str, path: Path) -> list[Problem]:
    try:
        require_canonical(value, path)
    except NotCanonical as error:
        return [Problem(error.code, str(error), error.path)]
    return []


def _out_of_range(spec: FieldSpec, measure: Any, path: Path) -> list[Problem]:
    """`min` and `max` bound a number or a date itself, and a text or a list by its length."""
    if spec.min is not None and measure < limit_of(spec.type, spec.min):
        return [Problem("OUT_OF_RANGE", f"{measure} is below the minimum {spec.min}", path)]
    if spec.max is not None and measure > limit_of(spec.type, spec.max):
        return [Problem("OUT_OF_RANGE", f"{measure} is above the maximum {spec.max}", path)]
    return []


def _check_text(spec: FieldSpec, value: Any, path: Path) -> Checked:
    if not isinstance(value, str):
        return _wrong_type(spec, "text", value, path)
    problems = _kept_text(value, path) or _out_of_range(spec, len(value), path)
    return value, problems or _unlike_pattern(spec, value, path)


def _unlike_pattern(spec: FieldSpec, value: str, path: Path) -> list[Problem]:
    matches = compile_pattern(spec.pattern) if spec.pattern is not None else None
    if matches is None or (callable(matches) and matches(value)):
        return []
    return [Problem("PATTERN_MISMATCH", f"{shown(value)} does not fit the pattern {spec.pattern}", path)]


def _check_integer(spec: FieldSpec, value: Any, path: Path) -> Checked:
    if not isinstance(value, int) or isinstance(value, bool):
        wanted = "a whole number of minor units" if spec.type is FieldType.MONEY else "a whole number"
        return _wrong_type(spec, wanted, value, path)
    if abs(value) > INTEGER_MAX:
        return None, [
            Problem("NUMBER_NOT_KEPT", f"{shown(value)} is beyond ±2^53-1, which JSON readers round", path)
        ]
    return value, _out_of_range(spec, value, path)


def _check_decimal(spec: FieldSpec, value: Any, path: Path) -> Checked:
    text = str(value) if isinstance(value, Decimal | int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        return _wrong_type(spec, "a number as text, such as '12.50'", value, path)
    if len(text) > DECIMAL_DIGITS_MAX or not _DECIMAL.fullmatch(text):
        return None, [
            Problem("WRONG_TYPE", f"{shown(text)} is not a plain decimal number such as '12.50'", path)
        ]
    return text, _out_of_range(spec, Decimal(text), path)


def _check_date(spec: FieldSpec, value: Any, path: Path) -> Checked:
    if isinstance(value, date) and not isinstance(value, datetime):
        value = value.isoformat()
    try:
        day = date.fromisoformat(value)
    except (TypeError, ValueError):
        return _wrong_type(spec, "a date such as '2026-11-16'", value, path)
    return day.isoformat(), _out_of_range(spec, day, path)


def _check_datetime(spec: FieldSpec, value: Any, path: Path) -> Checked:
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return _wrong_type(spec, "a time such as '2026-11-16T09:30:00Z'", value, path)
    if moment.tzinfo is None:
        hint = "end it with Z or an offset such as +01:00"
        return None, [Problem("WRONG_TYPE", f"{shown(value)} does not say its time zone", path, hint)]
    return moment.isoformat(), _out_of_range(spec, moment, path)


def _check_boolean(spec: FieldSpec, value: Any, path: Path) -> Checked:
    return (value, []) if isinstance(value, bool) else _wrong_type(spec, "true or false", value, path)


def _check_enum(spec: FieldSpec, value: Any, path: Path) -> Checked:
    choices = spec.values or ()
    if not isinstance(value, str):
        return _wrong_type(spec, f"one of {', '.join(choices)}", value, path)
    if value not in choices:
        return None, [Problem("BAD_VALUE", f"{shown(value)} is not one of {', '.join(choices)}", path)]
    return value, []


def _check_reference(spec: FieldSpec, value: Any, path: Path) -> Checked:
    try:
        return str(value if isinstance(value, UUID) else UUID(value)), []
    except (TypeError, ValueError, AttributeError):
        return _wrong_type(spec, f"the id of {spec.to or 'an entity'}", value, path)


def _check_list(spec: FieldSpec, value: Any, path: Path, found_before: int) -> Checked:
    if not isinstance(value, list | tuple):
        return _wrong_type(spec, "a list", value, path)
    if len(value) > LIST_ITEMS_MAX:
        return None, [Problem("TOO_LARGE", f"{len(value)} items are more than {LIST_ITEMS_MAX}", path)]
    if spec.of is None:
        return list(value), []
    kept: list[JsonValue] = []
    problems: list[Problem] = []
    for index, item in enumerate(value):
        so_far = found_before + len(problems)
        if so_far >= PROBLEMS_MAX:
            break
        checked, found = check_value(spec.of, item, (*path, index), so_far)
        kept.append(checked)
        problems += found
    return kept, problems or _out_of_range(spec, len(value), path)


def _check_object(spec: FieldSpec, value: Any, path: Path, found_before: int) -> Checked:
    if not isinstance(value, Mapping):
        return _wrong_type(spec, "an object", value, path)
    if spec.fields is None:
        try:
            require_canonical(value, path)
        except NotCanonical as error:
            return None, [Problem(error.code, str(error), error.path)]
        return dict(value), []
    kept, problems = check_changes(spec.fields, value, path, found_before)
    kept = {name: item for name, item in kept.items() if item is not None}
    return kept, problems + check_required(spec.fields, kept, path)


_CHECKS: Final[Mapping[FieldType, Callable[[FieldSpec, Any, Path], Checked]]] = {
    FieldType.TEXT: _check_text,
    FieldType.INTEGER: _check_integer,
    FieldType.MONEY: _check_integer,
    FieldType.DECIMAL: _check_decimal,
    FieldType.DATE: _check_date,
    FieldType.DATETIME: _check_datetime,
    FieldType.BOOLEAN: _check_boolean,
    FieldType.ENUM: _check_enum,
    FieldType.REFERENCE: _check_reference,
}


def plain_decimal(value: Decimal | None) -> Decimal | None:
    """Return a number with all its digits written out: the driver reads 2060000 as 2.06E+6."""
    return None if value is None else Decimal(f"{value:f}")
