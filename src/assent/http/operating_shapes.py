"""How it goes, as JSON: queues, latency, what stands still, what was given up."""

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, Field

from assent.http.texts import Body, Text
from assent.operations.dead_letters import DeadLetter, LetterKind
from assent.operations.health import Health
from assent.operations.stuck import StuckInstance


class Why(Body):
    reason: Text = Field(min_length=1, examples=["The vendor is gone for good"])


class QueueBody(BaseModel):
    name: str = Field(examples=["events"])
    pending: int = Field(description="What is due.")
    delayed: int = Field(description="What waits for its time.")
    oldest_s: float = Field(description="How long the oldest has been due.")
    dead: int


class LatencyBody(BaseModel):
    """From an event's transaction to the end of its processing, in the last hour."""

    events: int
    p50_s: float | None
    p95_s: float | None


class DeadCount(BaseModel):
    queue: str = Field(examples=["effects"])
    kind: str = Field(examples=["webhook"])
    number: int
    recent: int


class StuckBody(BaseModel):
    """An instance that runs, and that nothing could ever move."""

    instance_id: UUID
    workflow_id: str = Field(examples=["orders.approval"])
    entity_type: str | None
    entity_id: UUID | None
    current_nodes: list[str]
    still_since: datetime

    @classmethod
    def of(cls, finding: StuckInstance) -> "StuckBody":
        return cls(**{name: getattr(finding, name) for name in cls.model_fields})


class StandingBody(BaseModel):
    """How it goes in the org."""

    healthy: bool
    at: datetime
    problems: list[str] = Field(description="What is wrong, in words.")
    queues: list[QueueBody]
    latency: LatencyBody
    stuck: list[StuckBody]
    dead_letters: list[DeadCount]

    @classmethod
    def of(cls, found: Health) -> "StandingBody":
        return cls.model_validate(found.to_json())


class LetterBody(BaseModel):
    """An event, an effect, a result or a task that was given up."""

    id: UUID
    kind: LetterKind
    what: str = Field(
        description="The type of an event or a task, the destination of an effect, the request of a result."
    )
    created_at: datetime
    instance_id: UUID | None
    attempts: int
    error: str | None
    awaited: bool = Field(
        description="Whether a step waited for it; then the instance is what is tried again."
    )
    trace_id: str | None

    @classmethod
    def of(cls, letter: DeadLetter) -> "LetterBody":
        return cls(**{name: getattr(letter, name) for name in cls.model_fields})


class RetriedBody(BaseModel):
    id: UUID
    kind: LetterKind


class RebuiltBody(BaseModel):
    instance_id: UUID
    changed: bool = Field(description="Whether the row was not what the steps make of it.")


class EnqueuedBody(BaseModel):
    instance_id: UUID
