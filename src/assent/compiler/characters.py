"""Characters that do not belong into a source, or into a name.

Text in any language is welcome in labels and messages. What is refused is what an eye cannot see or tell
apart: control characters, the marks that reorder a line (so that it reads otherwise than it runs), and, in
keys, letters that look like others.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from assent.model.problems import Position, Problem

PROBLEMS_MAX: Final = 100
"""After so many of one kind, the rest would only hide the first."""

_REFUSED: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters
    "\u2028\u2029"  # line breaks for YAML, but for no editor
    "\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c"  # marks that reorder a line
    "\ufeff\ufffe\uffff\U000e0000-\U000e007f]"  # byte order marks, non-characters and invisible tags
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def bad_characters(lines: Sequence[str]) -> list[Problem]:
    """Return a problem for each refused character of a text, up to `PROBLEMS_MAX`."""
    found: list[Problem] = []
    for number, line in enumerate(lines, start=1):
        if line.isascii() and line.isprintable():
            continue
        for match in _REFUSED.finditer(line):
            found.append(_refusal(match[0], Position(number, match.start() + 1)))
            if len(found) == PROBLEMS_MAX:
                return found
    return found


def bad_character_in(value: str, position: Position) -> Problem | None:
    """Return the problem of a scalar whose escapes (`"\\0"`) made a character that nothing of ours can keep."""
    if value.isascii() and value.isprintable():
        return None
    match = _SURROGATE.search(value) or _REFUSED.search(value)
    return _refusal(match[0], position) if match else None


def look_alike(name: str, position: Position) -> Problem | None:
    """Return the problem of a name that mixes alphabets or uses a variant of a plain letter."""
    if name.isascii():
        return None
    scripts = {_script(character) for character in name if character.isalpha()}
    if len(scripts) < 2 and unicodedata.normalize("NFKC", name) == name:
        return None
    message = "the name mixes letters that look alike"
    return Problem("LOOK_ALIKE", message, hint=name_characters(name), position=position)


def name_characters(name: str) -> str | None:
    """Return the characters beyond ASCII in `name`, by their Unicode names; None when there are none."""
    strange = list(dict.fromkeys(character for character in name if not character.isascii()))
    if not strange:
        return None
    named = [f"`{character}` is {_unicode_name(character)}" for character in strange[:3]]
    return "; ".join(named) + ("; …" if len(strange) > 3 else "")


def _refusal(character: str, position: Position) -> Problem:
    message = f"{_unicode_name(character)} is invisible, or changes how the line reads"
    return Problem("BAD_CHARACTER", message, hint="remove it", position=position)


def _script(character: str) -> str:
    return unicodedata.name(character, "UNKNOWN").partition(" ")[0]


def _unicode_name(character: str) -> str:
    name = unicodedata.name(character, "")
    return f"{name} (U+{ord(character):04X})" if name else f"the character U+{ord(character):04X}"
