"""The inbox of the caller: approvals and forms that wait for them, their roles and their delegators. `/api/inbox`"""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Query
from pydantic import Field

from assent.http.context import Transaction
from assent.http.fields import Moment, NameQuery, ResponseModel
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page
from assent.http.replies import Reply, reply_with
from assent.http.routing import Router
from assent.model.mutation import Refused, Rejection
from assent.people.inbox import Bucket, InboxQuery, Sort, count_inbox, read_inbox

router = Router(prefix="/api/inbox", tags=["inbox"])

SortQuery = Annotated[
    Sort, Query(description="The oldest first, the next due first, or the greatest figure first.")
]


class InboxItemBody(ResponseModel):
    """An approval or a form that waits for the caller."""

    kind: Literal["approval", "form"]
    request_id: UUID = Field(description="The approval request, or the step of the form.")
    bucket: Bucket = Field(description="The caller's own, one of their roles', or a delegator's.")
    on_behalf_of: str | None = Field(description="The user of the seat, if it is not the caller's own.")
    seat_id: UUID
    group: str
    via: str = Field(examples=["role:approver"])
    workflow: str = Field(examples=["orders.approval"])
    instance_id: UUID
    node_id: str
    node_name: str = Field(examples=["review"])
    entity_type: str | None
    entity_id: UUID | None
    version: int = Field(description="The version that is to be approved.")
    state: str | None = Field(description="The current state of the entity.")
    title: str | None
    figure: Decimal | None
    requested_by: str
    asked_at: datetime
    due_at: datetime | None
    overdue: bool
    claimed_by: str | None


class CountBody(ResponseModel):
    open: int
    overdue: int


class InboxCountsBody(ResponseModel):
    """The number of items in each part of the inbox."""

    mine: CountBody
    roles: CountBody
    delegated: CountBody


@router.query("", scope="approvals:read", summary="Read the inbox")
async def show_inbox(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    kind: Literal["approval", "form"] | None = None,
    bucket: Bucket | None = None,
    entity_type: NameQuery = None,
    workflow: NameQuery = None,
    overdue: bool | None = None,
    due_before: Moment | None = None,
    claimed: Literal["me", "nobody", "others"] | None = None,
    text: NameQuery = None,
    sort: SortQuery = "age",
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[InboxItemBody]]:
    """`text` is a part of the title. A cursor belongs to its filters and its sort."""
    filters = (kind, bucket, entity_type, workflow, overdue, due_before, claimed, text)
    query = InboxQuery(*filters, tx.partition_id, sort, limit, cursor)
    directory = tx.core.directory
    page = await read_inbox(tx.connection, tx.org_id, tx.actor.id, query, tx.now(), directory=directory)
    if isinstance(page, Rejection):
        raise Refused(page)
    items = [InboxItemBody.of(item) for item in page.items]
    return reply_with(Page[InboxItemBody](items=items, next=page.next))


async def count_caller_inbox(tx: Transaction) -> InboxCountsBody:
    """Return the counts of the caller's inbox."""
    counts = await count_inbox(
        tx.connection,
        tx.org_id,
        tx.actor.id,
        tx.now(),
        partition_id=tx.partition_id,
        directory=tx.core.directory,
    )
    return InboxCountsBody.of(counts)


@router.query("/counts", scope="approvals:read", summary="Count the items of the inbox")
async def count_inbox_of_caller(tx: Transaction) -> InboxCountsBody:
    """The caller's own, their roles', and those of users who delegated to them."""
    return await count_caller_inbox(tx)
