"""Canonical JSON: one text, and so one hash, for every logically equal value.

Keys are sorted by code point at every depth, there is no white space, and only values that every JSON reader
gives back unchanged are let in. Whatever is hashed or deduplicated goes through here, so that key order or a
float's rendering can never make two equal things look different.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import orjson

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

INTEGER_MAX = 2**53 - 1
"""The largest integer that a JSON reader with IEEE 754 doubles keeps exactly."""

DEPTH_MAX = 64
"""No document of ours is nested deeper; a deeper one is an attack on a parser."""


class NotCanonical(ValueError):
    """A value that JSON cannot keep; `path` leads to it, `code` names the reason."""

    def __init__(self, code: str, message: str, path: tuple[str | int, ...]) -> None:
        super().__init__(message)
        self.code = code
        self.path = path


def require_canonical(value: object, path: tuple[str | int, ...] = ()) -> None:
    """Raise `NotCanonical` for the first part of `value` that JSON, or PostgreSQL's jsonb, would not keep."""
    if not _is_kept(value, len(path)):
        _require(value, path)


def _is_kept(value: object, depth: int) -> bool:  # noqa: PLR0911
    """Return whether plain JSON is sure to be kept, in a third of the time; false leaves it to the other check."""
    kind = type(value)
    if kind is str:
        return "\x00" not in value and value.isascii()  # type: ignore[operator, attr-defined]
    if kind is int:
        return -INTEGER_MAX <= value <= INTEGER_MAX  # type: ignore[operator]
    if depth >= DEPTH_MAX:
        return False
    if kind is dict:
        for key, item in value.items():  # type: ignore[attr-defined]
            if type(key) is not str or "\x00" in key or not key.isascii() or not _is_kept(item, depth + 1):
                return False
        return True
    if kind is list:
        return all(_is_kept(item, depth + 1) for item in value)  # type: ignore[attr-defined]
    return value is None or kind is bool or (kind is float and math.isfinite(value))  # type: ignore[arg-type]


def _require(value: object, path: tuple[str | int, ...] = ()) -> None:
    if len(path) > DEPTH_MAX:
        raise NotCanonical("TOO_DEEP", f"nested deeper than {DEPTH_MAX} levels", path)
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _require_text(value, path)
    elif isinstance(value, int | float):
        _require_number(value, path)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _require_key(key, path)
            _require(item, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _require(item, (*path, index))
    else:
        raise NotCanonical("WRONG_TYPE", f"{type(value).__name__} is not a JSON type", path)


def _require_number(value: float, path: tuple[str | int, ...]) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise NotCanonical("NUMBER_NOT_KEPT", f"{value} is not a JSON number", path)
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        raise NotCanonical("NUMBER_NOT_KEPT", "an integer beyond ±2^53-1 is rounded by JSON readers", path)


def _require_key(key: object, path: tuple[str | int, ...]) -> None:
    if not isinstance(key, str):
        raise NotCanonical("WRONG_TYPE", f"object keys are text, found {type(key).__name__}", path)
    _require_text(key, path)


def _require_text(value: str, path: tuple[str | int, ...]) -> None:
    if "\x00" in value:
        raise NotCanonical("TEXT_NOT_KEPT", "text holds a NUL character, which PostgreSQL cannot keep", path)
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise NotCanonical("TEXT_NOT_KEPT", "text is not valid UTF-8", path) from None


def canonical_json(value: Any) -> bytes:
    """Return the canonical text of `value`; equal values give equal bytes."""
    require_canonical(value)
    return orjson.dumps(_whole_floats_as_integers(value), option=orjson.OPT_SORT_KEYS)


def canonical_hash(value: Any) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def _whole_floats_as_integers(value: Any) -> Any:
    # 1.0 and 1 are one number in JSON and in jsonb, but two texts in Python; numbers meet here.
    kind = type(value)
    if kind is str or kind is int:
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= INTEGER_MAX else value
    if isinstance(value, Mapping):
        return {key: _whole_floats_as_integers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_floats_as_integers(item) for item in value]
    return value
