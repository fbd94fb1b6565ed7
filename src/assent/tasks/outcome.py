"""What became of an attempt at a task, and what follows from it. Pure.

completed                             → complete
failed, and may be tried again        → error, with the time of the next try
failed for good, or attempts used up  → dead
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal

from assent.model.backoff import backoff, jittered
from assent.tasks.claimed_task import ClaimedTask

ERROR_CHARACTERS_MAX: Final = 2_000

FAILED: Final = "TASK_FAILED"
GAVE_UP: Final = "TASK_GAVE_UP"
TIMED_OUT: Final = "TASK_TIMED_OUT"
LOST: Final = "TASK_LOST"
"""Its worker was taken for gone; so the database says too, in `rescue_tasks`."""
CANCELLED: Final = "TASK_CANCELLED"


@dataclass(frozen=True, slots=True)
class Completed:
    output: Any = None


@dataclass(frozen=True, slots=True)
class Failed:
    code: str
    message: str
    permanent: bool = False
    """Whether trying again can help nobody."""
    retry_after: timedelta | None = None
    """When the task wants to be tried again."""


Outcome = Completed | Failed
Status = Literal["complete", "error", "dead"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait after an attempt that failed: doubling from the one to the other."""

    shortest: timedelta = timedelta(seconds=1)
    longest: timedelta = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What is written down about an attempt."""

    task: ClaimedTask
    outcome: Outcome
    status: Status
    retry_after: timedelta | None = None
    """How long to wait before the next attempt, by the database's clock."""

    @property
    def has_ended(self) -> bool:
        return self.status != "error"


def next_state(task: ClaimedTask, outcome: Outcome, patience: RetryPolicy) -> TaskResult:
    """What is to be written down about this attempt."""
    if isinstance(outcome, Completed):
        return TaskResult(task, outcome, "complete")
    if outcome.permanent or task.attempt >= task.attempts_max:
        return TaskResult(task, outcome, "dead")
    wait = outcome.retry_after or jittered(backoff(task.attempt, patience.shortest, patience.longest))
    return TaskResult(task, outcome, "error", wait)


def text_of(error: BaseException) -> str:
    """What is kept of an error. PostgreSQL keeps no NUL and no half of a character, and errors may say anything."""
    text = str(error) or type(error).__name__
    return text.replace("\0", "�").encode("utf-8", errors="replace").decode()[:ERROR_CHARACTERS_MAX]
