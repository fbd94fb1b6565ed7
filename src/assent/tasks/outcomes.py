"""What a task's function returns to say how its attempt ended; any other value is the output of a task that is done."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from assent.jobs.job import JobStatus, Suspended
from assent.model.timing import require_duration
from assent.tasks.submit import Submission


@dataclass(frozen=True, slots=True)
class Complete:
    """The task is done; the same as returning the output."""

    output: Any = None


@dataclass(frozen=True, slots=True)
class Blocked:
    """Wait for the subtasks that this attempt made: the task goes on once, when all of them have ended."""


@dataclass(frozen=True, slots=True)
class Background:
    """The work goes on outside of the workers, until it is completed or failed from there, or its time is over."""

    reason: str
    timeout: str | timedelta

    @property
    def length(self) -> timedelta:
        """How long it may take; raise `Invalid` for what is no duration."""
        return require_duration(self.timeout)


@dataclass(frozen=True, slots=True)
class BlockedBySubtasks(Suspended):
    """An attempt that ended with subtasks to be submitted, in the transaction that blocks its task."""

    subtasks: tuple[Submission, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class TaskError:
    """Why a task, or an attempt at it, failed."""

    code: str
    message: str
    type: str | None = None
    """The type of the exception, where there was one."""
    stack_trace: str | None = None
    retryable: bool = False
    """Whether a further attempt could have helped."""
    subtask_id: UUID | None = None
    """The subtask that failed, where the error is one of a subtask."""


@dataclass(frozen=True, slots=True)
class Subtask:
    """A subtask as its parent sees it once all of them have ended."""

    id: UUID
    type: str
    status: JobStatus
    output: Any = None
    error: TaskError | None = None
    """Of one that is dead or was cancelled."""
