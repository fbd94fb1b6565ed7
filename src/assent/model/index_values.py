"""Values of indexed fields as texts that sort as the values do, and the words of searched ones.

The texts are compared by their code points (collation "C"), in every database alike. An entity has one text for each
indexed field, empty where it has no value, and one for each of its words under the field `*`.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal, DecimalException
from typing import Any, Final
from uuid import UUID

from assent.model.contract import FieldType

WORDS: Final = "*"
"""The field under which the words of an entity are kept; no field of a contract has this name."""
NO_VALUE: Final = ""
FIRST: Final = "\x01"
"""Before every text of a value."""
LAST: Final = "\U0010ffff"
"""After every text of a value."""
TEXT_CHARACTERS_MAX: Final = 64
"""By how many characters texts are sorted; longer ones that begin alike stay different, in no order."""
WORD_CHARACTERS_MAX: Final = 40
WORDS_MAX: Final = 300
"""Of one entity: the first ones of its searched fields."""
_EXPONENT_ZERO: Final = 5_000
_WORD: Final = re.compile(r"\w+")
_NINES: Final = str.maketrans("0123456789", "9876543210")


@dataclass(frozen=True, slots=True)
class IndexDeclaration:
    """The indexes of an entity type, as the newest published contract declares them."""

    stamp: int = 0
    """Grows with every change of them; 0 where nothing was ever declared."""
    fields: Mapping[str, FieldType] = field(default_factory=dict)
    searched: tuple[str, ...] = ()

    def values_of(self, data: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the texts of an entity's content by indexed field."""
        found = {name: [text_of(kind, data.get(name))] for name, kind in self.fields.items()}
        if self.searched:
            found[WORDS] = words_of(data.get(name) for name in self.searched)
        return found

    def changed_values(
        self, before: Mapping[str, Any] | None, after: Mapping[str, Any]
    ) -> dict[str, list[str]] | None:
        """Return the texts of the fields that a change writes; None if it writes none. New entities write all."""
        new = self.values_of(after)
        if before is not None:
            old = self.values_of(before)
            new = {name: texts for name, texts in new.items() if texts != old[name]}
        return new or None


def text_of(kind: FieldType, value: Any) -> str:
    """Return the text of a value; the empty text for no value, and for one of another type."""
    try:
        return _text_of(kind, value) if value is not None else NO_VALUE
    except (ValueError, TypeError, DecimalException, OverflowError):
        # A document of an older contract, where the field was of another type.
        return NO_VALUE


def _text_of(kind: FieldType, value: Any) -> str:
    match kind:
        case FieldType.INTEGER | FieldType.MONEY | FieldType.DECIMAL:
            if isinstance(value, bool):
                raise TypeError(value)
            return _number_text(Decimal(str(value)))
        case FieldType.DATE:
            return date.fromisoformat(value).isoformat()
        case FieldType.DATETIME:
            return datetime.fromisoformat(value).astimezone(UTC).isoformat(timespec="microseconds")
        case FieldType.BOOLEAN:
            if not isinstance(value, bool):
                raise TypeError(value)
            return "true" if value else "false"
        case FieldType.REFERENCE:
            return str(UUID(value))
        case _:
            if not isinstance(value, str):
                raise TypeError(value)
            return _sorted_text(value)


def _number_text(number: Decimal) -> str:
    """Return sign, exponent and digits: 0 for negative, 1 for zero, 2 for positive numbers."""
    if not number.is_finite():
        raise ValueError(number)
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    if not digits:
        return "1"
    exponent = number.adjusted()
    if number > 0:
        return f"2{_EXPONENT_ZERO + exponent:04d}{digits}"
    # Nines' complement turns the order around; the tilde sorts the shorter of two that begin alike behind.
    return f"0{_EXPONENT_ZERO - exponent:04d}{digits.translate(_NINES)}~"


def _sorted_text(value: str) -> str:
    """Return a text so that it sorts by letters of either case, and is equal only to itself."""
    folded = fold(value)[:TEXT_CHARACTERS_MAX]
    itself = value
    if len(value) > TEXT_CHARACTERS_MAX:
        itself = hashlib.sha256(value.encode()).hexdigest()[:TEXT_CHARACTERS_MAX]
    return f"{folded}{FIRST}{itself}"


def fold(text: str) -> str:
    """Return a text in one case and one Unicode form, without what separates it from the text itself."""
    return unicodedata.normalize("NFC", text).casefold().replace(FIRST, "\x02")


def words_of(texts: Iterable[Any]) -> list[str]:
    """Return the distinct words of some texts in one case, in order."""
    found = dict.fromkeys(
        word[:WORD_CHARACTERS_MAX]
        for text in texts
        if isinstance(text, str)
        for word in _WORD.findall(fold(text))
    )
    return sorted(list(found)[:WORDS_MAX])
