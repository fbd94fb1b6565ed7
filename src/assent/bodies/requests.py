"""Bodies of requests to outside parties, of what came for them, and of sources of signed events."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from assent.bodies.body import ResponseModel
from assent.model.outside_request import OutsideStatus
from assent.requests.outside_requests import Pushed
from assent.runtime.event_commands import RequestDetails


class OutsideRequestBody(ResponseModel):
    """A request to an outside party."""

    id: UUID
    name: str = Field(
        description="The workflow and the node of the request.", examples=["kyc.onboarding.screening"]
    )
    instance_id: UUID | None = Field(description="None where documents of a subject alone were asked for.")
    step_id: UUID | None = Field(description="The step that waits; none where a person asked.")
    node_id: str | None
    entity_type: str | None
    entity_id: UUID | None
    status: OutsideStatus
    expected: int = Field(description="The number of items that complete it.")
    received: int
    failed: int = Field(description="The number of items that failed or expired.")
    error: str | None = Field(description="The last error.")
    created_at: datetime
    expires_at: datetime | None
    ended_at: datetime | None


class UploadLinkBody(ResponseModel):
    """A link by which an outside party hands in what a request asks for, without an account."""

    id: UUID
    url: str = Field(examples=["https://assent.example.com/uploads/…"])
    expires_at: datetime


class RevokedLinksBody(ResponseModel):
    """How many links lead nowhere any more."""

    revoked: int


class DeliveryBody(ResponseModel):
    """A bundle of results that arrived."""

    id: UUID
    key: str
    source: str = Field(examples=["callback"])
    pushed_by: str | None
    status: str = Field(examples=["processed"])
    late: bool = Field(
        description="It arrived after the end of the request: only documents that were still missing count."
    )
    attempts: int
    error: str | None
    received_at: datetime
    processed_at: datetime | None


class ItemBody(ResponseModel):
    """One item that arrived or failed."""

    cargo: str | None = Field(examples=["external://vault/passport-17"])
    kind: str | None = Field(examples=["passport"])
    status: str = Field(examples=["completed"])
    error: str | None
    delivery_id: UUID
    received_at: datetime


class OutsideRequestDetails(OutsideRequestBody):
    """A request with its content and its latest results."""

    asked: Any = Field(description="The content that was sent.")
    deliveries: list[DeliveryBody]
    items: list[ItemBody]

    @classmethod
    def of_details(cls, details: RequestDetails) -> "OutsideRequestDetails":
        """Return the body of a request with what came for it."""
        return cls(
            **OutsideRequestBody.of(details.request).model_dump(),
            asked=details.asked,
            deliveries=[DeliveryBody.of(delivery) for delivery in details.deliveries],
            items=[ItemBody.of(item) for item in details.items],
        )


class PushedBody(ResponseModel):
    """The effect of a result."""

    request_id: UUID
    key: str = Field(examples=["evt_17"])
    outcome: Pushed = Field(
        description="`accepted`; `repeated`: its key was used before, nothing happens; `late`: the request has ended."
    )


class SourceBody(ResponseModel):
    """A source of events, without its secrets."""

    name: str = Field(examples=["bank"])
    key_prefix: str = Field(examples=["payment:"])
    created_by: str
    created_at: datetime
    rotated_at: datetime | None
    two_secrets: bool = Field(description="Whether the previous secret is still valid.")


class SourceWithSecret(SourceBody):
    secret: str = Field(description="It is never shown again.")
