"""Approvals: see what is asked, decide it, hand it on. `/api/approvals`"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Response

from assent.http import showing
from assent.http.approval_shapes import ApprovalBody, DecideBody, DecidedBody, ReassignBody
from assent.http.desk import RequestContext
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.showing import UNSEEN, answer
from assent.http.signing import Reading, Writing
from assent.runtime import Runtime
from assent.runtime.view import InstanceView
from assent.store.database import Connection

router = Router(prefix="/api/approvals/{request_id}", tags=["approvals"])

Look = Annotated[RequestContext, Depends(Reading("approvals:read"))]
Act = Annotated[RequestContext, Depends(Writing("approvals:write", "workflows"))]

Command = Callable[[Runtime], Awaitable[InstanceView]]


@router.get("", response_model=ApprovalBody, summary="See a request", responses=documented(404, 422))
async def show_approval(desk: Look, request_id: UUID) -> Any:
    """With the content of exactly the version that is to be approved.

    For those who are asked, who stand in for them, or who may read its instance.
    """

    async def work(connection: Connection) -> ApprovalBody:
        return await showing.show_approval(desk, connection, request_id)

    return await desk.read(work)


@router.post(
    "/decide",
    response_model=DecidedBody,
    summary="Decide a request",
    responses=UNSEEN | documented(400, 404, 409, 413, 422),
)
async def decide_approval(desk: Act, request_id: UUID, body: DecideBody) -> Response:
    """For whoever is asked, or stands in for them. Nobody approves what is their own."""

    async def command(runtime: Runtime) -> InstanceView:
        return await runtime.org(
            desk.org_id, desk.caller.actor, partition_id=desk.caller.partition_id
        ).approvals.decide(
            request_id,
            body.answer,
            reason=body.reason,
            on_behalf_of=body.on_behalf_of,
            group=body.group,
            data=body.data,
        )

    return await _command(desk, request_id, command, {"event": "answer"})


@router.post(
    "/reassign",
    response_model=DecidedBody,
    summary="Ask somebody else instead",
    responses=UNSEEN | documented(400, 404, 409, 413, 422),
)
async def reassign_approval(desk: Act, request_id: UUID, body: ReassignBody) -> Response:
    """One's own seat, or another's with `approvals:reassign`. Both names stay in the record."""

    async def command(runtime: Runtime) -> InstanceView:
        return await runtime.org(
            desk.org_id, desk.caller.actor, partition_id=desk.caller.partition_id
        ).approvals.reassign(request_id, from_user=body.from_user, to_user=body.to_user, reason=body.reason)

    return await _command(desk, request_id, command)


@router.post(
    "/claim",
    response_model=DecidedBody,
    summary="Take a request on",
    responses=UNSEEN | documented(404, 409, 413, 422),
)
async def claim_approval(desk: Act, request_id: UUID) -> Response:
    """Until it is released, nobody else decides it."""

    async def command(runtime: Runtime) -> InstanceView:
        actor, partition = desk.caller.actor, desk.caller.partition_id
        return await runtime.org(desk.org_id, actor, partition_id=partition).approvals.claim(request_id)

    return await _command(desk, request_id, command)


@router.post(
    "/release",
    response_model=DecidedBody,
    summary="Let others decide a claimed request",
    responses=UNSEEN | documented(404, 409, 413, 422),
)
async def release_approval(desk: Act, request_id: UUID) -> Response:
    """For whoever has claimed it, and for holders of `approvals:reassign`."""

    async def command(runtime: Runtime) -> InstanceView:
        actor, partition = desk.caller.actor, desk.caller.partition_id
        return await runtime.org(desk.org_id, actor, partition_id=partition).approvals.release(request_id)

    return await _command(desk, request_id, command)


async def _command(
    desk: RequestContext, request_id: UUID, command: Command, names: dict[str, str] | None = None
) -> Response:
    async def show(connection: Connection, view: InstanceView) -> Reply:
        return await answer(showing.show_decided(desk, connection, request_id, view))

    return await desk.command(command, show, names)
