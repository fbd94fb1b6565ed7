"""Instances of workflows as JSON."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from assent.http.texts import Body, Data, ShortText, Text
from assent.runtime.description import Description, WaitingPlace
from assent.runtime.view import InstanceView, Waiting
from assent.store.rows import Row

_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


class AdvanceBody(Body):
    """An answer to a step."""

    event: ShortText = Field(examples=["approved"])
    input: Data = Field(default={}, examples=[{"approval_notes": "Looks good"}])
    step: ShortText | None = Field(
        None, description="Which step is meant, where several wait.", examples=["review"]
    )


class ReasonBody(Body):
    reason: Text = Field("", examples=["The customer changed their mind"])


class RetryBody(Body):
    step: ShortText | None = Field(
        None, description="Which failed step; all of them without.", examples=["process"]
    )


class StepBody(BaseModel):
    """A step that waits for somebody or something."""

    name: str = Field(examples=["review"])
    node_id: str
    kind: str = Field(examples=["approval"])
    step_id: UUID | None = None
    request_id: UUID | None = Field(None, description="The approval request, where one is asked.")
    asked: list[str] = Field([], description="Who is asked now.", examples=[["bob"]])
    due_at: datetime | None = None


class PossibleStep(StepBody):
    """The same, with what the caller could do about it."""

    label: str | None = None
    events: list[str] = Field(
        [], description="What the caller could answer.", examples=[["approved", "rejected"]]
    )
    form: Data = Field({}, description="The fields of the form, where the caller may fill it in.")


class TimelineStep(BaseModel):
    """Something that happened."""

    id: UUID
    at: datetime
    step: str = Field(examples=["review"])
    node_id: str
    kind: str = Field(examples=["approval"])
    status: str = Field(examples=["completed"])
    outcome: str | None = Field(None, examples=["approved"])
    actor: str | None = Field(None, description="Who brought it about.", examples=["alice"])
    on_behalf_of: list[str] | None = Field(
        description="For whom, where the actor did not act for themselves.", examples=[["ann"]]
    )
    finished_by: str | None = Field(None, examples=["bob"])
    finished_at: datetime | None = None
    reason: str | None = None
    error: str | None = None


class InstanceBody(BaseModel):
    """An instance after a command."""

    id: UUID = Field(examples=[_ID])
    workflow_id: str = Field(examples=["orders.approval"])
    status: str = Field(examples=["running"])
    version: int
    entity_id: UUID | None = None
    entity_version: int = 0
    context: Data = Field(examples=[{"order_id": "ord-123"}])
    steps: list[StepBody]
    incident: dict[str, Any] | None = None
    expires_at: datetime | None = None

    @classmethod
    def of(cls, view: InstanceView) -> "InstanceBody":
        return cls(**_common(view), steps=[StepBody(**_step(waiting)) for waiting in view.waiting])


class InstanceSummary(BaseModel):
    """An instance in a list."""

    id: UUID = Field(examples=[_ID])
    workflow_id: str = Field(examples=["orders.approval"])
    status: str = Field(examples=["running"])
    version: int
    subject_id: str = Field(description="Who started it.", examples=["alice"])
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

    @classmethod
    def of(cls, row: Row) -> "InstanceSummary":
        return cls(**{name: row[name] for name in cls.model_fields})


class Descriptor(InstanceSummary):
    """An instance as the caller sees it."""

    name: str | None = None
    context: Data = Field(examples=[{"order_id": "ord-123"}])
    steps: list[PossibleStep]
    transitions: list[str] = Field(
        description="Of the entity, that the caller could make.", examples=[["cancel"]]
    )
    timeline: list[TimelineStep]

    @classmethod
    def of_description(cls, row: Row, found: Description) -> "Descriptor":
        return cls(
            **{name: row[name] for name in InstanceSummary.model_fields},
            name=found.name,
            context=dict(found.view.context),
            steps=[_possible(place) for place in found.places],
            transitions=list(found.transitions),
            timeline=[timeline_step(row, found.node_names.get(row["node_id"])) for row in found.timeline],
        )


def timeline_step(row: Row, name: str | None = None) -> TimelineStep:
    output = row["output_json"] or {}
    return TimelineStep(
        id=row["id"],
        at=row["created_at"],
        step=name or row["node_id"],
        node_id=row["node_id"],
        kind=row["node_type"],
        status=row["status"],
        outcome=output.get("outcome"),
        actor=row["actor_user_id"],
        on_behalf_of=output.get("on_behalf_of"),
        finished_by=_finished_by(output),
        finished_at=row["completed_at"],
        reason=output.get("reason") or None,
        error=row["error"],
    )


def _finished_by(output: Data) -> str | None:
    decisions = output.get("decisions") or [{}]
    found: str | None = output.get("by") or decisions[-1].get("by")
    return found


def _common(view: InstanceView) -> dict[str, Any]:
    return {
        "id": view.id,
        "workflow_id": view.workflow_id,
        "status": view.status,
        "version": view.version,
        "entity_id": view.entity_id,
        "entity_version": view.entity_version,
        "context": dict(view.context),
        "incident": view.incident,
        "expires_at": view.expires_at,
    }


def _step(waiting: Waiting) -> dict[str, Any]:
    return {
        "name": waiting.name,
        "node_id": waiting.node_id,
        "kind": waiting.kind,
        "step_id": waiting.step_id,
        "request_id": waiting.request_id,
        "asked": list(waiting.asked),
        "due_at": waiting.due_at,
    }


def _possible(place: WaitingPlace) -> PossibleStep:
    return PossibleStep(
        **_step(place.waiting), label=place.label, events=list(place.events), form=dict(place.form)
    )
