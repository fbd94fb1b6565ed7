"""Texts that name something: ids of orgs, keys, causes, names, and the ids of members. Pure.

A name has something to see in it. A blank name is a mistake of a program: an unset variable, a template without a
value. Taken, all such mistakes would be one org, one key or one cause.

The id of a member is compared byte by byte everywhere: in tokens, seats, audit entries. Two ids that a person reads as
the same are therefore two people, unless only one spelling is taken. Look-alikes of ids that an org has are found by
the database, `assent.skeleton_of_id`.
"""

import re
import unicodedata
from typing import Final

from assent.model.canonical import NotCanonical, require_canonical
from assent.model.mutation import Refused, Rejection

BLANKS: Final = (
    (0x01, 0x20),  # controls, blank
    (0x7F, 0xA0),
    (0xAD, 0xAD),  # soft hyphen
    (0x34F, 0x34F),  # combining grapheme joiner
    *((0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD), (0x70F, 0x70F), (0x890, 0x891), (0x8E2, 0x8E2)),
    *((0x115F, 0x1160), (0x1680, 0x1680), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x2000, 0x200F), (0x2028, 0x202F), (0x205F, 0x206F)),  # spaces, zero width, direction
    *((0x2800, 0x2800), (0x3000, 0x3000), (0x3164, 0x3164)),  # cells and fillers without ink
    *((0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF9, 0xFFFB)),
    *((0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A)),
    *((0xE0001, 0xE0001), (0xE0020, 0xE007F), (0xE0100, 0xE01EF)),  # tags, variation selectors
)
"""First and last code points of what shows nothing: controls, formats, separators, fillers. `assent.is_blank` is the
same in SQL, and a test compares every code point."""

_NOTHING_TO_SEE: Final = re.compile(f"[{''.join(f'{chr(a)}-{chr(b)}' for a, b in BLANKS)}]*")


def is_blank(text: str) -> bool:
    """Return whether a text is empty, or has nothing but blanks and invisible characters in it."""
    return _NOTHING_TO_SEE.fullmatch(text) is not None


def require_name(text: str, *path: str, length_max: int | None = None) -> None:
    """Raise `Refused` for a text that names nothing: blank, too long, or not to be kept; `path` says what it is."""
    if is_blank(text):
        message = f"expected a text with something to see in it, found {text!r}"
        raise Refused(Rejection("BLANK", message, path))
    if length_max is not None and len(text) > length_max:
        message = f"expected at most {length_max} characters, found {len(text)}"
        raise Refused(Rejection("TOO_LONG", message, path))
    try:
        require_canonical(text)
    except NotCanonical as error:
        raise Refused(Rejection(error.code, str(error), path)) from error


ID_LENGTH_MAX: Final = 200
RESERVED: Final = frozenset({"system", "*"})
"""The engine itself, and what other systems write for everybody."""

_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
"""Controls, formats (zero width, direction), surrogates, private and unassigned characters, blanks."""
_INVISIBLE: Final = frozenset(
    map(
        chr,
        (
            0x034F,  # combining grapheme joiner
            *(0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0),  # fillers and inherent vowels
            *range(0x180B, 0x1810),  # Mongolian selectors
            0x2800,  # a Braille cell without dots
            *range(0xFE00, 0xFE10),  # variation selectors
            *range(0xE0100, 0xE01F0),
        ),
    )
)
"""Letters, marks and symbols that are not visible, although their categories do not say so."""


def problem_of_id(user_id: str) -> str | None:
    """Return why a text is no member's id, if it is none."""
    if user_id.casefold() in RESERVED:
        return f"`{user_id}` is reserved"
    if not 0 < len(user_id) <= ID_LENGTH_MAX:
        return f"expected 1 to {ID_LENGTH_MAX} characters, found {len(user_id)}"
    for place, character in enumerate(user_id):
        if unicodedata.category(character) in _INVISIBLE_CATEGORIES or character in _INVISIBLE:
            return f"expected visible characters without blanks, found U+{ord(character):04X} at {place}"
    normal = unicodedata.normalize("NFKC", user_id)
    if normal != user_id:
        return f"expected the normal form NFKC, `{normal}`"
    return None


def refuse_bad_id(user_id: str) -> None:
    """Raise `Refused` for a text that is no member's id."""
    if problem := problem_of_id(user_id):
        code = "RESERVED_NAME" if user_id.casefold() in RESERVED else "BAD_VALUE"
        raise Refused(Rejection(code, problem, ("user_id",)))
