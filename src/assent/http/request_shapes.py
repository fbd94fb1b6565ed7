"""Requests, and what came for them, as JSON."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from assent.model.outside_request import OutsideStatus
from assent.requests.push import Pushed
from assent.requests.views import DeliveryView, ItemView, RequestView


class RequestBody(BaseModel):
    """What was asked of an outside party."""

    id: UUID
    name: str = Field(
        description="The workflow and the node that asks.", examples=["kyc.onboarding.screening"]
    )
    instance_id: UUID
    step_id: UUID
    node_id: str
    entity_type: str | None
    entity_id: UUID | None
    status: OutsideStatus
    expected: int = Field(description="How many items make it complete.")
    received: int
    failed: int = Field(description="Items that failed or expired.")
    error: str | None = Field(description="The last that was told.")
    created_at: datetime
    expires_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, request: RequestView) -> "RequestBody":
        return cls(**{name: getattr(request, name) for name in cls.model_fields})


class DeliveryBody(BaseModel):
    """A bundle that came."""

    id: UUID
    key: str
    source: str = Field(examples=["callback"])
    pushed_by: str | None
    status: str = Field(examples=["processed"])
    late: bool = Field(description="It came when the request had ended, and counts for nothing.")
    attempts: int
    error: str | None
    received_at: datetime
    processed_at: datetime | None

    @classmethod
    def of(cls, delivery: DeliveryView) -> "DeliveryBody":
        return cls(**{name: getattr(delivery, name) for name in cls.model_fields})


class ItemBody(BaseModel):
    """One thing that came, or did not."""

    cargo: str | None = Field(examples=["external://vault/passport-17"])
    kind: str | None = Field(examples=["passport"])
    status: str = Field(examples=["completed"])
    error: str | None
    delivery_id: UUID
    received_at: datetime

    @classmethod
    def of(cls, item: ItemView) -> "ItemBody":
        return cls(**{name: getattr(item, name) for name in cls.model_fields})


class WholeRequest(RequestBody):
    """A request with what was asked, and the latest of what came."""

    asked: Any = Field(description="What went out, as it was.")
    deliveries: list[DeliveryBody]
    items: list[ItemBody]


class PushedBody(BaseModel):
    """What became of a result."""

    request_id: UUID
    key: str = Field(examples=["evt_17"])
    outcome: Pushed = Field(
        description="`accepted`; `repeated`: its key was taken before, nothing happens; `late`: the request has ended."
    )
