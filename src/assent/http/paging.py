"""Pages of lists: a limit of items and of bytes, and an opaque cursor to the next page.

A cursor names the last item by a key that never changes, so a list that changes meanwhile shows no item twice.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import orjson
from fastapi import Query
from pydantic import BaseModel, Field

from assent.http.replies import Reply
from assent.model.cursor import CURSOR_LENGTH_MAX, cursor_of

T = TypeVar("T")
B = TypeVar("B", bound=BaseModel)
V = TypeVar("V")

ITEMS_DEFAULT: Final = 50
ITEMS_MAX: Final = 200
PAGE_BYTES_MAX: Final = 2_097_152
"""A page ends with the item that reaches it: writing more would block the event loop for too long."""

LimitQuery = Annotated[
    int,
    Query(
        ge=1,
        le=ITEMS_MAX,
        description="The maximum number of items; a page of large items ends earlier, with `next`.",
    ),
]
CursorQuery = Annotated[
    str | None,
    Query(
        max_length=CURSOR_LENGTH_MAX,
        description="The value of `next` of the previous page; none for the first page.",
    ),
]


class Page(BaseModel, Generic[T]):
    """Some items of a list."""

    items: list[T]
    next: str | None = Field(None, description="The cursor of the next page; null when this is the last.")


def page_of(
    rows: Sequence[V], limit: int, body_of: Callable[[V], B], position: Callable[[V], Any]
) -> Reply[Page[B]]:
    """Return a page of rows that were read with a limit of one more: the extra row says that there is a next page.

    Where a page ends by its bytes, only the next page says whether there are more rows.
    """
    texts: list[str] = []
    size = 0
    for row in rows[:limit]:
        texts.append(body_of(row).model_dump_json(by_alias=True))
        size += len(texts[-1].encode())
        if size >= PAGE_BYTES_MAX:
            break
    is_last = size < PAGE_BYTES_MAX and len(rows) <= limit
    after = None if is_last else cursor_of(position(rows[len(texts) - 1]))
    return Reply(200, f'{{"items":[{",".join(texts)}],"next":{orjson.dumps(after).decode()}}}')
