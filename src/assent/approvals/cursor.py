"""Where a page ended, as a text that a reader brings back for the next. Nobody else need understand it."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, Literal
from uuid import UUID

import asyncpg
import orjson

from assent.model.mutation import Rejection

Sort = Literal["age", "due", "figure"]
"""The oldest first, what is due next first, the greatest figure first."""

Place = tuple[datetime | Decimal, UUID]
"""By what the list is sorted, and the seat's id where that is equal."""

_FIRST_TIME: Final = datetime.min.replace(tzinfo=UTC)
_FIRST_RANK: Final = Decimal("-Infinity")
_FIRST_ID: Final = UUID(int=0)


def cursor_at(sort: Sort, row: asyncpg.Record) -> str:
    """The cursor of a page that ends with this row."""
    place = row["created_at"].isoformat() if sort == "age" else str(row["rank"])
    return urlsafe_b64encode(orjson.dumps([sort, place, str(row["id"])])).decode()


def place_of(cursor: str | None, sort: Sort) -> Place | Rejection:
    """Behind which place the page begins."""
    if cursor is None:
        return (_FIRST_TIME if sort == "age" else _FIRST_RANK), _FIRST_ID
    try:
        said, place, seat_id = orjson.loads(urlsafe_b64decode(cursor))
        if said != sort:
            raise ValueError(said)
        return (_time(place) if sort == "age" else Decimal(place)), UUID(seat_id)
    except (ValueError, TypeError, ArithmeticError, AttributeError):
        message = f"the cursor is not one of an inbox that is sorted by {sort}"
        return Rejection("BAD_CURSOR", message, ("cursor",), hint="begin without a cursor")


def _time(text: str) -> datetime:
    # In UTC, so that a time without a zone is none.
    return datetime.fromisoformat(text).astimezone(UTC)
