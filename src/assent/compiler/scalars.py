"""What a YAML scalar means: text, unless it is written exactly as JSON writes something else.

YAML 1.1 would turn `on`, `no` and `2024-05-01` into a boolean, a boolean and a date; `on` is a key of our own
edges, so only `true`, `false`, `null` and JSON's numbers are more than text here.
"""

import math
import re
from typing import Final

from assent.model.canonical import INTEGER_MAX
from assent.model.problems import Position, Problem

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DIGITS_MAX: Final = 400
"""Longer numbers are not converted: turning digits into a number takes quadratic time."""

Scalar = None | bool | int | float | str


def plain_scalar(text: str, position: Position) -> tuple[Scalar, Problem | None]:
    """The value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text], None
    match = _NUMBER.fullmatch(text)
    if match is None:
        return text, None
    number = _number(text, is_whole=match.lastindex is None)
    if number is None:
        message = f"{text[:40]} is beyond what a JSON reader keeps exactly"
        return text, Problem(
            "NUMBER_NOT_KEPT", message, hint="quote it, so that it is text", position=position
        )
    return number, None


def _number(text: str, *, is_whole: bool) -> int | float | None:
    if len(text) > _DIGITS_MAX:
        return None
    if is_whole:
        whole = int(text)
        return whole if abs(whole) <= INTEGER_MAX else None
    number = float(text)
    return number if math.isfinite(number) else None
