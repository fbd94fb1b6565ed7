"""What is asked of outside parties, and what came back. `/api/requests`"""

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends

from assent.evidence.reading import RequestView, Wanted, came_for, find_request, page_of_requests
from assent.http.desk import Desk
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of, position_of
from assent.http.permissions import hidden_types, may_read
from assent.http.problems import documented
from assent.http.request_shapes import DeliveryBody, ItemBody, RequestBody, WholeRequest
from assent.http.signing import Reading
from assent.http.texts import NameQuery
from assent.model.mutation import Refused, Rejection
from assent.model.outside_request import OutsideStatus
from assent.store.database import Connection

router = APIRouter(prefix="/api/requests", tags=["requests"])

Look = Annotated[Desk, Depends(Reading("requests:read"))]


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
    """Those that the caller may see: of their partition, and of entities that they may read."""
    after = position_of(
        cursor, lambda place: (datetime.fromisoformat(place[0]).astimezone(UTC), UUID(place[1]))
    )
    wanted = Wanted(
        status=status,
        instance_id=instance_id,
        name=name,
        partition_id=desk.caller.partition_id,
        hidden_types=hidden_types(desk),
    )

    async def work(connection: Connection) -> list[RequestView]:
        return await page_of_requests(connection, desk.org_id, wanted, after, limit + 1)

    def place(request: RequestView) -> Any:
        return request.created_at.isoformat(), str(request.id)

    return page_of(await desk.read(work), limit, RequestBody.of, place)


@router.get(
    "/{request_id}",
    response_model=WholeRequest,
    summary="Show a request and what came for it",
    responses=documented(404, 422),
)
async def show_request(desk: Look, request_id: UUID) -> Any:
    """With the latest deliveries and items, and what was asked."""

    async def work(connection: Connection) -> WholeRequest:
        request = await request_for(desk, connection, request_id)
        deliveries, items, asked = await came_for(connection, desk.org_id, request_id)
        return WholeRequest(
            **RequestBody.of(request).model_dump(),
            asked=asked,
            deliveries=[DeliveryBody.of(one) for one in deliveries],
            items=[ItemBody.of(one) for one in items],
        )

    return await desk.read(work)


async def request_for(desk: Desk, connection: Connection, request_id: UUID) -> RequestView:
    """A request that the caller may see; all others are not there (D12, D32)."""
    request = await find_request(connection, desk.org_id, request_id)
    if request is None or not desk.caller.sees(request.partition_id):
        raise Refused(Rejection("NOT_FOUND", f"no request {request_id}", ("request_id",)))
    may_read(desk, request.entity_type)
    return request
