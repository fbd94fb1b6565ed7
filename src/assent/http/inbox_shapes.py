"""What waits for somebody, as JSON."""

from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

from assent.people.inbox import Bucket, Count, InboxCounts, InboxItem


class InboxItemBody(BaseModel):
    """One thing that waits for the caller: an approval or a form."""

    kind: Literal["approval", "form"]
    request_id: UUID = Field(description="The approval request, or the step of the form.")
    bucket: Bucket = Field(description="Asked themselves, by a role of theirs, or in somebody's place.")
    on_behalf_of: str | None = Field(description="Whose seat it is, when it is not the caller's own.")
    seat_id: UUID
    group: str
    via: str = Field(examples=["role:approver"])
    workflow: str = Field(examples=["orders.approval"])
    instance_id: UUID
    node_id: str
    node_name: str = Field(examples=["review"])
    entity_type: str | None
    entity_id: UUID | None
    version: int = Field(description="The version that the question is about.")
    state: str | None = Field(description="Where the entity stands now.")
    title: str | None
    figure: Decimal | None
    requested_by: str
    asked_at: datetime
    due_at: datetime | None
    overdue: bool
    claimed_by: str | None

    @classmethod
    def of(cls, item: InboxItem) -> "InboxItemBody":
        return cls(**{name: getattr(item, name) for name in cls.model_fields})


class CountBody(BaseModel):
    open: int
    overdue: int

    @classmethod
    def of(cls, count: Count) -> "CountBody":
        return cls(open=count.open, overdue=count.overdue)


class InboxCountsBody(BaseModel):
    """How much waits, by how it came to the caller."""

    mine: CountBody
    roles: CountBody
    delegated: CountBody

    @classmethod
    def of(cls, counts: InboxCounts) -> "InboxCountsBody":
        return cls(**{name: CountBody.of(getattr(counts, name)) for name in cls.model_fields})
