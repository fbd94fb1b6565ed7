"""Pages of lists: so many items, and an opaque cursor to what comes after them.

A cursor names the last item by what never changes, so that a list that moves meanwhile shows nothing twice.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import orjson
from fastapi import Query
from pydantic import BaseModel, Field

from assent.model.mutation import Refused, Rejection

T = TypeVar("T")
V = TypeVar("V")

ITEMS_DEFAULT: Final = 50
ITEMS_MAX: Final = 200

LimitQuery = Annotated[int, Query(ge=1, le=ITEMS_MAX, description="How many items at most.")]
CursorQuery = Annotated[
    str | None,
    Query(max_length=500, description="What `next` of the page before said; the first page without it."),
]


class Page(BaseModel, Generic[T]):
    """Some items of a list."""

    items: list[T]
    next: str | None = Field(None, description="The cursor of the next page; null when this is the last.")


def page_of(
    rows: Sequence[V], limit: int, shown: Callable[[V], T], position: Callable[[V], Any]
) -> dict[str, Any]:
    """A page of rows of which one more was read than is shown: whether it is there says whether there is more."""
    items, is_last = rows[:limit], len(rows) <= limit
    after = None if is_last else cursor(position(items[-1]))
    return {"items": [shown(row) for row in items], "next": after}


def cursor(position: Any) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(position, default=str)).decode().rstrip("=")


def position_of(text: str | None, read: Callable[[Any], V]) -> V | None:
    """Where a cursor stands; refuses one that we never gave."""
    if text is None:
        return None
    try:
        padded = text + "=" * (-len(text) % 4)
        return read(orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True)))
    except (binascii.Error, ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        message = "expected a cursor from `next` of a page of this list"
        raise Refused(Rejection("BAD_CURSOR", message, ("cursor",))) from None


def text_in(place: Any) -> str:
    """For lists that go by a name."""
    if not isinstance(place, str) or "\x00" in place:
        raise TypeError(place)
    return place
