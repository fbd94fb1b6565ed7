"""Instances of workflows: start, read, answer, stop and continue. `/api/flows`, `/api/instances`"""

from typing import Annotated, Final, Literal
from uuid import UUID

from fastapi import Body as JsonBody
from fastapi import Query
from pydantic import Field

from assent.bodies.body import ITEMS_DEFAULT, Data, Page
from assent.bodies.instances import (
    ApprovalBody,
    Descriptor,
    InstanceBody,
    InstanceCountBody,
    InstancePathBody,
    InstanceSummary,
    StepDetailsBody,
    TimelineStep,
)
from assent.http.context import Transaction
from assent.http.fields import NamePath, NameQuery, RequestModel, ShortText, Text
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.replies import Reply, reply_with
from assent.http.routes.readable import reply_if_readable
from assent.http.routing import Router
from assent.runtime.readers import find_instance_row, may_read_instance, read_instance_row
from assent.runtime.rights import Operation
from assent.runtime.views import InstanceView
from assent.store.rows import Row

router = Router(takes_documents=True, tags=["instances"])
control = Router(prefix="/api/instances/{instance_id}", tags=["instances"])
"""Commands that stop instances and continue them, mostly for operators."""

StatusWord = Literal["running", "paused", "completed", "failed", "cancelled", "active", "suspended"]
_ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
_INPUT: Final = {"order_id": "ord-123", "customer_email": "bob@example.com"}
_STATUSES: Final = {"active": "running", "suspended": "paused"}
"""Other names of two statuses, accepted as filters."""
_START_NAMES: Final = {"data": "", "key": "flow", "idempotency_key": "Idempotency-Key"}


class AdvanceBody(RequestModel):
    """An answer to a step."""

    event: ShortText = Field(examples=["approved"])
    input: Data = Field(default={}, examples=[{"approval_notes": "Looks good"}])
    step: ShortText | None = Field(
        None, description="The step that is answered, if several wait.", examples=["review"]
    )


class ReasonBody(RequestModel):
    reason: Text = Field("", examples=["The customer changed their mind"])


class RetryBody(RequestModel):
    step: ShortText | None = Field(
        None, description="The failed step; all failed steps without it.", examples=["process"]
    )


NO_REASON: Final = ReasonBody()
ALL_STEPS: Final = RetryBody()


async def find_visible_instance(tx: Transaction, instance_id: UUID) -> Row:
    """Return an instance of the caller's org and partition, whether or not they may read it."""
    return await find_instance_row(tx.runtime.scope, tx.connection, instance_id)


async def read_instance(tx: Transaction, instance_id: UUID) -> Row:
    """Return an instance that the caller may read; raise `Refused` for every other."""
    return await read_instance_row(tx.runtime.scope, tx.connection, instance_id)


async def show_view(
    tx: Transaction, view: InstanceView, status: int = 200, **headers: str
) -> Reply[InstanceBody]:
    """Return the reply with an instance after a command; raise `Refused` if the caller may not read it."""
    await may_read_instance(tx.core, tx.connection, view, tx.actor)
    return reply_with(InstanceBody.of(view), status, about=(("instance", str(view.id)),), headers=headers)


async def require_commandable(tx: Transaction, instance_id: UUID, operation: Operation | None = None) -> None:
    """Raise `Refused` if the caller may not read an instance; holders of an operation's capability need not."""
    if operation is not None and tx.actor.can(f"workflows:{operation}"):
        await find_visible_instance(tx, instance_id)
    else:
        await read_instance(tx, instance_id)


@router.command(
    "/api/flows/{flow}/start",
    scope="workflows:write",
    rate="workflows",
    status=201,
    errors=(404, 409, 410),
    names=_START_NAMES,
    summary="Start a flow",
)
async def start_flow(
    tx: Transaction,
    flow: NamePath,
    data: Annotated[Data, JsonBody(default_factory=dict, examples=[_INPUT])],
) -> Reply[InstanceBody]:
    """The body is the flow's input; the reply is the instance, after every step that could run at once.

    An `Idempotency-Key` identifies this start in the whole org, for good: sent again by a caller who may read the
    instance, it returns the instance in its current state.
    """
    view = await tx.runtime.instances.start(flow, data, idempotency_key=tx.repeat_key)
    location = f"/api/instances/{view.id}"
    return await reply_if_readable(show_view(tx, view, 201, location=location), location=location)


@router.query("/api/instances", scope="workflows:read", summary="List instances, newest first")
async def list_instances_of_org(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    status: Annotated[list[StatusWord] | None, Query(max_length=7)] = None,
    workflow: NameQuery = None,
    subject: NameQuery = None,
    entity_type: NameQuery = None,
    entity_id: UUID | None = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[InstanceSummary]]:
    """The instances that the caller may read. `active` and `suspended` mean `running` and `paused`.

    `subject` is the user who started it.
    """
    statuses = [_STATUSES.get(word, word) for word in status] if status else None
    page = await tx.reads.instances.list(
        statuses=statuses,
        workflow=workflow,
        subject=subject,
        entity_type=entity_type,
        entity_id=entity_id,
        cursor=cursor,
        limit=limit,
    )
    return reply_with_page(page, InstanceSummary.of)


@router.query("/api/instances/count", scope="workflows:read", summary="Count instances")
async def count_instances_of_org(
    tx: Transaction,
    status: Annotated[list[StatusWord] | None, Query(max_length=7)] = None,
    workflow: NameQuery = None,
    subject: NameQuery = None,
    entity_id: UUID | None = None,
) -> InstanceCountBody:
    """Of those that the caller may read, with the filters of the list; exact up to 10,000."""
    statuses = [_STATUSES.get(word, word) for word in status] if status else None
    found = await tx.reads.instances.count(
        statuses=statuses, workflow=workflow, subject=subject, entity_id=entity_id
    )
    return InstanceCountBody.of(found)


@router.query(
    "/api/instances/{instance_id}", scope="workflows:read", errors=(404, 409), summary="See an instance"
)
async def show_instance(tx: Transaction, instance_id: UUID) -> Descriptor:
    """Its state, its history and what the caller can do: forms and events only where the caller may answer."""
    return Descriptor.of_details(await tx.reads.instances.get(instance_id))


@router.query(
    "/api/instances/{instance_id}/steps",
    scope="workflows:read",
    errors=(404,),
    summary="List the steps of an instance, newest first",
)
async def list_instance_steps(
    tx: Transaction, instance_id: UUID, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[TimelineStep]]:
    """Each with its actor and its outcome; the descriptor has only the newest of them."""
    page = await tx.reads.instances.history(instance_id, cursor=cursor, limit=limit)
    return reply_with_page(page, TimelineStep.of)


@router.query(
    "/api/instances/{instance_id}/steps/{taken_id}",
    scope="workflows:read",
    errors=(404,),
    summary="See a step of an instance",
)
async def show_instance_step(tx: Transaction, instance_id: UUID, taken_id: UUID) -> StepDetailsBody:
    """How its way was chosen, and what it sent; what it was given and gave is for holders of `workflows:retry`."""
    return StepDetailsBody.of_step(await tx.reads.instances.step(instance_id, taken_id))


@router.query(
    "/api/instances/{instance_id}/path",
    scope="workflows:read",
    errors=(404, 409),
    summary="See the way of an instance on its graph",
)
async def show_instance_path(tx: Transaction, instance_id: UUID) -> InstancePathBody:
    """The nodes and edges of its definition, how often it took each of them, and where its tokens are."""
    return InstancePathBody.of(await tx.reads.instances.path(instance_id))


@router.query(
    "/api/instances/{instance_id}/approvals",
    scope="workflows:read",
    errors=(404,),
    summary="List the approval requests of an instance, newest first",
)
async def list_instance_approvals(
    tx: Transaction, instance_id: UUID, limit: LimitQuery = ITEMS_DEFAULT
) -> Page[ApprovalBody]:
    """The newest, on one page: each with its approvers, their decisions and the content that it is about."""
    found = await tx.reads.instances.approvals(instance_id, limit=limit)
    return Page(items=[ApprovalBody.of_details(details) for details in found])


@router.command(
    "/api/instances/{instance_id}/advance",
    scope="workflows:write",
    rate="workflows",
    errors=(204, 404, 409),
    names={"data": "input"},
    summary="Answer a step",
)
async def advance_instance(tx: Transaction, instance_id: UUID, body: AdvanceBody) -> Reply[InstanceBody]:
    """The event is one of the waiting step's; for an approval it is the decision, with all its rules."""
    await read_instance(tx, instance_id)
    view = await tx.runtime.instances.advance(instance_id, body.event, body.input, step=body.step)
    return await reply_if_readable(show_view(tx, view))


@control.command(
    "/cancel", scope="workflows:write", rate="workflows", errors=(204, 404, 409), summary="Cancel an instance"
)
async def cancel_instance(
    tx: Transaction, instance_id: UUID, body: ReasonBody = NO_REASON
) -> Reply[InstanceBody]:
    """For the user who started it, and for holders of `workflows:cancel`. Completed steps are not undone."""
    await require_commandable(tx, instance_id, "cancel")
    view = await tx.runtime.instances.cancel(instance_id, body.reason)
    return await reply_if_readable(show_view(tx, view))


@control.command(
    "/pause", scope="workflows:write", rate="workflows", errors=(204, 404, 409), summary="Pause an instance"
)
async def pause_instance(
    tx: Transaction, instance_id: UUID, body: ReasonBody = NO_REASON
) -> Reply[InstanceBody]:
    """For holders of `workflows:pause`. Events, timers and results wait until it is resumed."""
    await require_commandable(tx, instance_id, "pause")
    view = await tx.runtime.instances.pause(instance_id, body.reason)
    return await reply_if_readable(show_view(tx, view))


@control.command(
    "/resume",
    scope="workflows:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Resume a paused instance",
)
async def resume_instance(tx: Transaction, instance_id: UUID) -> Reply[InstanceBody]:
    """For holders of `workflows:resume`."""
    await require_commandable(tx, instance_id, "resume")
    view = await tx.runtime.instances.resume(instance_id)
    return await reply_if_readable(show_view(tx, view))


@control.command(
    "/retry",
    scope="workflows:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Retry failed steps",
)
async def retry_instance(
    tx: Transaction, instance_id: UUID, body: RetryBody = ALL_STEPS
) -> Reply[InstanceBody]:
    """For holders of `workflows:retry`."""
    await require_commandable(tx, instance_id, "retry")
    view = await tx.runtime.instances.retry(instance_id, body.step)
    return await reply_if_readable(show_view(tx, view))
