"""The inbox of the caller: approvals, forms and questions that wait for them, their roles and their delegators."""

from typing import Annotated, Literal

from fastapi import Query

from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.instances import InboxCountsBody, InboxItemBody
from assent.http.context import Transaction
from assent.http.fields import Moment, NameQuery, SavedQuery
from assent.http.paging import CursorQuery, LimitQuery
from assent.http.replies import Reply, reply_with
from assent.http.routing import Router
from assent.people.inbox import Bucket, InboxKind, InboxQuery, Sort

router = Router(prefix="/api/inbox", tags=["inbox"])

SortQuery = Annotated[
    Sort, Query(description="The oldest first, the next due first, or the greatest figure first.")
]


@router.query("", scope="approvals:read", errors=(404,), summary="Read the inbox")
async def show_inbox(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    kind: InboxKind | None = None,
    bucket: Bucket | None = None,
    entity_type: NameQuery = None,
    workflow: NameQuery = None,
    overdue: bool | None = None,
    due_before: Moment | None = None,
    claimed: Literal["me", "unclaimed", "others"] | None = None,
    text: NameQuery = None,
    sort: SortQuery = "age",
    saved: SavedQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[InboxItemBody]]:
    """`text` is a part of the title. A cursor belongs to its filters and its sort."""
    filters = (kind, bucket, entity_type, workflow, overdue, due_before, claimed, text)
    page = await tx.reads.approvals.inbox(
        InboxQuery(*filters, tx.partition_id, sort, limit, cursor), saved=saved
    )
    items = [InboxItemBody.of(item) for item in page.items]
    return reply_with(Page[InboxItemBody](items=items, next=page.next))


async def count_caller_inbox(tx: Transaction) -> InboxCountsBody:
    """Return the counts of the caller's inbox."""
    return InboxCountsBody.of(await tx.reads.approvals.count_inbox())


@router.query("/counts", scope="approvals:read", summary="Count the items of the inbox")
async def count_inbox_of_caller(tx: Transaction) -> InboxCountsBody:
    """The caller's own, their roles', and those of users who delegated to them."""
    return await count_caller_inbox(tx)
