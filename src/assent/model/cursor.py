"""Cursors: where a page ended, as a text that its reader brings back for the next.

The one codec for all lists. A cursor is a caller's word: what comes out of here can be compared in the database,
whatever was in it, and everything else is refused.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Generic, Self, TypeVar
from uuid import UUID

import orjson

from assent.model.mutation import Refused, Rejection

V = TypeVar("V")

ITEMS_DEFAULT: Final = 50
ITEMS_MAX: Final = 200
"""Of one page."""
CURSOR_LENGTH_MAX: Final = 1_000
INTEGER_MAX: Final = 2**31 - 1
EXPONENT_MAX: Final = 200
_FIRST: Final = datetime(1900, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(2999, 12, 31, tzinfo=UTC)


def cursor_of(position: Any) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(position, default=str)).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class ItemPage(Generic[V]):
    """Some items of a list, and the cursor with which the next page is read."""

    items: Sequence[V]
    next: str | None
    """None when this is the last page."""
    _position: Callable[[V], Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, rows: Sequence[V], limit: int, position: Callable[[V], Any], *, is_cut: bool = False) -> Self:
        """Return the page of rows that were read with a limit of one more: the extra row says that there is more.

        Rows that are cut end by their bytes; then only the next page says whether there are more.
        """
        items = rows[:limit]
        has_more = len(rows) > limit or is_cut
        return cls(items, cursor_of(position(items[-1])) if has_more else None, position)

    def cursor_after(self, item: V) -> str:
        """Return the cursor of a page that begins after an item of this one."""
        return cursor_of(self._position(item))


def require_limit(limit: int) -> int:
    """Return the limit of a page; raise `Refused` if it is out of range."""
    if not 1 <= limit <= ITEMS_MAX:
        message = f"1 to {ITEMS_MAX} items were expected, found {limit}"
        raise Refused(Rejection("BAD_VALUE", message, ("limit",)))
    return limit


def position_of(text: str | None, read: Callable[[Any], V]) -> V | None:
    """Return where a cursor stands, by one of the readers below; refuse one that we never gave."""
    if text is None:
        return None
    try:
        if len(text) > CURSOR_LENGTH_MAX:
            raise ValueError(text)
        bare = text.rstrip("=")
        padded = bare + "=" * (-len(bare) % 4)
        return read(orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True)))
    except (binascii.Error, ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        message = "expected a cursor from `next` of a page of this list"
        hint = "begin without a cursor"
        raise Refused(Rejection("BAD_CURSOR", message, ("cursor",), hint=hint)) from None


def id_in(place: Any) -> UUID:
    return UUID(place)


def integer_in(place: Any) -> int:
    """Return a number that PostgreSQL's `integer` holds."""
    if type(place) is not int or not 0 <= place <= INTEGER_MAX:
        raise ValueError(place)
    return place


def line_in(place: Any) -> tuple[int, int]:
    """For lines of a log: the attempt, and the position in it."""
    attempt, position = place
    return integer_in(attempt), integer_in(position)


def text_in(place: Any) -> str:
    if not isinstance(place, str) or "\x00" in place:
        raise TypeError(place)
    return place


def texts_in(place: Any) -> tuple[str, str]:
    """For lists in the order of two names."""
    first, second = place
    return text_in(first), text_in(second)


def time_in(place: Any) -> datetime:
    """Return a time with its zone, in years that every calendar and PostgreSQL can count."""
    found = datetime.fromisoformat(place)
    if found.tzinfo is None or not _FIRST <= found <= _LAST:
        raise ValueError(place)
    return found.astimezone(UTC)


def figure_in(place: Any) -> Decimal:
    """Return a number that PostgreSQL's `numeric` holds, or one of its infinities."""
    found = Decimal(text_in(place))
    if found.is_nan() or (found.is_finite() and found and abs(found.adjusted()) > EXPONENT_MAX):
        raise ValueError(place)
    return found


def time_and_id_in(place: Any) -> tuple[datetime, UUID]:
    """For lists in the order of time, and of ids where that is equal."""
    at, place_id = place
    return time_in(at), id_in(place_id)
