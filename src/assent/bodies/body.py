"""What all bodies share: how they are made from values and rows, and pages of lists.

A cursor names the last item of a page by a key that never changes: a list that changes meanwhile shows no item twice.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, Self, TypeVar

import asyncpg
import orjson
from pydantic import BaseModel, ConfigDict, Field

from assent.model.cursor import ITEMS_DEFAULT, ItemPage

T = TypeVar("T")
V = TypeVar("V")

__all__ = ["ITEMS_DEFAULT", "PAGE_BYTES_MAX", "Data", "Page", "ResponseModel", "page_text", "text_of_page"]

Data = dict[str, Any]

PAGE_BYTES_MAX: Final = 2_097_152
"""A page ends with the item that reaches it: writing more would block the event loop for too long."""


class ResponseModel(BaseModel):
    """A body that is returned, made from the attributes of a value or the columns of a row."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def of(cls, source: object) -> Self:
        """Return the body of a value or a row; attributes and columns without a field are left out."""
        is_row = isinstance(source, Mapping | asyncpg.Record)
        return cls.model_validate(dict(source) if is_row else source)  # type: ignore[call-overload]


class Page(BaseModel, Generic[T]):
    """Some items of a list."""

    items: list[T]
    next: str | None = Field(None, description="The cursor of the next page; null when this is the last.")


def page_text(
    rows: Sequence[V], limit: int, body_of: Callable[[V], BaseModel], position: Callable[[V], Any]
) -> str:
    """Return a page as JSON, of rows that were read with a limit of one more."""
    return text_of_page(ItemPage.of(rows, limit, position), body_of)


def text_of_page(page: ItemPage[V], body_of: Callable[[V], BaseModel]) -> str:
    """Return a page as JSON. Where it ends by its bytes, only the next page says whether there are more items."""
    texts: list[str] = []
    size, after = 0, page.next
    for item in page.items:
        texts.append(body_of(item).model_dump_json(by_alias=True))
        size += len(texts[-1].encode())
        if size >= PAGE_BYTES_MAX:
            after = page.cursor_after(item)
            break
    return f'{{"items":[{",".join(texts)}],"next":{orjson.dumps(after).decode()}}}'
