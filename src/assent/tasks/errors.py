"""What a task's function raises to say how it goes on, the codes of attempts that failed, and which are tried again."""

import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID

import asyncpg

from assent.model.problems import clean_error_text
from assent.model.timing import require_duration
from assent.store.errors import StoreError
from assent.store.failures import is_lost, is_outage

if TYPE_CHECKING:
    from assent.tasks.outcomes import TaskError

FAILED: Final = "TASK_FAILED"
GAVE_UP: Final = "TASK_GAVE_UP"
TIMED_OUT: Final = "TASK_TIMED_OUT"
LOST: Final = "TASK_LOST"
"""Its worker was lost; `rescue_jobs` writes the same code."""
CANCELLED: Final = "TASK_CANCELLED"
EXPIRED: Final = "TASK_EXPIRED"
"""Its time in the background was over; `expire_background_tasks` writes the same code."""
MISUSED: Final = "TASK_MISUSED"
"""Its function returned what does not fit what it did."""
SUBTASK_FAILED: Final = "SUBTASK_FAILED"

STACK_TRACE_CHARACTERS_MAX: Final = 8_000

RetryOn = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]
"""Which errors are tried again: a type, several, or a function that says so of an error."""


class Retry(Exception):
    """Try again later, after a while where one is given. It counts as an attempt, as any other exception does."""

    def __init__(
        self, message: str = "it asked to be tried again", *, after: str | timedelta | None = None
    ) -> None:
        super().__init__(message)
        self.after = None if after is None else require_duration(after)


class GiveUp(Exception):
    """Trying again cannot help: the task is dead at once."""


class TaskFailed(Exception):
    """A task whose result was awaited is dead or was cancelled; the error says why."""

    def __init__(self, task_id: UUID, type: str, status: str, error: "TaskError") -> None:
        super().__init__(f"task {task_id} ({type}) is {status}: {error.code}: {error.message}")
        self.task_id = task_id
        self.type = type
        self.status = status
        """`dead` or `cancelled`."""
        self.error = error


class ClaimLost(Exception):
    """The task is not this worker's any more: it was cancelled, or the worker's lease expired. Write nothing."""


def is_transient(error: BaseException) -> bool:
    """Return whether an error is one of I/O or a timeout (a file, a network, a database): it need not happen again."""
    httpx = sys.modules.get("httpx")
    if httpx is not None and isinstance(error, httpx.TransportError):
        return True
    if isinstance(error, asyncpg.PostgresError):
        return is_outage(error) or is_lost(error)
    return isinstance(error, OSError | EOFError | StoreError)


def is_retried(error: BaseException, retry_on: RetryOn) -> bool:
    """Return whether a task is tried again after an error."""
    if isinstance(retry_on, type | tuple):
        return isinstance(error, retry_on)
    return bool(retry_on(error))


def stack_trace_of(error: BaseException) -> str:
    """Return the stack trace of an error from the task's own function on, its end where it is too long."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None and _is_ours(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    return clean_error_text(text[-STACK_TRACE_CHARACTERS_MAX:], STACK_TRACE_CHARACTERS_MAX)


def _is_ours(file: str) -> bool:
    """Return whether a frame is of what calls the function: our own, and that of its thread."""
    return file.startswith("<frozen") or file.replace("\\", "/").endswith(_CALLERS)


_CALLERS: Final = (
    *("assent/tasks/attempt.py", "assent/tasks/executor.py", "assent/cluster/process.py"),
    *("concurrent/futures/thread.py", "asyncio/timeouts.py", "asyncio/runners.py", "asyncio/base_events.py"),
)
