"""Requests for approval as JSON."""

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from assent.approvals.requests import ApprovalDetails
from assent.http.texts import Body, Data, ShortText, Text
from assent.http.workflow_shapes import InstanceBody
from assent.model.approval import Decision, Seat


class DecideBody(Body):
    """An answer to a request."""

    answer: ShortText = Field(
        description="`approved`, `rejected`, `abstained`, or an outcome of the step's own.",
        examples=["approved"],
    )
    reason: Text | None = Field(None, examples=["Within budget"])
    on_behalf_of: ShortText | None = Field(None, description="Whom a delegate stands in for.")
    group: ShortText | None = Field(None, description="Which seat is meant, where somebody has several.")
    data: Data = Field(default={}, description="The fields of the step's form, where it has one.")


class ReassignBody(Body):
    """Somebody else is asked instead."""

    from_user: ShortText = Field(examples=["bob"])
    to_user: ShortText = Field(examples=["carol"])
    reason: Text | None = Field(None, examples=["On holiday"])


class GroupBody(BaseModel):
    """What is enough: so many of these seats."""

    name: str
    mode: str = Field(examples=["any"])
    needed: int
    stage: int = 0


class SeatBody(BaseModel):
    """One person who is asked, or was, or will be."""

    id: UUID
    user_id: str = Field(examples=["bob"])
    group: str
    via: str = Field(examples=["role:approver"])
    status: str = Field(examples=["open"])
    note: str | None = None

    @classmethod
    def of(cls, seat: Seat) -> "SeatBody":
        return cls(**{name: getattr(seat, name) for name in cls.model_fields})


class DecisionBody(BaseModel):
    """What somebody answered."""

    id: UUID
    seat_id: UUID
    approver_id: str
    on_behalf_of: str | None = None
    answer: str = Field(examples=["approved"])
    outcome: str | None = None
    reason: str | None = None
    decided_at: datetime

    @classmethod
    def of(cls, decision: Decision) -> "DecisionBody":
        return cls(**{name: getattr(decision, name) for name in cls.model_fields})


class ApprovalBody(BaseModel):
    """A request for approval: what exactly it asks about, of whom, and how it stands."""

    id: UUID
    instance_id: UUID
    node_id: str
    status: str = Field(examples=["pending"])
    reason: str | None = Field(None, description="Why it ended as it did.")
    mode: str = Field(examples=["any"])
    title: str | None = None
    figure: Decimal | None = None
    requested_by: str
    created_at: datetime
    due_at: datetime | None = None
    decided_at: datetime | None = None
    applied_at: datetime | None = Field(None, description="When a gate used it up.")
    claimed_by: str | None = None
    entity_type: str | None = None
    entity_id: UUID | None = None
    entity_version: int = Field(0, description="The version that is to be approved, and no other.")
    snapshot: Data | None = Field(None, description="The content of that version.")
    snapshot_state: str | None = None
    groups: list[GroupBody]
    seats: list[SeatBody]
    decisions: list[DecisionBody]

    @classmethod
    def of(cls, shown: ApprovalDetails) -> "ApprovalBody":
        request = shown.request
        lists: dict[str, Any] = {
            "groups": [GroupBody(**group.to_json()) for group in request.groups],
            "seats": [SeatBody.of(seat) for seat in request.seats],
            "decisions": [DecisionBody.of(decision) for decision in request.decisions],
            "snapshot": dict(shown.snapshot) if shown.snapshot is not None else None,
            "snapshot_state": shown.state,
        }
        own = {name: getattr(request, name) for name in cls.model_fields if name not in lists}
        return cls(**own, **lists)


class DecidedBody(BaseModel):
    """A request after somebody did something about it, and the instance that asks."""

    request: ApprovalBody
    instance: InstanceBody | None = Field(None, description="Where the caller may read it.")
