"""Outside requests: what was asked of outside parties, and their results. `/api/outside-requests`, `/callbacks`

Results arrive at `/api/outside-requests/…/results` from callers who may push them, and at `/callbacks/…` with a token.
"""

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Path, Request, Response
from pydantic import Field

from assent.bodies.body import ITEMS_DEFAULT, Page, ResponseModel
from assent.effects.callbacks import Callback
from assent.http.auth.admission import count_request
from assent.http.context import Transaction, services_of
from assent.http.fields import NameQuery
from assent.http.paging import CursorQuery, LimitQuery, page_of
from assent.http.replies import Reply, reply_with
from assent.http.routes.events import SignatureHeaders, delivery_of
from assent.http.routes.instances import read_instance
from assent.http.routing import Admission, Router
from assent.model.cursor import position_of, time_and_id_in
from assent.model.mutation import Refused, Rejection
from assent.model.outside_request import Bundle, OutsideStatus
from assent.requests.outside_requests import (
    OutsideRequestFilter,
    Pushed,
    RequestView,
    came_for,
    find_request,
    page_of_requests,
)
from assent.runtime.event_sources import SignedDelivery, check_delivery, require_bound
from assent.runtime.rights import PUSH_RESULTS
from assent.store.database import Connection

router = Router(takes_documents=True, tags=["requests"])

TOKEN_LENGTH_MAX: Final = 1_000
TokenPath = Annotated[str, Path(max_length=TOKEN_LENGTH_MAX, description="The token of `Assent-Callback`.")]

SIGNED_KEY: Final = "result:"
"""The prefix of the keys under which sources sign results, before the name: `result:kyc.onboarding.screening`."""


class OutsideRequestBody(ResponseModel):
    """A request to an outside party."""

    id: UUID
    name: str = Field(
        description="The workflow and the node of the request.", examples=["kyc.onboarding.screening"]
    )
    instance_id: UUID
    step_id: UUID
    node_id: str
    entity_type: str | None
    entity_id: UUID | None
    status: OutsideStatus
    expected: int = Field(description="The number of items that complete it.")
    received: int
    failed: int = Field(description="The number of items that failed or expired.")
    error: str | None = Field(description="The last error.")
    created_at: datetime
    expires_at: datetime | None
    ended_at: datetime | None


class DeliveryBody(ResponseModel):
    """A bundle of results that arrived."""

    id: UUID
    key: str
    source: str = Field(examples=["callback"])
    pushed_by: str | None
    status: str = Field(examples=["processed"])
    late: bool = Field(description="It arrived after the end of the request, and does not count.")
    attempts: int
    error: str | None
    received_at: datetime
    processed_at: datetime | None


class ItemBody(ResponseModel):
    """One item that arrived or failed."""

    cargo: str | None = Field(examples=["external://vault/passport-17"])
    kind: str | None = Field(examples=["passport"])
    status: str = Field(examples=["completed"])
    error: str | None
    delivery_id: UUID
    received_at: datetime


class OutsideRequestDetails(OutsideRequestBody):
    """A request with its content and its latest results."""

    asked: Any = Field(description="The content that was sent.")
    deliveries: list[DeliveryBody]
    items: list[ItemBody]


class PushedBody(ResponseModel):
    """The effect of a result."""

    request_id: UUID
    key: str = Field(examples=["evt_17"])
    outcome: Pushed = Field(
        description="`accepted`; `repeated`: its key was used before, nothing happens; `late`: the request has ended."
    )


class NewBundle(Bundle):
    request_id: UUID | None = Field(None, examples=["01890a5d-ac96-774b-bcce-b302099a8057"])
    """The request of the path again. Signed results must have it: they are valid for no other request."""

    def bundle(self) -> Bundle:
        """Return the bundle without the request."""
        return Bundle.model_validate(self.model_dump(exclude={"request_id"}))


_ALREADY: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": PushedBody, "description": "Its key was used before, or the request has ended."}
}


async def find_visible_request(tx: Transaction, request_id: UUID) -> RequestView:
    """Return a request of the caller's org and partition, whether or not they may read it."""
    request = await find_request(tx.connection, tx.org_id, request_id)
    if request is None or not tx.caller.sees(request.partition_id):
        raise Refused(Rejection("NOT_FOUND", f"no request {request_id}", ("request_id",)))
    return request


@router.query("/api/outside-requests", scope="requests:read", summary="List requests, newest first")
async def list_requests(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    status: OutsideStatus | None = None,
    instance_id: UUID | None = None,
    name: NameQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[OutsideRequestBody]]:
    """The requests of the caller's partition whose entities and flows they may read."""
    after = position_of(cursor, time_and_id_in)
    filters = OutsideRequestFilter(
        status=status, instance_id=instance_id, name=name, partition_id=tx.partition_id
    )
    filters = replace(filters, reader=await tx.reader())
    requests = await page_of_requests(tx.connection, tx.org_id, filters, after, limit + 1)
    return page_of(
        requests,
        limit,
        OutsideRequestBody.of,
        lambda request: (request.created_at.isoformat(), str(request.id)),
    )


@router.query(
    "/api/outside-requests/{request_id}",
    scope="requests:read",
    errors=(404,),
    summary="Read a request and its results",
)
async def show_request(tx: Transaction, request_id: UUID) -> OutsideRequestDetails:
    """With its content, and the latest deliveries and items, for callers who may read its instance."""
    request = await find_visible_request(tx, request_id)
    if request.entity_type is None:
        await read_instance(tx, request.instance_id)
    tx.may_read(request.entity_type)
    deliveries, items, asked = await came_for(tx.connection, tx.org_id, request_id)
    return OutsideRequestDetails(
        **OutsideRequestBody.of(request).model_dump(),
        asked=asked,
        deliveries=[DeliveryBody.of(delivery) for delivery in deliveries],
        items=[ItemBody.of(item) for item in items],
    )


async def verify_result(request: Request) -> None:
    """Check the signature of results, if their source signs."""
    request.state.is_signed = False
    try:
        request_id = UUID(request.path_params["request_id"])
    except ValueError:
        return  # the route refuses it by its shape
    caller = request.state.caller
    await _require_signature(request, caller.org_id, request_id, caller.partition_id)


@router.command(
    "/api/outside-requests/{request_id}/results",
    scope="requests:write",
    rate="workflows",
    status=202,
    errors=(404,),
    verify=verify_result,
    responses=_ALREADY,
    dependencies=[SignatureHeaders],
    summary="Push results of a request",
)
async def push_result(tx: Transaction, request_id: UUID, body: NewBundle) -> Reply[PushedBody]:
    """For holders of `results:push`; signed, if a source of `result:<name>` exists. Each key takes effect once."""
    bundle = _bundle_of(tx.request, request_id, body)
    await find_visible_request(tx, request_id)
    tx.require(PUSH_RESULTS)
    pushed = await tx.runtime.requests.push_bundle(request_id, bundle, "http")
    return _show_pushed(request_id, bundle, pushed)


async def admit_callback(request: Request) -> None:
    """Check the token of a callback. Wrong tokens are counted by address, calls with a right one by its request."""
    services = services_of(request)
    if services.callbacks is None:
        raise Refused(Rejection("NOT_FOUND", "this server has no callbacks"))
    token = request.path_params["token"]
    found = services.callbacks.read(token[:TOKEN_LENGTH_MAX], services.database.clock.now())
    if isinstance(found, Rejection):
        place = request.client.host if request.client else ""
        count_request(services, "", f"place:{place}", "workflows")
        raise Refused(found)
    count_request(services, found.org_id, str(found.request_id), "workflows")
    request.state.callback = found


async def verify_callback(request: Request) -> None:
    """Check the signature of results that arrive by a callback, if their source signs."""
    callback: Callback = request.state.callback
    await _require_signature(request, callback.org_id, callback.request_id)


@router.unsigned(
    "/callbacks/{token}",
    status_code=202,
    admission=Admission(admit_callback, verify_callback, takes_documents=True),
    errors=(400, 401, 403, 404, 413, 422, 429, 503),
    responses=_ALREADY,
    response_model=PushedBody,
    dependencies=[SignatureHeaders],
    summary="Push results by a callback",
)
async def push_result_by_callback(request: Request, token: TokenPath, body: NewBundle) -> Response:
    """For the holder of the address: its token allows this and nothing else."""
    callback: Callback = request.state.callback
    bundle = _bundle_of(request, callback.request_id, body)
    runtime = services_of(request).runtime.org(callback.org_id)
    pushed = await runtime.requests.push_bundle(callback.request_id, bundle, "callback")
    return _show_pushed(callback.request_id, bundle, pushed).response()


def _bundle_of(request: Request, request_id: UUID, body: NewBundle) -> Bundle:
    """Return the bundle of a body; raise `Refused` if it was signed for another request."""
    if request.state.is_signed:
        require_bound(body.request_id, request_id)
    return body.bundle()


async def _require_signature(
    request: Request, org_id: str, request_id: UUID, partition_id: str | None = None
) -> None:
    """Raise `Refused` without a correct signature, if the source of a request's results signs."""
    database = services_of(request).database
    delivery = await delivery_of(request)
    check = partial(
        _is_signed,
        org_id=org_id,
        request_id=request_id,
        partition_id=partition_id,
        delivery=delivery,
        now=database.clock.now(),
    )
    # As the owner, who alone may read secrets.
    request.state.is_signed = await database.run(check, org_id=None)


async def _is_signed(  # noqa: PLR0913
    connection: Connection,
    *,
    org_id: str,
    request_id: UUID,
    partition_id: str | None,
    delivery: SignedDelivery,
    now: datetime,
) -> bool:
    asked = await find_request(connection, org_id, request_id)
    if asked is None or partition_id not in (None, asked.partition_id):
        return False  # the caller cannot see the request, so no signature is required
    cause = await check_delivery(connection, org_id, f"{SIGNED_KEY}{asked.name}", delivery, now)
    return cause is not None


def _show_pushed(request_id: UUID, bundle: Bundle, pushed: Pushed) -> Reply[PushedBody]:
    body = PushedBody(request_id=request_id, key=bundle.key, outcome=pushed)
    return reply_with(body, 202 if pushed == "accepted" else 200)
