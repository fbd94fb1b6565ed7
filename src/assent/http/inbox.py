"""The inbox of whoever asks: what waits for them, for their roles, and for those they stand in for. `/api/inbox`"""

from typing import Annotated, Any, Literal

from fastapi import Depends, Query

from assent.http.desk import RequestContext
from assent.http.inbox_shapes import InboxCountsBody, InboxItemBody
from assent.http.moments import Moment
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page
from assent.http.problems import documented
from assent.http.routing import Router
from assent.http.signing import Reading
from assent.http.texts import NameQuery
from assent.model.mutation import Refused, Rejection
from assent.people.inbox import Bucket, InboxPage, InboxQuery, Sort, count_inbox, read_inbox
from assent.store.database import Connection

router = Router(prefix="/api/inbox", tags=["inbox"])

Look = Annotated[RequestContext, Depends(Reading("approvals:read"))]
SortQuery = Annotated[
    Sort, Query(description="The oldest first, what is due next first, or the greatest figure first.")
]


@router.get("", response_model=Page[InboxItemBody], summary="See one's inbox", responses=documented(422))
async def show_inbox(  # noqa: PLR0913, PLR0917
    desk: Look,
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
) -> Any:
    """`text` is a part of the title. A cursor belongs to its filters and its sort."""
    filters = (kind, bucket, entity_type, workflow, overdue, due_before, claimed, text)
    wanted = InboxQuery(*filters, desk.caller.partition_id, sort, limit, cursor)

    async def work(connection: Connection) -> InboxPage | Rejection:
        now = desk.house.database.clock.now()
        reader, directory = desk.caller.actor.id, desk.house.runtime.core.directory
        return await read_inbox(connection, desk.org_id, reader, wanted, now, directory=directory)

    page = await desk.read(work)
    if isinstance(page, Rejection):
        raise Refused(page)
    return {"items": [InboxItemBody.of(item) for item in page.items], "next": page.next}


@router.get(
    "/counts", response_model=InboxCountsBody, summary="Count what is in one's inbox", responses=documented()
)
async def count_inbox_of_caller(desk: Look) -> Any:
    """One's own, one's roles', and of those one stands in for."""

    async def work(connection: Connection) -> InboxCountsBody:
        caller, now = desk.caller, desk.house.database.clock.now()
        partition, directory = caller.partition_id, desk.house.runtime.core.directory
        counts = await count_inbox(
            connection, desk.org_id, caller.actor.id, now, partition_id=partition, directory=directory
        )
        return InboxCountsBody.of(counts)

    return await desk.read(work)
