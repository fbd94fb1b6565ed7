"""A task that was submitted, as a program holds it: its result is awaited, in whatever process it runs."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from assent.model.timing import require_duration
from assent.tasks.ends import TaskEnds
from assent.tasks.errors import CANCELLED, TaskFailed
from assent.tasks.outcomes import TaskError
from assent.tasks.views import TaskStatus, TaskView

if TYPE_CHECKING:
    from assent.runtime.task_commands import TaskCommands

ENDED: Final = ("done", "cancelled", "dead")

Timeout = float | str | timedelta | None
"""A number of seconds, a duration such as `10m`, or None for as long as it takes."""


@dataclass(frozen=True, slots=True)
class SubmittedTask:
    """A task that was submitted: await its result, read its status, cancel it.

    archived = await acme.tasks.submit("invoice.archive", {"number": 7})
    await archived.result(timeout="30s")
    """

    id: UUID
    _tasks: "TaskCommands" = field(repr=False, compare=False)
    _ends: TaskEnds = field(repr=False, compare=False)

    async def status(self) -> TaskStatus:
        """Return the status of the task; raise `Refused` if it is not there, or not for the actor."""
        return (await self._tasks.get(self.id)).status

    async def result(self, timeout: Timeout = None) -> Any:  # noqa: ASYNC109 - what a caller looks for
        """Return what the task returned, once it is done.

        Raise `TaskFailed` with the error of a task that is dead or was cancelled, and `TimeoutError` where it has not
        ended in that time: it goes on. A task that was submitted in the caller's own transaction is not there before
        that has committed.
        """
        timeout_s = _seconds(timeout)
        try:
            async with asyncio.timeout(timeout_s):
                task = await self._tasks.get(self.id)
                while task.status not in ENDED:
                    async with self._ends.waiting(self._tasks.scope.org_id, self.id) as wait:
                        await wait.ended.wait()
                    task = await self._tasks.get(self.id)
        except TimeoutError:
            task = await self._tasks.get(self.id)
            if task.status not in ENDED:
                message = f"expected task {self.id} ({task.type}) to end within {timeout_s:g} s, found it {task.status}"
                raise TimeoutError(message) from None
        return _result(task)

    async def cancel(self) -> None:
        """Cancel the task with its subtasks; raise `Refused` if it has ended."""
        await self._tasks.cancel(self.id)


def _seconds(timeout: Timeout) -> float | None:
    if timeout is None or isinstance(timeout, int | float):
        return timeout
    return require_duration(timeout).total_seconds()


def _result(task: TaskView) -> Any:
    if task.status == "done":
        return task.output
    error = TaskError(CANCELLED, "it was cancelled")
    if task.status == "dead":
        last = task.tried[-1]
        kept = last.error_type, last.stack_trace, bool(last.retryable)
        error = TaskError(last.code or "UNKNOWN", last.error or "", *kept)
    raise TaskFailed(task.id, task.type, task.status, error)
