"""Approvals: see what is asked, decide it, hand it on. `/api/approvals`"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Response

from assent.approvals.showing import ShownRequest, read_request
from assent.http.approval_shapes import ApprovalBody, Decide, DecidedBody, Reassign
from assent.http.desk import Desk
from assent.http.permissions import may_read
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.signing import Reading, Writing
from assent.http.workflow_shapes import InstanceBody
from assent.model.mutation import Refused, Rejection
from assent.runtime import Runtime
from assent.runtime.view import InstanceView
from assent.store.database import Connection

router = APIRouter(prefix="/api/approvals/{request_id}", tags=["approvals"])

Look = Annotated[Desk, Depends(Reading("approvals:read"))]
Act = Annotated[Desk, Depends(Writing("approvals:write", "workflows"))]

Command = Callable[[Runtime], Awaitable[InstanceView]]


@router.get("", response_model=ApprovalBody, summary="See a request", responses=documented(404, 422))
async def show_approval(desk: Look, request_id: UUID) -> Any:
    """With the content of exactly the version that is to be approved."""

    async def work(connection: Connection) -> ApprovalBody:
        shown = await _request(desk, connection, request_id)
        if all(seat.user_id != desk.caller.actor.id for seat in shown.request.seats):
            may_read(desk, shown.request.entity_type)
        return ApprovalBody.of(shown)

    return await desk.read(work)


@router.post(
    "/decide",
    response_model=DecidedBody,
    summary="Decide a request",
    responses=documented(400, 404, 409, 413, 422),
)
async def decide_approval(desk: Act, request_id: UUID, body: Decide) -> Response:
    """For whoever is asked, or stands in for them. Nobody approves what is their own."""

    async def command(runtime: Runtime) -> InstanceView:
        return await runtime.decide(
            desk.org_id,
            request_id,
            body.answer,
            desk.caller.actor,
            reason=body.reason,
            on_behalf_of=body.on_behalf_of,
            group=body.group,
            data=body.data,
            partition_id=desk.caller.partition_id,
        )

    return await _command(desk, request_id, command, {"event": "answer"})


@router.post(
    "/reassign",
    response_model=DecidedBody,
    summary="Ask somebody else instead",
    responses=documented(400, 404, 409, 413, 422),
)
async def reassign_approval(desk: Act, request_id: UUID, body: Reassign) -> Response:
    """One's own seat, or another's with `approvals:reassign`. Both names stay in the record."""

    async def command(runtime: Runtime) -> InstanceView:
        return await runtime.reassign(
            desk.org_id,
            request_id,
            desk.caller.actor,
            from_user=body.from_user,
            to_user=body.to_user,
            reason=body.reason,
            partition_id=desk.caller.partition_id,
        )

    return await _command(desk, request_id, command)


@router.post(
    "/claim",
    response_model=DecidedBody,
    summary="Take a request on",
    responses=documented(404, 409, 413, 422),
)
async def claim_approval(desk: Act, request_id: UUID) -> Response:
    """Until it is released, nobody else decides it."""

    async def command(runtime: Runtime) -> InstanceView:
        actor, partition = desk.caller.actor, desk.caller.partition_id
        return await runtime.claim(desk.org_id, request_id, actor, partition_id=partition)

    return await _command(desk, request_id, command)


@router.post(
    "/release",
    response_model=DecidedBody,
    summary="Let others decide a claimed request",
    responses=documented(404, 409, 413, 422),
)
async def release_approval(desk: Act, request_id: UUID) -> Response:
    """For whoever has claimed it, and for holders of `approvals:reassign`."""

    async def command(runtime: Runtime) -> InstanceView:
        actor, partition = desk.caller.actor, desk.caller.partition_id
        return await runtime.release(desk.org_id, request_id, actor, partition_id=partition)

    return await _command(desk, request_id, command)


async def _command(
    desk: Desk, request_id: UUID, command: Command, names: dict[str, str] | None = None
) -> Response:
    async def show(connection: Connection, view: InstanceView) -> Reply:
        shown = await _request(desk, connection, request_id)
        return Reply.of(DecidedBody(request=ApprovalBody.of(shown), instance=InstanceBody.of(view)))

    return await desk.command(command, show, names)


async def _request(desk: Desk, connection: Connection, request_id: UUID) -> ShownRequest:
    shown = await read_request(connection, desk.org_id, request_id)
    if shown is None or not desk.caller.sees(shown.request.partition_id):
        raise Refused(Rejection("NOT_FOUND", f"no approval request {request_id}", ("request_id",)))
    return shown
