"""Bodies of instances and their steps, of approvals, of the inbox, and of entities."""

from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import Field

from assent.approvals.requests import ApprovalDetails
from assent.bodies.body import Data, ResponseModel
from assent.model.contract import EditWindow
from assent.people.inbox import Bucket
from assent.runtime.readers import Description, InstanceDetails, WaitingPlace
from assent.runtime.views import StepItem
from assent.store.rows import Row

_ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
_DATA: Final = {"number": "2026-17", "grand_total": 120000}


class StepBody(ResponseModel):
    """A step that waits."""

    name: str = Field(examples=["review"])
    node_id: str
    kind: str = Field(examples=["approval"])
    step_id: UUID | None = None
    request_id: UUID | None = Field(None, description="The approval request, if there is one.")
    asked: list[str] = Field([], description="The users who are asked now.", examples=[["bob"]])
    since: datetime | None = Field(None, description="When it began to wait.")
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
        return cls.of(StepItem.of(row, name))


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
        return cls.of_details(InstanceDetails.of(row, found))

    @classmethod
    def of_details(cls, details: InstanceDetails) -> "Descriptor":
        """Return the body of an instance as the caller sees it."""
        return cls(
            **InstanceSummary.of(details.instance).model_dump(),
            name=details.name,
            context=dict(details.context),
            steps=[PossibleStep.at(place) for place in details.waiting],
            transitions=list(details.transitions),
            timeline=[TimelineStep.of(step) for step in details.timeline],
        )


class GroupBody(ResponseModel):
    """How many seats of a group must approve."""

    name: str
    mode: str = Field(examples=["any"])
    needed: int
    stage: int = 0


class SeatBody(ResponseModel):
    """One user who is, was or will be asked."""

    id: UUID
    user_id: str = Field(examples=["bob"])
    group: str
    via: str = Field(examples=["role:approver"])
    status: str = Field(examples=["open"])
    note: str | None = None


class DecisionBody(ResponseModel):
    """The answer of one approver."""

    id: UUID
    seat_id: UUID
    approver_id: str
    on_behalf_of: str | None = None
    answer: str = Field(examples=["approved"])
    outcome: str | None = None
    reason: str | None = None
    decided_at: datetime


class ApprovalBody(ResponseModel):
    """A request for approval: its exact content, its approvers and its state."""

    id: UUID
    instance_id: UUID
    node_id: str
    status: str = Field(examples=["pending"])
    reason: str | None = Field(None, description="The reason of its end.")
    mode: str = Field(examples=["any"])
    title: str | None = None
    figure: Decimal | None = None
    requested_by: str
    created_at: datetime
    due_at: datetime | None = None
    decided_at: datetime | None = None
    applied_at: datetime | None = Field(None, description="When a gate used the approval.")
    claimed_by: str | None = None
    entity_type: str | None = None
    entity_id: UUID | None = None
    entity_version: int = Field(0, description="The one version that is to be approved.")
    snapshot: Data | None = Field(None, description="The content of that version.")
    snapshot_state: str | None = None
    groups: list[GroupBody]
    seats: list[SeatBody]
    decisions: list[DecisionBody]

    @classmethod
    def of_details(cls, details: ApprovalDetails) -> "ApprovalBody":
        """Return the body of a request with the content of its version."""
        found = cls.of(details.request)
        snapshot = dict(details.snapshot) if details.snapshot is not None else None
        return found.model_copy(update={"snapshot": snapshot, "snapshot_state": details.state})


class DecidedBody(ResponseModel):
    """A request after a command, and its instance."""

    request: ApprovalBody
    instance: InstanceBody | None = Field(None, description="If the caller may read it.")


class InboxItemBody(ResponseModel):
    """An approval or a form that waits for the caller."""

    kind: Literal["approval", "form"]
    request_id: UUID = Field(description="The approval request, or the step of the form.")
    bucket: Bucket = Field(description="The caller's own, one of their roles', or a delegator's.")
    on_behalf_of: str | None = Field(description="The user of the seat, if it is not the caller's own.")
    seat_id: UUID
    group: str
    via: str = Field(examples=["role:approver"])
    workflow: str = Field(examples=["orders.approval"])
    instance_id: UUID
    node_id: str
    node_name: str = Field(examples=["review"])
    entity_type: str | None
    entity_id: UUID | None
    version: int = Field(description="The version that is to be approved.")
    state: str | None = Field(description="The current state of the entity.")
    title: str | None
    figure: Decimal | None
    requested_by: str
    asked_at: datetime
    due_at: datetime | None
    overdue: bool
    claimed_by: str | None


class CountBody(ResponseModel):
    open: int
    overdue: int


class InboxCountsBody(ResponseModel):
    """The number of items in each part of the inbox."""

    mine: CountBody
    roles: CountBody
    delegated: CountBody


class EntityBody(ResponseModel):
    """An entity at its current version."""

    id: UUID = Field(examples=[_ID])
    type: str = Field(examples=["invoice"])
    state: str = Field(examples=["draft"])
    version: int
    data: Data = Field(examples=[_DATA])
    edit_window: EditWindow = Field(description="The effect of an edit now.")
    contract_version: int
    partition_id: str | None = None
    instance_id: UUID | None = Field(
        None, description="Its workflow instance, also one that is about to start."
    )
    amended_from_id: UUID | None = None
    created_at: datetime
    updated_at: datetime


class TransitionBody(ResponseModel):
    """An entity after a transition was requested, and the instance that makes it."""

    entity: EntityBody
    instance: InstanceBody | None = None
