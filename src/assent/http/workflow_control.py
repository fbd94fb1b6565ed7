"""Stopping instances and setting them going again, mostly for operators. `/ui/workflows/{id}/…`"""

from typing import Annotated, Final
from uuid import UUID

from fastapi import Depends, Response

from assent.http.desk import RequestContext, Transaction
from assent.http.instances import command_to
from assent.http.problems import documented
from assent.http.routing import Router
from assent.http.showing import UNSEEN
from assent.http.signing import Writing
from assent.http.workflow_shapes import InstanceBody, ReasonBody, RetryBody
from assent.runtime.view import InstanceView

router = Router(prefix="/ui/workflows/{instance_id}", tags=["workflows"])

Act = Annotated[RequestContext, Depends(Writing("workflows:write", "workflows"))]

NO_REASON: Final = ReasonBody()
EVERYTHING: Final = RetryBody()


@router.post(
    "/cancel",
    response_model=InstanceBody,
    summary="Cancel an instance",
    responses=UNSEEN | documented(400, 404, 409, 413, 422),
)
async def cancel_workflow(desk: Act, instance_id: UUID, body: ReasonBody = NO_REASON) -> Response:
    """For whoever started it, and for holders of `workflows:cancel`. What was done stays done."""

    async def command(session: Transaction) -> InstanceView:
        return await session.runtime.org(desk.org_id, desk.caller.actor).instances.cancel(
            instance_id, body.reason
        )

    return await command_to(desk, instance_id, command, operation="cancel")


@router.post(
    "/pause",
    response_model=InstanceBody,
    summary="Pause an instance",
    responses=UNSEEN | documented(400, 404, 409, 413, 422),
)
async def pause_workflow(desk: Act, instance_id: UUID, body: ReasonBody = NO_REASON) -> Response:
    """For holders of `workflows:pause`. Events, timers and results wait until it is resumed."""

    async def command(session: Transaction) -> InstanceView:
        return await session.runtime.org(desk.org_id, desk.caller.actor).instances.pause(
            instance_id, body.reason
        )

    return await command_to(desk, instance_id, command, operation="pause")


@router.post(
    "/resume",
    response_model=InstanceBody,
    summary="Resume a paused instance",
    responses=UNSEEN | documented(404, 409, 413, 422),
)
async def resume_workflow(desk: Act, instance_id: UUID) -> Response:
    """For holders of `workflows:resume`."""

    async def command(session: Transaction) -> InstanceView:
        return await session.runtime.org(desk.org_id, desk.caller.actor).instances.resume(instance_id)

    return await command_to(desk, instance_id, command, operation="resume")


@router.post(
    "/retry",
    response_model=InstanceBody,
    summary="Try what failed again",
    responses=UNSEEN | documented(400, 404, 409, 413, 422),
)
async def retry_workflow(desk: Act, instance_id: UUID, body: RetryBody = EVERYTHING) -> Response:
    """For holders of `workflows:retry`."""

    async def command(session: Transaction) -> InstanceView:
        return await session.runtime.org(desk.org_id, desk.caller.actor).instances.retry(
            instance_id, body.step
        )

    return await command_to(desk, instance_id, command, operation="retry")
