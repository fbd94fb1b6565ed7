"""Filters that people save under a name: their own, and those that all of the org use.

A filter is of an entity type, or of the inbox. Under one name a person's own goes before the one of the org.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self
from uuid import UUID

from assent.model.cursor import text_in
from assent.model.ids import new_id
from assent.model.mutation import Refused, Rejection
from assent.model.names import require_name
from assent.store.connection import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row, from_row

_SQL: Final = load_queries("assent.kernel", "kernel.sql")

SHARE_FILTERS: Final = "filters:share"
"""The capability to save and delete the filters that all of the org use."""
INBOX: Final = "inbox"
"""What a filter of the inbox is of."""
SHARED: Final = ""
"""The owner of a filter that all of the org use."""
FILTERS_MAX: Final = 200
"""Of one person, and of the org."""

FilterPosition = tuple[str, str, str]
"""What a filter is of, its name and its owner."""


def filter_position_in(place: Any) -> FilterPosition:
    """Return the position that a cursor of a list of filters holds."""
    filter_of, name, owner_id = place
    return text_in(filter_of), text_in(name), text_in(owner_id)


@dataclass(frozen=True, slots=True)
class SavedFilter:
    """A filter under its name."""

    id: UUID
    filter_of: str
    name: str
    shared: bool
    filter: dict[str, Any]
    saved_by: str
    updated_at: datetime

    @classmethod
    def of(cls, row: Row) -> Self:
        return from_row(cls, row, shared=row["owner_id"] == SHARED)

    def position(self, user_id: str) -> list[str]:
        """Return the place of the filter in the list of a person."""
        return [self.filter_of, self.name, SHARED if self.shared else user_id]


@dataclass(frozen=True, slots=True)
class FilterKey:
    """Whose filter it is, of what and under which name."""

    org_id: str
    filter_of: str
    name: str
    user_id: str
    shared: bool = False

    @property
    def owner_id(self) -> str:
        return SHARED if self.shared else self.user_id


async def save_filter(
    connection: Connection, key: FilterKey, filter: dict[str, Any], now: datetime
) -> SavedFilter:
    """Save a filter that was checked, in place of the one of its name; raise `Refused` where there are too many."""
    require_name(key.name, "name")
    row = await connection.fetchrow(
        _SQL.save_filter,
        *(key.org_id, new_id(now), key.filter_of, key.owner_id, key.name, filter, key.user_id, now),
    )
    assert row is not None
    if await connection.fetchval(_SQL.count_filters, key.org_id, key.owner_id) > FILTERS_MAX:
        message = f"at most {FILTERS_MAX} filters are saved by one person, and by the org"
        raise Refused(Rejection("TOO_MANY_FILTERS", message, ("name",), hint="delete one"))
    return SavedFilter.of(row)


async def find_filter(connection: Connection, key: FilterKey) -> SavedFilter:
    """Return the filter of a name, a person's own before the org's; raise `Refused` if there is none."""
    row = await connection.fetchrow(_SQL.find_filter, key.org_id, key.filter_of, key.name, key.user_id)
    if row is None:
        raise _missing(key)
    return SavedFilter.of(row)


async def list_filters(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    user_id: str,
    filter_of: str | None,
    *,
    hidden_types: Sequence[str] = (),
    after: FilterPosition | None = None,
    limit: int,
) -> list[SavedFilter]:
    """Return the filters of a person and of the org, without those of types that are hidden from the person."""
    place = after or ("", "", "")
    rows = await connection.fetch(
        _SQL.list_filters, org_id, user_id, list(hidden_types), filter_of, *place, limit
    )
    return [SavedFilter.of(row) for row in rows]


async def delete_filter(connection: Connection, key: FilterKey) -> SavedFilter:
    """Delete a person's own filter of a name, or the org's; raise `Refused` if there is none."""
    row = await connection.fetchrow(_SQL.delete_filter, key.org_id, key.filter_of, key.owner_id, key.name)
    if row is None:
        raise _missing(key)
    return SavedFilter.of(row)


def _missing(key: FilterKey) -> Refused:
    return Refused(Rejection("NOT_FOUND", f"no filter `{key.name}` of {key.filter_of}", ("name",)))
