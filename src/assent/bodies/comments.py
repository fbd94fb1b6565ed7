"""Bodies of comments and questions."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from assent.bodies.body import ResponseModel


class CommentBody(ResponseModel):
    """A comment on an entity, or a question of an approver with its answer."""

    id: UUID
    kind: Literal["comment", "question"]
    author_id: str = Field(examples=["bob"])
    text: str = Field(examples=["Is this the right cost center, @bea?"])
    mentions: list[str] = Field(description="The members that the text names, and who were notified.")
    entity_type: str | None
    entity_id: UUID | None
    entity_version: int = Field(description="The version that it was written at.")
    request_id: UUID | None = Field(description="The approval request of a question.")
    instance_id: UUID | None
    asks: str | None = Field(description="The member who is to answer a question.", examples=["ann"])
    status: Literal["open", "answered", "closed"] | None = Field(
        description="Of a question; `closed` if its request ended without an answer."
    )
    answer: str | None
    answered_at: datetime | None
    closed_at: datetime | None
    created_at: datetime
