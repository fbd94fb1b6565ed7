"""Bodies of health, dead letters, stuck instances, repairs, events, audit entries and tasks."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import AliasChoices, Field

from assent.bodies.body import Data, ResponseModel
from assent.operations.incidents import IncidentKind
from assent.operations.nodes import NodeStatus
from assent.operations.queues import LetterKind
from assent.tasks.views import TaskStatus

_ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"


class QueueBody(ResponseModel):
    name: str = Field(examples=["events"])
    pending: int = Field(description="Due now.")
    delayed: int = Field(description="Due later.")
    oldest_s: float = Field(description="The number of seconds since the oldest was due.")
    dead: int
    processing: int = Field(description="Claimed by a worker.")


class LatencyBody(ResponseModel):
    """From an event's transaction to the end of its processing, in the last hour."""

    events: int
    p50_s: float | None
    p95_s: float | None


class DeadCount(ResponseModel):
    queue: str = Field(examples=["effects"])
    kind: str = Field(examples=["webhook"])
    number: int
    recent: int


class StuckBody(ResponseModel):
    """A running instance that nothing will ever continue."""

    instance_id: UUID
    workflow_id: str = Field(examples=["orders.approval"])
    entity_type: str | None
    entity_id: UUID | None
    current_nodes: list[str]
    still_since: datetime


class FleetNodeBody(ResponseModel):
    """A process of a worker or a server."""

    id: UUID = Field(description="Of a worker: the `worker_id` of its jobs.")
    host: str = Field(examples=["worker-7f9c"])
    pid: int
    version: str = Field(description="Of Assent.")
    status: NodeStatus = Field(description="Lost: it has not said for a while that it runs.")
    serves: bool = Field(description="Whether it is an HTTP server.")
    duties: list[str] = Field(description="What it runs in the background.", examples=[["events", "tasks"]])
    task_types: list[str] = Field(examples=[["report.build"]])
    started_at: datetime
    seen_at: datetime


class IncidentTotal(ResponseModel):
    """How many instances of a definition an error paused, by its code."""

    code: str = Field(examples=["URL_MISSING"])
    definition: str = Field(examples=["orders.approval"])
    number: int
    oldest_at: datetime | None


class HealthReport(ResponseModel):
    """The health of the org."""

    healthy: bool = Field(validation_alias=AliasChoices("is_healthy", "healthy"))
    status: Literal["ok", "degraded"]
    at: datetime
    problems: list[str] = Field(description="The problems, as text.")
    queues: list[QueueBody]
    latency: LatencyBody
    stuck: list[StuckBody]
    dead_letters: list[DeadCount]
    incidents: list[IncidentTotal] = Field(description="Instances that an error paused.")


class IncidentGroupBody(ResponseModel):
    """Incidents of one kind with one code, at one node of one definition."""

    kind: IncidentKind
    code: str = Field(examples=["URL_MISSING"])
    definition: str | None = Field(examples=["orders.approval"])
    node: str | None = Field(examples=["tell"])
    number: int
    first_at: datetime
    last_at: datetime
    examples: list[UUID] = Field(description="The newest instances or dead letters of the group.")
    message: str | None = Field(description="The message of the newest.")


class WayOutBody(ResponseModel):
    """A command that helps an incident."""

    name: str = Field(examples=["retry"])
    command: str = Field(examples=[f"assent instances retry {_ID}"])
    route: str = Field(description="With POST.", examples=[f"/api/instances/{_ID}/retry"])


class IncidentBody(ResponseModel):
    """An instance that an error paused, or a dead letter, with the commands that help."""

    id: UUID = Field(description="The instance or the dead letter.")
    kind: IncidentKind
    code: str = Field(examples=["URL_MISSING"])
    message: str | None
    since: datetime
    what: str | None = Field(
        description="The type of an event or a task, the destination of an effect, the request of a result."
    )
    instance_id: UUID | None
    definition: str | None = Field(examples=["orders.approval"])
    definition_version: int | None
    node: str | None = Field(examples=["tell"])
    ways_out: list[WayOutBody]


class LetterBody(ResponseModel):
    """An event, an effect, a result or a task that is dead: all its attempts failed."""

    id: UUID
    kind: LetterKind
    what: str = Field(
        description="The type of an event or a task, the destination of an effect, the request of a result."
    )
    created_at: datetime
    instance_id: UUID | None
    attempts: int
    error: str | None
    awaited: bool = Field(description="Whether a step waited for it; then the instance is retried instead.")
    trace_id: str | None
    code: str | None = Field(description="The code of the last attempt.", examples=["ADDRESS_REFUSED"])
    ambiguous: bool = Field(description="Whether the last attempt may have had its effect all the same.")
    evidence: Any = Field(description="The answer of an effect's receiver to the last attempt.")


class RetriedBody(ResponseModel):
    id: UUID
    kind: LetterKind


class DiscardedBody(ResponseModel):
    id: UUID
    kind: LetterKind


class RebuiltBody(ResponseModel):
    instance_id: UUID
    changed: bool = Field(description="Whether the row differed from the state that its steps give.")


class DifferenceBody(ResponseModel):
    """One part of an instance that is not what its steps make it."""

    kept: Any
    rebuilt: Any


class ComparedBody(ResponseModel):
    """An instance compared with its steps."""

    instance_id: UUID
    differences: dict[str, DifferenceBody] = Field(
        description="By the name of the part; empty if there are none."
    )

    @classmethod
    def of_differences(cls, instance_id: UUID, found: Mapping[str, tuple[Any, Any]]) -> "ComparedBody":
        """Return the body of the parts that differ."""
        differences = {
            name: DifferenceBody(kept=kept, rebuilt=rebuilt) for name, (kept, rebuilt) in found.items()
        }
        return cls(instance_id=instance_id, differences=differences)


class EnqueuedBody(ResponseModel):
    instance_id: UUID


class EventBody(ResponseModel):
    key: str = Field(examples=["payment:2026-17"])
    new: bool = Field(description="False if an event of this cause was emitted before; then nothing happens.")


class OpenItemBody(ResponseModel):
    """What a worker has yet to do, or an event that is kept for a step that will wait."""

    queue: str
    id: UUID
    what: str
    status: str
    created_at: datetime
    instance_id: UUID | None
    event_key: str | None
    attempts: int
    retry_at: datetime | None
    error: str | None


class AuditBody(ResponseModel):
    """An audit entry: actor, action, time, origin and reason."""

    id: UUID
    at: datetime
    actor_id: str
    actor_kind: str
    actor_roles: list[str]
    on_behalf_of: list[str] | None = Field(
        description="The users that the actor acted for, such as the submitter after a timer; null for none.",
        examples=[["ann"]],
    )
    action: str = Field(examples=["invoice.update"])
    changes: dict[str, Any] = Field(description="Field → [before, after].")
    place: str | None
    reason: str | None
    channel: str = Field(examples=["http"])
    instance_id: UUID | None
    trace_id: str | None


class AuditEntryBody(AuditBody):
    """An entry of the org's audit log: a version of an entity, a command, or an administrative change."""

    entity_type: str | None = Field(examples=["invoice"])
    entity_id: UUID | None
    from_version: int | None
    to_version: int | None = Field(description="Null if it is not a version of an entity.")
    from_state: str | None
    to_state: str | None
    subject_kind: str | None = Field(
        description="The kind of its object, if that is not an entity: `instance`, `member`, `role`, …",
        examples=["instance"],
    )
    subject_id: str | None
    details: dict[str, Any] | None = Field(
        description="The input of the command, or more about the object.", examples=[{"event": "submit"}]
    )


class EntityAuditBody(AuditBody):
    """An audit entry of a change of an entity."""

    from_version: int | None
    to_version: int
    from_state: str | None
    to_state: str


class SubmittedBody(ResponseModel):
    id: UUID


class TaskItemBody(ResponseModel):
    """A task in a list."""

    id: UUID
    type: str = Field(examples=["report.build"])
    status: TaskStatus
    priority: int
    attempts: int
    attempts_max: int
    run_at: datetime = Field(description="Not before; after an error, the next attempt.")
    claimed_at: datetime | None = Field(description="When its last attempt began.")
    ended_at: datetime | None
    key: str | None
    submitted_by: str
    partition_id: str | None
    instance_id: UUID | None = Field(description="The instance of the step that submitted it.")
    step_id: UUID | None
    awaited: bool = Field(description="Whether that step waits for it.")
    parent_id: UUID | None = Field(description="Of a subtask: the task that waits for it.")
    created_at: datetime
    resources: list[str] = Field(description="What it uses, and may have to wait for.", examples=[["ollama"]])
    rate_key: str | None = Field(
        description="What its starts are counted under, where their rate is limited."
    )


class TaskNodeBody(TaskItemBody):
    """A task in a tree."""

    depth: int = Field(description="How many tasks of the tree are above it.")


class TaskTreeBody(ResponseModel):
    """A task with its subtasks, and theirs."""

    counts: dict[TaskStatus, int] = Field(
        description="How many there are of each status.", examples=[{"done": 3}]
    )
    tasks: list[TaskNodeBody] = Field(description="The first 1,000, each below its parent.")


class ResourceBody(ResponseModel):
    """What tasks use that can do only so much at a time."""

    name: str = Field(examples=["ollama"])
    max_concurrency: int | None = Field(description="How many tasks may run with it; null for any number.")
    running: int = Field(description="How many do, of all orgs.")
    waiting: int = Field(description="How many tasks of the org are due and wait.")
    declared_at: datetime = Field(description="When a worker declared it so.")


class AttemptBody(ResponseModel):
    """The result of one attempt."""

    attempt: int
    outcome: Literal["done", "blocked", "background", "failed", "lost"]
    output: Any
    code: str | None = Field(examples=["TASK_FAILED"])
    error: str | None
    started_at: datetime
    ended_at: datetime
    error_type: str | None = Field(description="The type of the exception.", examples=["TimeoutError"])
    stack_trace: str | None
    retryable: bool | None = Field(description="Of one that failed: whether a further attempt could help.")
    worker_id: UUID | None = Field(
        description="The id of the node that made it; null where the task was ended from outside."
    )


class ProgressBody(ResponseModel):
    """How far an attempt at a task is."""

    fraction: float = Field(description="From 0 to 1.", examples=[0.4])
    message: str = Field(examples=["page 12 of 30"])
    attempt: int
    at: datetime


class LogLineBody(ResponseModel):
    """A line that an attempt at a task wrote."""

    attempt: int
    position: int = Field(description="From 1, in the attempt.")
    level: Literal["debug", "info", "warning", "error"]
    message: str = Field(examples=["fetched 3 pages"])
    at: datetime


class TaskStateBody(ResponseModel):
    """How far a task is."""

    id: UUID
    status: TaskStatus
    attempts: int
    progress: ProgressBody | None = Field(description="How far its last attempt was, where it said so.")
    ended_at: datetime | None


class TaskBody(TaskItemBody):
    """A task with its input, its output and its attempts."""

    input: Data
    output: Any = Field(description="Its result; null before it is complete.")
    progress: ProgressBody | None = Field(description="How far its last attempt was, where it said so.")
    tried: list[AttemptBody]
