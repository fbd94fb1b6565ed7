"""What goes between a worker and the process that runs a function on a node: JSON, which both sides check."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import TypeAdapter

from assent.jobs.job import Failed
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.notes import LogLevel
from assent.tasks.outcomes import TaskError

HookName = Literal["on_start", "on_resume", "on_error"]


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """One call of a task's function."""

    place: str
    """Where the task is declared: `shop.reports:build`."""
    hook: HookName
    claimed: ClaimedTask
    error: TaskError | None


@dataclass(frozen=True, slots=True)
class MadeSubtask:
    """A subtask that the function has made, still to be checked and submitted."""

    id: UUID
    type: str
    input: Any
    priority: int | None


@dataclass(frozen=True, slots=True)
class RemoteEnd:
    """How a call ended."""

    kind: Literal["complete", "blocked", "background", "failed"]
    output: Any = None
    reason: str = ""
    """Why it goes on in the background."""
    timeout: timedelta | None = None
    subtasks: tuple[MadeSubtask, ...] = ()
    failed: Failed | None = None
    raised: bool = False
    """Whether the failure is that of an exception."""
    is_expected: bool = True
    """Whether the failure is no error to be reported."""


@dataclass(frozen=True, slots=True)
class RemoteNotes:
    """What a function has said since it was last sent."""

    progress: tuple[float, str] | None = None
    lines: tuple[tuple[LogLevel, str], ...] = field(default=())


CALL: Final = TypeAdapter(RemoteCall)
END: Final = TypeAdapter(RemoteEnd)
NOTES: Final = TypeAdapter(RemoteNotes)


def lost(message: str) -> RemoteEnd:
    """Return the end of a call whose process or node was lost."""
    return RemoteEnd("failed", failed=Failed("TASK_LOST", message), raised=True)
