"""The items of a batch: instances with their inputs, and where each input came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from assent.definitions import Definition, DefinitionRef
from assent.engine.inputs import Input
from assent.engine.run import Run
from assent.model.actor import BY_WORKFLOWS, Origin
from assent.model.mutation import Entity
from assent.store.rows import Row

BY_ITSELF: Final = Origin(BY_WORKFLOWS)


@dataclass(frozen=True, slots=True)
class NewInstance:
    """How an instance begins that is not there yet."""

    wanted: DefinitionRef
    subject_id: str
    entity_type: str | None = None
    entity_id: UUID | None = None
    partition_id: str | None = None
    idempotency_key: str | None = None
    request_hash: str | None = None
    """Of what is started under the key: the flow and its input."""


@dataclass(slots=True)
class BatchItem:
    """One instance, and its inputs."""

    org_id: str
    instance_id: UUID
    inputs: list[Input] = field(default_factory=list)
    birth: NewInstance | None = None
    command: Input | None = None
    """A caller's command: the last of the inputs, after everything that is pending for the instance (D18)."""
    events: dict[UUID, Mapping[str, Any]] = field(default_factory=dict)
    """Input id → the row of the outbox that it came from."""
    definition: Definition | None = None
    """What the instance runs from now on, when it is not what it is pinned to."""
    origin: Origin = BY_ITSELF
    """By which way the command came."""
    opened: Row | None = None
    """The row of `open_targets`, for a command: the instance and what was read of it with its lock."""
    trace: str | None = None
    """The trace that this is part of: the command's, else that of the first event which brings one."""

    @property
    def key(self) -> tuple[str, UUID]:
        return self.org_id, self.instance_id


@dataclass(slots=True)
class Execution:
    """A batch item that is being run."""

    work: BatchItem
    run: Run
    definition: Definition
    is_new: bool
    from_version: int
    context_before: Mapping[str, Any]
    status_before: str = "running"
    inserted: bool = False
    """Whether the row of a new instance is there already, because its entity's writes refer to it."""
    steps_receipted: int = 0
    """How many of the run's steps have their receipts."""
    entity_before: Entity | None = None
    """The instance's entity before its inputs."""
    asked: set[UUID] = field(default_factory=set)
    """The waiting steps for which kept events were looked for."""
    audit_id: UUID | None = None
    """The audit entry of its command, once that was taken."""
    traces: dict[UUID, str] = field(default_factory=dict)
    """Step → the trace of its own span, where it is traced."""
    took_s: dict[UUID, float] = field(default_factory=dict)
    """Step → how long its node took so far, and its need."""

    @property
    def origin(self) -> Origin:
        """Return the way in of the current input: that of the command, or the workflow's own."""
        command = self.work.command
        return self.work.origin if command is not None and command is self.run.current else BY_ITSELF

    def add_time(self, step_id: UUID, seconds: float) -> None:
        self.took_s[step_id] = self.took_s.get(step_id, 0) + seconds

    def trace_of(self, step_id: UUID) -> str | None:
        return self.traces.get(step_id, self.work.trace)
