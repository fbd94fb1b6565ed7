"""How an asynchronous command becomes one that blocks, with the same parameters and the same result."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar
from uuid import UUID

if TYPE_CHECKING:
    from assent.runtime.runtime import OrgRuntime
    from assent.runtime.submitted_task import SubmittedTask, Timeout
    from assent.tasks.views import TaskStatus

P = ParamSpec("P")
R = TypeVar("R")

RunCommand: TypeAlias = "Callable[[Callable[[OrgRuntime], Coroutine[Any, Any, Any]]], Any]"
"""Runs what a function begins on the commands of an org, and waits for its result."""


class SyncCommands:
    """The commands of one noun, each waiting for its result."""

    def __init__(self, run: RunCommand, noun: str) -> None:
        self._run = run
        self._noun = noun


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """Return a method that waits for what the asynchronous one returns."""

    @wraps(method)
    def command(commands: SyncCommands, /, *args: P.args, **kwargs: P.kwargs) -> R:
        noun = commands._noun
        result: R = commands._run(lambda org: method(getattr(org, noun), *args, **kwargs))
        return result

    return command


class SyncSubmittedTask:
    """A task that was submitted, for threads that block: wait for its result, read its status, cancel it."""

    def __init__(self, run: RunCommand, task: "SubmittedTask") -> None:
        self._run = run
        self._task = task

    @property
    def id(self) -> UUID:
        return self._task.id

    def status(self) -> "TaskStatus":
        """Return the status of the task."""
        status: TaskStatus = self._run(lambda _: self._task.status())
        return status

    def result(self, timeout: "Timeout" = None) -> Any:
        """Return what the task returned, once it is done; raise `TaskFailed`, or `TimeoutError`."""
        return self._run(lambda _: self._task.result(timeout))

    def cancel(self) -> None:
        """Cancel the task with its subtasks; raise `Refused` if it has ended."""
        self._run(lambda _: self._task.cancel())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SyncSubmittedTask) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


def blocking_submission(
    method: "Callable[Concatenate[Any, P], Coroutine[Any, Any, SubmittedTask]]",
) -> Callable[Concatenate[Any, P], SyncSubmittedTask]:
    """Return a method that submits, and returns the task for threads that block."""
    submit = blocking(method)

    @wraps(method)
    def command(commands: SyncCommands, /, *args: P.args, **kwargs: P.kwargs) -> SyncSubmittedTask:
        return SyncSubmittedTask(commands._run, submit(commands, *args, **kwargs))

    return command


def blocking_submissions(
    method: "Callable[Concatenate[Any, P], Coroutine[Any, Any, list[SubmittedTask]]]",
) -> Callable[Concatenate[Any, P], list[SyncSubmittedTask]]:
    """Return a method that submits several, and returns them for threads that block."""
    submit = blocking(method)

    @wraps(method)
    def command(commands: SyncCommands, /, *args: P.args, **kwargs: P.kwargs) -> list[SyncSubmittedTask]:
        return [SyncSubmittedTask(commands._run, task) for task in submit(commands, *args, **kwargs)]

    return command
