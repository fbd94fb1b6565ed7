"""Where the functions of tasks run: in the worker, or elsewhere. The attempt stays with the worker.

An executor is one coroutine: to await it submits a call, to cancel it interrupts the function, and what the function
says on its way goes to the call's task. Lease, retries and outcome are no part of it.
"""

import asyncio
import contextvars
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from assent.jobs.job import Failed
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.context import TaskContext
from assent.tasks.outcomes import TaskError
from assent.tasks.task_type import Hook, TaskType


@dataclass(frozen=True, slots=True)
class TaskCall:
    """One call of a task's function, whose input was checked."""

    kind: TaskType
    hook: Hook
    claimed: ClaimedTask
    task: TaskContext
    arguments: Mapping[str, Any]
    error: TaskError | None
    """What `on_error` is called for."""


class Executor(Protocol):
    """Runs functions of tasks."""

    async def run(self, call: TaskCall) -> Any:
        """Return what the function returned, or raise what it raised; interrupt it when this is cancelled.

        Where it ran elsewhere, raise `FailedElsewhere` for what it raised there, and `NotStarted` where it could not
        be started.
        """


class FailedElsewhere(Exception):
    """The function raised an error in another process, where that was made a failure of the attempt."""

    def __init__(self, failed: Failed, *, is_expected: bool) -> None:
        super().__init__(failed.message)
        self.failed = failed
        self.is_expected = is_expected


class NotStarted(Exception):
    """The executor cannot be reached, and the function was not started: the task goes back, and no attempt counts."""


@dataclass
class LocalExecutor:
    """Runs functions in this process: in the event loop, or in a thread where one would block the others."""

    threads_max: int
    _threads: ThreadPoolExecutor | None = field(default=None, init=False)

    async def run(self, call: TaskCall) -> Any:
        if call.hook.is_async:
            return await call.hook.run(**call.arguments)
        function = partial(contextvars.copy_context().run, call.hook.run, **call.arguments)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.threads_max, thread_name_prefix="task")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function)
        except asyncio.CancelledError:
            call.task.interrupt()
            raise

    def close(self) -> None:
        """Let threads end that have nothing to do; those that run go on."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None
