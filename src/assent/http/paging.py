"""Parameters of lists, and replies with a page: a limit of items, and an opaque cursor to the next page."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query
from pydantic import BaseModel

from assent.bodies.body import Page, page_text, text_of_page
from assent.http.replies import Reply
from assent.model.cursor import CURSOR_LENGTH_MAX, ITEMS_MAX, ItemPage

B = TypeVar("B", bound=BaseModel)
V = TypeVar("V")

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


def page_of(
    rows: Sequence[V], limit: int, body_of: Callable[[V], B], position: Callable[[V], Any]
) -> Reply[Page[B]]:
    """Return the reply with a page of rows that were read with a limit of one more."""
    return Reply(200, page_text(rows, limit, body_of, position))


def reply_with_page(page: ItemPage[V], body_of: Callable[[V], B]) -> Reply[Page[B]]:
    """Return the reply with a page that the runtime has read."""
    return Reply(200, text_of_page(page, body_of))
