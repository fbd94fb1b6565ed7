"""What a task's function raises to say how it goes on, and the codes of attempts that failed."""

from datetime import timedelta
from typing import Final

from assent.model.timing import require_duration

FAILED: Final = "TASK_FAILED"
GAVE_UP: Final = "TASK_GAVE_UP"
TIMED_OUT: Final = "TASK_TIMED_OUT"
LOST: Final = "TASK_LOST"
"""Its worker was lost; `rescue_jobs` writes the same code."""
CANCELLED: Final = "TASK_CANCELLED"


class Retry(Exception):
    """Try again later, after a while where one is given. It counts as an attempt, as any other exception does."""

    def __init__(
        self, message: str = "it asked to be tried again", *, after: str | timedelta | None = None
    ) -> None:
        super().__init__(message)
        self.after = None if after is None else require_duration(after)


class GiveUp(Exception):
    """Trying again cannot help: the task is dead at once."""


class ClaimLost(Exception):
    """The task is not this worker's any more: it was cancelled, or the worker's lease expired. Write nothing."""
