"""The ids of members: one spelling for each, so that no two people are confused. Pure.

An id is compared byte by byte everywhere: in tokens, seats, audit entries. Two ids that a person reads as the same
are therefore two people, unless only one spelling is taken. Look-alikes of ids that an org has are found by the
database, `assent.skeleton_of_id`.
"""

import unicodedata
from typing import Final

from assent.model.mutation import Refused, Rejection

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
    """Why a text is no member's id, if it is none."""
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
