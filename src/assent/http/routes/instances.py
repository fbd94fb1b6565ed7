"""Instances of workflows: start, read, answer, stop and continue. `/api/flows`, `/api/instances`"""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import Body as JsonBody
from fastapi import Query
from pydantic import Field

from assent.http.context import Transaction
from assent.http.fields import Data, NamePath, NameQuery, RequestModel, ResponseModel, ShortText, Text
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.replies import Reply, reply_with
from assent.http.routes.readable import reply_if_readable
from assent.http.routing import Router
from assent.model.cursor import id_in, position_of, time_and_id_in
from assent.model.mutation import Refused, Rejection
from assent.runtime.readers import Description, SeenInstance, WaitingPlace, describe, may_read_instance
from assent.runtime.rights import Operation
from assent.runtime.views import InstanceFilter, InstanceView, find_instance, list_instances, list_steps
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


class StepBody(ResponseModel):
    """A step that waits."""

    name: str = Field(examples=["review"])
    node_id: str
    kind: str = Field(examples=["approval"])
    step_id: UUID | None = None
    request_id: UUID | None = Field(None, description="The approval request, if there is one.")
    asked: list[str] = Field([], description="The users who are asked now.", examples=[["bob"]])
    due_at: datetime | None = None


class PossibleStep(StepBody):
    """A step that waits, with what the caller can do about it."""

    label: str | None = None
    events: list[str] = Field(
        [], description="The answers that the caller may give.", examples=[["approved", "rejected"]]
    )
    form: Data = Field({}, description="The fields of the form, if the caller may fill it in.")

    @classmethod
    def at(cls, place: WaitingPlace) -> "PossibleStep":
        """Return the body of a place where an instance waits."""
        step = StepBody.of(place.waiting).model_dump()
        return cls(**step, label=place.label, events=list(place.events), form=dict(place.form))


class TimelineStep(ResponseModel):
    """Something that happened."""

    id: UUID
    at: datetime
    step: str = Field(examples=["review"])
    node_id: str
    kind: str = Field(examples=["approval"])
    status: str = Field(examples=["completed"])
    outcome: str | None = Field(None, examples=["approved"])
    actor: str | None = Field(None, description="The user who caused it.", examples=["alice"])
    on_behalf_of: list[str] | None = Field(
        description="The users that the actor acted for; null for the actor alone.", examples=[["ann"]]
    )
    finished_by: str | None = Field(None, examples=["bob"])
    finished_at: datetime | None = None
    reason: str | None = None
    error: str | None = None

    @classmethod
    def of_row(cls, row: Row, name: str | None = None) -> "TimelineStep":
        """Return the body of a row of a step; `name` is the name of its node."""
        output = row["output_json"] or {}
        decisions = output.get("decisions") or [{}]
        return cls(
            id=row["id"],
            at=row["created_at"],
            step=name or row["node_id"],
            node_id=row["node_id"],
            kind=row["node_type"],
            status=row["status"],
            outcome=output.get("outcome"),
            actor=row["actor_user_id"],
            on_behalf_of=output.get("on_behalf_of"),
            finished_by=output.get("by") or decisions[-1].get("by"),
            finished_at=row["completed_at"],
            reason=output.get("reason") or None,
            error=row["error"],
        )


class InstanceBody(ResponseModel):
    """An instance after a command."""

    id: UUID = Field(examples=[_ID])
    workflow_id: str = Field(examples=["orders.approval"])
    status: str = Field(examples=["running"])
    version: int
    entity_id: UUID | None = None
    entity_version: int = 0
    context: Data = Field(examples=[{"order_id": "ord-123"}])
    steps: list[StepBody] = Field(validation_alias="waiting")
    incident: dict[str, Any] | None = None
    expires_at: datetime | None = None


class InstanceSummary(ResponseModel):
    """An instance in a list."""

    id: UUID = Field(examples=[_ID])
    workflow_id: str = Field(examples=["orders.approval"])
    status: str = Field(examples=["running"])
    version: int
    subject_id: str = Field(description="The user who started it.", examples=["alice"])
    partition_id: str | None = None
    entity_type: str | None = None
    entity_id: UUID | None = None
    entity_version: int = 0
    current_nodes: list[str] = Field(examples=[["review"]])
    incident: dict[str, Any] | None = None
    started_at: datetime
    updated_at: datetime
    completed_at: datetime | None = None
    expires_at: datetime | None = None


class Descriptor(InstanceSummary):
    """An instance as the caller sees it."""

    name: str | None = None
    context: Data = Field(examples=[{"order_id": "ord-123"}])
    steps: list[PossibleStep]
    transitions: list[str] = Field(
        description="The transitions of the entity that the caller may make.", examples=[["cancel"]]
    )
    timeline: list[TimelineStep]

    @classmethod
    def of_description(cls, row: Row, found: Description) -> "Descriptor":
        """Return the body of an instance's row and its description for the caller."""
        return cls(
            **InstanceSummary.of(row).model_dump(),
            name=found.name,
            context=dict(found.view.context),
            steps=[PossibleStep.at(place) for place in found.places],
            transitions=list(found.transitions),
            timeline=[
                TimelineStep.of_row(step, found.node_names.get(step["node_id"])) for step in found.timeline
            ],
        )


async def find_visible_instance(tx: Transaction, instance_id: UUID) -> Row:
    """Return an instance of the caller's org and partition, whether or not they may read it."""
    row = await find_instance(tx.connection, tx.org_id, instance_id)
    if row is None or not tx.caller.sees(row["partition_id"]):
        raise Refused(Rejection("NOT_FOUND", f"no instance {instance_id}", ("instance_id",)))
    return row


async def read_instance(tx: Transaction, instance_id: UUID) -> Row:
    """Return an instance that the caller may read; raise `Refused` for every other."""
    row = await find_visible_instance(tx, instance_id)
    await may_read_instance(tx.core, tx.connection, SeenInstance.of(row), tx.actor)
    return row


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
    entity_id: UUID | None = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[InstanceSummary]]:
    """The instances that the caller may read. `active` and `suspended` mean `running` and `paused`.

    `subject` is the user who started it.
    """
    statuses = [_STATUSES.get(word, word) for word in status] if status else None
    filters = InstanceFilter(statuses, workflow, subject, entity_id, tx.partition_id)
    after = position_of(cursor, id_in)
    filters = replace(filters, reader=await tx.reader())
    rows = await list_instances(tx.connection, tx.org_id, filters, after, limit + 1)
    return page_of(rows, limit, InstanceSummary.of, lambda row: str(row["id"]))


@router.query(
    "/api/instances/{instance_id}", scope="workflows:read", errors=(404, 409), summary="See an instance"
)
async def show_instance(tx: Transaction, instance_id: UUID) -> Descriptor:
    """Its state, its history and what the caller can do: forms and events only where the caller may answer."""
    row = await read_instance(tx, instance_id)
    found = await describe(tx.core, tx.connection, tx.org_id, instance_id, tx.actor)
    assert found is not None, "both reads see one snapshot"
    return Descriptor.of_description(row, found)


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
    after = position_of(cursor, time_and_id_in)
    await read_instance(tx, instance_id)
    rows = await list_steps(tx.connection, tx.org_id, instance_id, after, limit + 1)
    return page_of(
        rows, limit, TimelineStep.of_row, lambda row: (row["created_at"].isoformat(), str(row["id"]))
    )


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
