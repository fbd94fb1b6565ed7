"""Where a page ended, as a text that a reader brings back for the next. Nobody else need understand it."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal
from uuid import UUID

import asyncpg

from assent.model.cursor import cursor_of, figure_in, id_in, position_of, time_in
from assent.model.mutation import Refused, Rejection

Sort = Literal["age", "due", "figure"]
"""The oldest first, what is due next first, the greatest figure first."""

InboxPosition = tuple[datetime | Decimal, UUID]
"""By what the list is sorted, and the seat's id where that is equal."""

_FIRST_TIME: Final = datetime.min.replace(tzinfo=UTC)
_FIRST_RANK: Final = Decimal("-Infinity")
_FIRST_ID: Final = UUID(int=0)


def cursor_at(sort: Sort, row: asyncpg.Record) -> str:
    """The cursor of a page that ends with this row."""
    place = row["created_at"].isoformat() if sort == "age" else str(row["rank"])
    return cursor_of([sort, place, str(row["id"])])


def place_of(cursor: str | None, sort: Sort) -> InboxPosition | Rejection:
    """Behind which place the page begins."""

    def read(place: Any) -> InboxPosition:
        said, at, seat_id = place
        if said != sort:
            raise ValueError(said)
        return (time_in(at) if sort == "age" else figure_in(at)), id_in(seat_id)

    try:
        first = (_FIRST_TIME if sort == "age" else _FIRST_RANK), _FIRST_ID
        return position_of(cursor, read) or first
    except Refused:
        message = f"the cursor is not one of an inbox that is sorted by {sort}"
        return Rejection("BAD_CURSOR", message, ("cursor",), hint="begin without a cursor")
