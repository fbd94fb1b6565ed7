"""What is asked of outside parties, and what came back. `/api/requests`"""

from dataclasses import replace
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends

from assent.http import showing
from assent.http.desk import RequestContext
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.permissions import reader_for
from assent.http.problems import documented
from assent.http.request_shapes import RequestBody, WholeRequest
from assent.http.routing import Router
from assent.http.showing import list_request
from assent.http.signing import Reading
from assent.http.texts import NameQuery
from assent.model.cursor import position_of, time_and_id_in
from assent.model.outside_request import OutsideStatus
from assent.requests.views import OutsideRequestFilter, RequestView, page_of_requests
from assent.store.database import Connection

router = Router(prefix="/api/requests", tags=["requests"])

Look = Annotated[RequestContext, Depends(Reading("requests:read"))]


@router.get(
    "", response_model=Page[RequestBody], summary="List requests, newest first", responses=documented(422)
)
async def list_requests(  # noqa: PLR0913, PLR0917
    desk: Look,
    status: OutsideStatus | None = None,
    instance_id: UUID | None = None,
    name: NameQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Any:
    """Those that the caller may see: of their partition, and of entities and flows that they may read."""
    after = position_of(cursor, time_and_id_in)
    wanted = OutsideRequestFilter(
        status=status,
        instance_id=instance_id,
        name=name,
        partition_id=desk.caller.partition_id,
    )

    async def work(connection: Connection) -> list[RequestView]:
        seen = replace(wanted, reader=await reader_for(desk, connection))
        return await page_of_requests(connection, desk.org_id, seen, after, limit + 1)

    def place(request: RequestView) -> Any:
        return request.created_at.isoformat(), str(request.id)

    return page_of(await desk.read(work), limit, list_request, place)


@router.get(
    "/{request_id}",
    response_model=WholeRequest,
    summary="Show a request and what came for it",
    responses=documented(404, 422),
)
async def show_request(desk: Look, request_id: UUID) -> Any:
    """With the latest deliveries and items, and what was asked."""

    async def work(connection: Connection) -> WholeRequest:
        return await showing.show_request(desk, connection, request_id)

    return await desk.read(work)
