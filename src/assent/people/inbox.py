"""The inbox of a person: their own seats, those of their roles, and those of the people that they stand in for.

Read page by page from the open seats, so decided requests cost nothing, however many there are. A cursor says where a
page ended and not how far that was: what comes or goes meanwhile moves nothing.
"""

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import asyncpg
from pydantic import AwareDatetime, Field

from assent.model.cursor import cursor_of, figure_in, id_in, position_of, time_in
from assent.model.money import figure_text
from assent.model.mutation import Refused, Rejection
from assent.model.parse import Declaration, parse_declaration
from assent.model.problems import Invalid
from assent.model.values import plain_decimal
from assent.people.delegations import find_owners
from assent.people.directory import Directory, MembersDirectory
from assent.store.connection import Connection
from assent.store.queries import load_queries

Sort = Literal["age", "due", "figure"]
"""The oldest first, what is due next first, the greatest figure first."""

InboxPosition = tuple[datetime | Decimal, UUID]
"""By what the list is sorted, and the seat's id where that is equal."""

_FIRST_TIME: Final = datetime.min.replace(tzinfo=UTC)
_FIRST_RANK: Final = Decimal("-Infinity")
_FIRST_ID: Final = UUID(int=0)


def cursor_at(sort: Sort, row: asyncpg.Record) -> str:
    """Return the cursor of a page that ends with this row."""
    place = row["created_at"].isoformat() if sort == "age" else str(row["rank"])
    return cursor_of([sort, place, str(row["id"])])


def place_of(cursor: str | None, sort: Sort) -> InboxPosition:
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
        hint = "begin without a cursor"
        raise Refused(Rejection("BAD_CURSOR", message, ("cursor",), hint=hint)) from None


_SQL: Final = load_queries("assent.people", "people.sql")

Bucket = Literal["mine", "roles", "delegated"]
InboxKind = Literal["approval", "form", "question"]

PAGE_ITEMS_MAX: Final = 200
TEXT_LENGTH_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class InboxQuery:
    """The filter of an inbox; a field that is None does not filter."""

    kind: InboxKind | None = None
    bucket: Bucket | None = None
    entity_type: str | None = None
    workflow: str | None = None
    overdue: bool | None = None
    due_before: datetime | None = None
    claimed: Literal["me", "unclaimed", "others"] | None = None
    text: str | None = None
    """A part of the title, in whatever case."""
    partition_id: str | None = None
    """The one part of the org that the reader sees."""
    sort: Sort = "age"
    limit: int = 50
    cursor: str | None = None
    """The `next` of the page before, with the same filters and sort."""


class InboxFilter(Declaration):
    """What a saved filter of the inbox says: the filter and the sort of an `InboxQuery`."""

    kind: InboxKind | None = None
    bucket: Bucket | None = None
    entity_type: str | None = None
    workflow: str | None = None
    overdue: bool | None = None
    due_before: AwareDatetime | None = None
    claimed: Literal["me", "unclaimed", "others"] | None = None
    text: Annotated[str, Field(max_length=TEXT_LENGTH_MAX)] | None = None
    sort: Sort = "age"

    def to_json(self) -> dict[str, Any]:
        """Return what is said."""
        return self.model_dump(mode="json", exclude_defaults=True)


def inbox_filter_from(data: object) -> InboxFilter:
    """Return the filter of an inbox that `data` says; raise `Invalid` with every problem."""
    found, problems = parse_declaration(InboxFilter, data)
    if found is None:
        raise Invalid(problems)
    return found


@dataclass(frozen=True, slots=True)
class InboxItem:
    """One seat that waits for an answer, or a question to the reader."""

    seat_id: UUID
    kind: str
    bucket: Bucket
    request_id: UUID
    instance_id: UUID
    workflow: str
    node_id: str
    node_name: str
    group: str
    via: str
    entity_type: str | None
    entity_id: UUID | None
    version: int
    """The version that the question is about."""
    state: str | None
    """Where the entity stands now."""
    title: str | None
    figure: Decimal | None
    currency: str | None
    requested_by: str
    asked_at: datetime
    age: timedelta
    due_at: datetime | None
    overdue: bool
    claimed_by: str | None
    on_behalf_of: str | None
    """Whose seat it is, when it is not the reader's own."""
    questions: int
    """How many questions the approvers have asked about it."""
    question: str | None
    """What is asked, by `requested_by`, where the item is a question."""

    @property
    def figure_text(self) -> str | None:
        """The figure as people read it: `20,600.00 EUR`."""
        return figure_text(self.figure, self.currency)


@dataclass(frozen=True, slots=True)
class InboxPage:
    items: tuple[InboxItem, ...]
    next: str | None = None
    """The cursor of the page after this one, if there is more."""


@dataclass(frozen=True, slots=True)
class Count:
    open: int = 0
    overdue: int = 0


@dataclass(frozen=True, slots=True)
class InboxCounts:
    """How much there is in each bucket, whatever is filtered."""

    mine: Count = field(default_factory=Count)
    roles: Count = field(default_factory=Count)
    delegated: Count = field(default_factory=Count)


async def read_inbox(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    user_id: str,
    wanted: InboxQuery,
    now: datetime,
    *,
    directory: Directory | None = None,
) -> InboxPage:
    """Return one page of a person's inbox; `directory` is that of the application, `members` by default."""
    if rejection := _check(wanted):
        raise Refused(rejection)
    after = place_of(wanted.cursor, wanted.sort)
    people = await _owners(connection, directory, org_id, user_id, now)
    arguments = [org_id, user_id, now, people, *_filters(wanted)]
    paging = [*after, wanted.limit + 1]
    if wanted.sort == "age":
        rows = await connection.fetch(_SQL.page_by_age, *arguments, *paging, wanted.partition_id)
    else:
        rows = await connection.fetch(
            _SQL.page_by_rank, *arguments, *paging, wanted.partition_id, wanted.sort
        )
    shown = rows[: wanted.limit]
    more = cursor_at(wanted.sort, shown[-1]) if len(rows) > len(shown) else None
    return InboxPage(tuple(_item(row, user_id, now) for row in shown), more)


async def count_inbox(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    user_id: str,
    now: datetime,
    *,
    partition_id: str | None = None,
    directory: Directory | None = None,
) -> InboxCounts:
    """Return the number of items in a person's inbox, by bucket."""
    people = await _owners(connection, directory, org_id, user_id, now)
    rows = await connection.fetch(_SQL.count_by_bucket, org_id, user_id, now, people, partition_id)
    return InboxCounts(**{row["bucket"]: Count(row["open"], row["overdue"]) for row in rows})


async def _owners(
    connection: Connection, directory: Directory | None, org_id: str, user_id: str, now: datetime
) -> list[dict[str, Any]]:
    found = await find_owners(connection, directory or MembersDirectory(), org_id, user_id, now)
    return [asdict(owner) for owner in found]


def _check(wanted: InboxQuery) -> Rejection | None:
    if not 1 <= wanted.limit <= PAGE_ITEMS_MAX:
        message = f"1 to {PAGE_ITEMS_MAX} items were expected, found {wanted.limit}"
        return Rejection("BAD_VALUE", message, ("limit",))
    if wanted.text is not None and len(wanted.text) > TEXT_LENGTH_MAX:
        return Rejection("TOO_LONG", f"at most {TEXT_LENGTH_MAX} characters were expected", ("text",))
    return None


def _filters(wanted: InboxQuery) -> list[Any]:
    return [
        wanted.kind,
        wanted.bucket,
        wanted.entity_type,
        wanted.workflow,
        wanted.overdue,
        wanted.due_before,
        wanted.claimed,
        wanted.text,
    ]


def _item(row: asyncpg.Record, user_id: str, now: datetime) -> InboxItem:
    return InboxItem(
        seat_id=row["id"],
        kind=row["kind"],
        bucket=row["bucket"],
        request_id=row["request_id"],
        instance_id=row["instance_id"],
        workflow=row["workflow"],
        node_id=row["node_id"],
        node_name=row["node_name"],
        group=row["group_name"],
        via=row["via"],
        entity_type=row["entity_type"],
        entity_id=row["entity_id"],
        version=row["entity_version"],
        state=row["state"],
        title=row["title"],
        figure=plain_decimal(row["figure"]),
        currency=row["currency"],
        requested_by=row["requested_by"],
        asked_at=row["created_at"],
        age=now - row["created_at"],
        due_at=row["due_at"],
        overdue=row["due_at"] is not None and row["due_at"] < now,
        claimed_by=row["claimed_by"],
        on_behalf_of=row["user_id"] if row["user_id"] != user_id else None,
        questions=row["questions"],
        question=row["question"],
    )
