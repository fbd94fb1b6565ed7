"""What all bodies share: how they are made from values and rows, and pages of lists.

A cursor names the last item of a page by a key that never changes: a list that changes meanwhile shows no item twice.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, Self, TypeVar

import asyncpg
import orjson
from pydantic import BaseModel, ConfigDict, Field

from assent.model.cursor import cursor_of

T = TypeVar("T")
V = TypeVar("V")

Data = dict[str, Any]

ITEMS_DEFAULT: Final = 50
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
    """Return a page as JSON, of rows that were read with a limit of one more.

    The extra row says that there is a next page. Where a page ends by its bytes, only the next page says whether there
    are more rows.
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
    return f'{{"items":[{",".join(texts)}],"next":{orjson.dumps(after).decode()}}}'
