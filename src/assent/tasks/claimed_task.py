"""A task that a worker has claimed, with everything that is needed to run it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from assent.model.jobs import JobKey


@dataclass(frozen=True, slots=True)
class ClaimedTask:
    """The order of the fields is that of `claim_tasks`."""

    org_id: str
    id: UUID
    type: str
    attempt: int
    """Which one this is; counted when it began."""
    attempts_max: int
    input: Mapping[str, Any]
    submitted_by: str
    partition_id: str | None
    instance_id: UUID | None
    step_id: UUID | None
    awaited: bool
    trace_id: str | None
    created_at: datetime
    losses: int = 0
    """Of a suspect: how many workers were lost while they had it."""

    @property
    def job(self) -> JobKey:
        return self.org_id, self.id, self.attempt
