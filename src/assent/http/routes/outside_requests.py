"""Outside requests: what was asked of outside parties, and their results. `/api/outside-requests`, `/callbacks`

Results arrive at `/api/outside-requests/…/results` from callers who may push them, and at `/callbacks/…` with a token.
"""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Path, Request, Response
from pydantic import Field

from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.requests import (
    OutsideRequestBody,
    OutsideRequestDetails,
    PushedBody,
    RevokedLinksBody,
    UploadLinkBody,
)
from assent.effects.callbacks import Callback
from assent.http.auth.admission import count_request
from assent.http.context import Transaction, services_of
from assent.http.fields import NameQuery, RequestModel
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.problems import shown_once
from assent.http.replies import Reply, reply_with
from assent.http.request_bodies import is_json, read_json
from assent.http.routes.events import SignatureHeaders, delivery_of
from assent.http.routes.instances import read_instance
from assent.http.routing import Admission, Router
from assent.model.mutation import Refused, Rejection
from assent.model.outside_request import (
    ITEMS_MAX,
    Bundle,
    CargoText,
    DeliveryKey,
    ErrorText,
    Kind,
    OutsideStatus,
    ResultStatus,
    parse_bundle,
)
from assent.requests.outside_requests import (
    Pushed,
    find_request,
)
from assent.runtime.event_commands import CREATE_FIRST, LINK_DAYS, LINK_DAYS_MAX, find_request_row
from assent.runtime.event_sources import SIGNED_RESULTS, SignedDelivery, check_delivery, require_bound
from assent.runtime.rights import PUSH_RESULTS
from assent.store.database import Connection

router = Router(takes_documents=True, tags=["requests"])
workflow = Router(takes_documents=True, prefix="/api/workflow", tags=["requests"])

TOKEN_LENGTH_MAX: Final = 1_000
TokenPath = Annotated[str, Path(max_length=TOKEN_LENGTH_MAX, description="The token of `Assent-Callback`.")]


class NewBundle(Bundle):
    request_id: UUID | None = Field(None, examples=["01890a5d-ac96-774b-bcce-b302099a8057"])
    """The request of the path again. Signed results must have it: they are valid for no other request."""

    def bundle(self) -> Bundle:
        """Return the bundle without the request."""
        return Bundle.model_validate(self.model_dump(exclude={"request_id"}))


_ALREADY: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": PushedBody, "description": "Its key was used before, or the request has ended."}
}


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
    page = await tx.reads.requests.list(
        status=status, instance_id=instance_id, name=name, cursor=cursor, limit=limit
    )
    return reply_with_page(page, OutsideRequestBody.of)


@router.query(
    "/api/outside-requests/{request_id}",
    scope="requests:read",
    errors=(404,),
    summary="Read a request and its results",
)
async def show_request(tx: Transaction, request_id: UUID) -> OutsideRequestDetails:
    """With its content, and the latest deliveries and items, for callers who may read its instance."""
    return OutsideRequestDetails.of_details(await tx.reads.requests.get(request_id))


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
    errors=(400, 404),
    verify=verify_result,
    responses=_ALREADY,
    dependencies=[SignatureHeaders],
    summary="Push results of a request",
)
async def push_result(tx: Transaction, request_id: UUID, body: NewBundle) -> Reply[PushedBody]:
    """For holders of `results:push`; signed, if a source of `result:<name>` exists. Each key takes effect once."""
    bundle = _bundle_of(tx.request, request_id, body)
    await find_request_row(tx.runtime.scope, tx.connection, request_id)
    tx.require(PUSH_RESULTS)
    pushed = await tx.runtime.requests.push_bundle(request_id, bundle, "http")
    return _show_pushed(request_id, bundle, pushed)


class NewUploadLink(RequestModel):
    """How long a link is to hold."""

    days: int = Field(LINK_DAYS, ge=1, le=LINK_DAYS_MAX)


@router.command(
    "/api/outside-requests/{request_id}/upload-links",
    scope="documents:write",
    rate="workflows",
    status=201,
    errors=(404, 410),
    summary="Make a link by which the documents of a request are handed in",
)
async def create_upload_link(tx: Transaction, request_id: UUID, body: NewUploadLink) -> Reply[UploadLinkBody]:
    """For holders of `documents:write` who may read the request. Who makes it reviews nothing that comes by it."""
    base = str(tx.request.base_url)
    made = await tx.runtime.requests.upload_link(request_id, days=body.days, base_url=base)
    found = UploadLinkBody(id=made.id, url=made.url, expires_at=made.expires_at)
    return shown_once(reply_with(found, 201), tx.request.url.path, "the link was made, and is shown once")


@router.command(
    "/api/outside-requests/{request_id}/upload-links/revoke",
    scope="documents:write",
    rate="workflows",
    errors=(404,),
    summary="Revoke the links of a request",
)
async def revoke_upload_links(tx: Transaction, request_id: UUID) -> RevokedLinksBody:
    """For holders of `documents:write` who may read the request; also the link that went out with it."""
    return RevokedLinksBody(revoked=await tx.runtime.requests.revoke_upload_links(request_id))


class CompletedItem(RequestModel):
    """One item of a task that an outside party reports."""

    cargo_ref: CargoText | None = Field(
        None, examples=["version://assent/01890a5d-ac96-774b-bcce-b302099a8057"]
    )
    doc_type: Kind | None = Field(None, examples=["passport"])
    status: ResultStatus = "completed"
    error: ErrorText | None = None


class CompletedTask(RequestModel):
    """What an outside party reports of a task: the results of an outside request, with documents."""

    task_id: UUID = Field(description="The outside request.")
    status: ResultStatus = "completed"
    idempotency_key: DeliveryKey = Field(examples=["vendor-event-12345"])
    items: list[CompletedItem] = Field([], max_length=ITEMS_MAX)
    error: ErrorText | None = None

    def bundle(self) -> Bundle:
        """Return it as results; raise `Refused` for what is wrong with them, or points to no version."""
        for number, item in enumerate(self.items):
            if item.cargo_ref is not None and not item.cargo_ref.startswith("version://"):
                message = f"expected version://assent/<id>, found {item.cargo_ref[:100]}"
                path = ("items", number, "cargo_ref")
                raise Refused(Rejection("UNKNOWN_VERSION", message, path, hint=CREATE_FIRST))
        items = [
            {"cargo": one.cargo_ref, "kind": one.doc_type, "status": one.status, "error": one.error}
            for one in self.items
        ]
        bundle, problems = parse_bundle(
            {"key": self.idempotency_key, "status": self.status, "items": items, "error": self.error}
        )
        if bundle is None:
            raise Refused(Rejection.of(problems))
        return bundle


async def verify_task(request: Request) -> None:
    """Check the signature of a completed task, if the source of its results signs."""
    request.state.task_id = None
    body = await request.body()
    if not body or not is_json(request):
        return  # the route refuses it by its shape
    # Where the route finds it again: a body is parsed once.
    request._json = read_json(body, services_of(request).settings.request_elements_max)
    try:
        request.state.task_id = UUID(request._json["task_id"])
    except (ValueError, TypeError, LookupError, AttributeError):
        return  # the route refuses it by its shape
    caller = request.state.caller
    await _require_signature(request, caller.org_id, request.state.task_id, caller.partition_id)


@workflow.command(
    "/task-complete",
    scope="requests:write",
    rate="workflows",
    status=202,
    errors=(400, 404),
    verify=verify_task,
    responses=_ALREADY,
    dependencies=[SignatureHeaders],
    summary="Report a task as completed",
)
async def complete_task(tx: Transaction, body: CompletedTask) -> Reply[PushedBody]:
    """For holders of `results:push`. The task is an outside request, and its items are versions that exist."""
    if tx.request.state.task_id != body.task_id:
        raise Refused(Rejection("BAD_VALUE", "the body names two tasks", ("task_id",)))
    bundle = body.bundle()
    await find_request_row(tx.runtime.scope, tx.connection, body.task_id)
    tx.require(PUSH_RESULTS)
    pushed = await tx.runtime.requests.push_bundle(body.task_id, bundle, "http")
    return _show_pushed(body.task_id, bundle, pushed)


@workflow.query(
    "/{instance_id}/pending-tasks",
    scope="requests:read",
    errors=(404,),
    summary="List what an instance waits for outside parties to do",
)
async def list_pending_tasks(
    tx: Transaction, instance_id: UUID, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[OutsideRequestBody]]:
    """The open outside requests of an instance that the caller may read, newest first."""
    await read_instance(tx, instance_id)
    page = await tx.reads.requests.list(instance_id=instance_id, only_open=True, cursor=cursor, limit=limit)
    return reply_with_page(page, OutsideRequestBody.of)


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
    cause = await check_delivery(connection, org_id, f"{SIGNED_RESULTS}{asked.name}", delivery, now)
    return cause is not None


def _show_pushed(request_id: UUID, bundle: Bundle, pushed: Pushed) -> Reply[PushedBody]:
    body = PushedBody(request_id=request_id, key=bundle.key, outcome=pushed)
    return reply_with(body, 202 if pushed == "accepted" else 200)
