"""Pages of lists: so many items, or so many bytes, and an opaque cursor to what comes after them.

A cursor names the last item by what never changes, so that a list that moves meanwhile shows nothing twice.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import orjson
from fastapi import Query, Response
from pydantic import BaseModel, Field

from assent.http.reply import JSON
from assent.model.cursor import CURSOR_LENGTH_MAX, cursor_of

T = TypeVar("T")
V = TypeVar("V")

ITEMS_DEFAULT: Final = 50
ITEMS_MAX: Final = 200
PAGE_BYTES_MAX: Final = 2_097_152
"""A page ends with the item that reaches it: writing more would hold up everybody else for too long."""

LimitQuery = Annotated[
    int,
    Query(
        ge=1,
        le=ITEMS_MAX,
        description="How many items at most; a page of large items ends earlier, with `next`.",
    ),
]
CursorQuery = Annotated[
    str | None,
    Query(
        max_length=CURSOR_LENGTH_MAX,
        description="What `next` of the page before said; the first page without it.",
    ),
]


class Page(BaseModel, Generic[T]):
    """Some items of a list."""

    items: list[T]
    next: str | None = Field(None, description="The cursor of the next page; null when this is the last.")


def page_of(
    rows: Sequence[V], limit: int, shown: Callable[[V], BaseModel], position: Callable[[V], Any]
) -> Response:
    """A page of rows of which one more was read than is shown: whether it is there says whether there is more.

    Where a page ended by its bytes, the rows may have ended by theirs: then only the next page says that there is none.
    """
    texts: list[bytes] = []
    size = 0
    for row in rows[:limit]:
        texts.append(shown(row).model_dump_json(by_alias=True).encode())
        size += len(texts[-1])
        if size >= PAGE_BYTES_MAX:
            break
    is_last = size < PAGE_BYTES_MAX and len(rows) <= limit
    after = None if is_last else cursor_of(position(rows[len(texts) - 1]))
    return Response(b'{"items":[%b],"next":%b}' % (b",".join(texts), orjson.dumps(after)), media_type=JSON)
