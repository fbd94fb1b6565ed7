"""A step: one execution of one node by one token. Steps are the truth; everything else is folded from them."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.model.nodes import KINDS

StepStatus = Literal["pending", "running", "completed", "failed", "skipped", "cancelled"]
RunAs = Literal["actor", "system", "service_account"]

CONTROL: Final = "control"
"""The node type of steps that act on the instance itself: pause, resume, move, cancel (D8, D25)."""

BRANCHING_KINDS: Final = frozenset(kind for kind, declared in KINDS.items() if declared.branches)
"""Steps whose output must name the edges that they chose."""


@dataclass(slots=True)
class Step:
    """A row to be of `workflow_step_executions`, or the end of one that is there already."""

    org_id: str
    instance_id: UUID
    id: UUID
    created_at: datetime
    node_id: str
    node_type: str
    token_id: str
    entity_version: int
    key: str
    status: StepStatus
    actor_id: str
    run_as: RunAs = "actor"
    input: Any = None
    output: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    completed_at: datetime | None = None
    resume_at: datetime | None = None
    event_key: str | None = None
    request_id: UUID | None = None
    """The approval request of the step; its own table is the authority."""
    snapshot_version_id: UUID | None = None
    is_new: bool = True
    """Whether the row is inserted; else the open step with this id is ended."""
    receipted: bool = False
    """Whether its receipt was taken before it ran; steps that nothing runs get theirs when they are written."""
