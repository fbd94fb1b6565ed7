"""Group commit: commands of one org that arrive while its transactions are running share the next one.

A command that arrives alone runs at once. A command that would have to wait for a lock runs in a transaction of its
own. A group whose transaction was rolled back is repeated command by command, so that no command fails for another.
Nothing is repeated unless the rollback is proved: `OutcomeUnknown` goes to every caller of the group.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from assent.store.errors import OutcomeUnknown

T = TypeVar("T")
R = TypeVar("R")

LANES: Final = 2
"""Transactions of one org that run at once before further commands wait."""
GROUP_MAX: Final = 50
WAIT_S_MAX: Final = 0.1
"""How long a command waits for a running transaction before a further one is begun: a slow function may hold it."""

RunGroup = Callable[[Sequence[T]], Awaitable[Sequence[R | Exception | None]]]
"""Runs commands in one transaction without waiting for a lock: the result of each, or its refusal, or None for a
command that would have to wait. An error other than `OutcomeUnknown` means that nothing was changed."""
RunAlone = Callable[[T], Awaitable[R]]
"""Runs one command in a transaction of its own, waiting for locks."""


@dataclass(slots=True, eq=False)
class _Waiting(Generic[T, R]):
    command: T
    result: "asyncio.Future[R]"
    context: Context = field(default_factory=copy_context)
    """The caller's trace and log fields."""


@dataclass(slots=True)
class _Org(Generic[T, R]):
    running: int = 0
    waiting: "deque[_Waiting[T, R]]" = field(default_factory=deque)


class GroupCommit(Generic[T, R]):
    """The commands of one kind in one process."""

    def __init__(self, run_group: RunGroup[T, R], run_alone: RunAlone[T, R]) -> None:
        self._run_group = run_group
        self._run_alone = run_alone
        self._orgs: dict[str, _Org[T, R]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, org_id: str, command: T) -> R:
        """Return a command's result: of its own transaction, or of one shared with others of the org."""
        org = self._orgs.setdefault(org_id, _Org())
        if org.running >= LANES:
            waiting: _Waiting[T, R] = _Waiting(command, asyncio.get_running_loop().create_future())
            org.waiting.append(waiting)
            asyncio.get_running_loop().call_later(WAIT_S_MAX, self._stop_waiting, org_id, org, waiting)
            return await waiting.result
        org.running += 1
        try:
            (result,) = await self._run_group([command])
        finally:
            self._end_transaction(org_id, org)
        if isinstance(result, Exception):
            raise result
        return await self._run_alone(command) if result is None else result

    def _end_transaction(self, org_id: str, org: _Org[T, R]) -> None:
        org.running -= 1
        if org.waiting:
            self._begin_group(org_id, org)
        elif not org.running:
            self._orgs.pop(org_id, None)

    def _stop_waiting(self, org_id: str, org: _Org[T, R], waiting: _Waiting[T, R]) -> None:
        if waiting in org.waiting:
            self._begin_group(org_id, org)

    def _begin_group(self, org_id: str, org: _Org[T, R]) -> None:
        org.running += 1
        taken = [org.waiting.popleft() for _ in range(min(len(org.waiting), GROUP_MAX))]
        group = [waiting for waiting in taken if not waiting.result.done()]  # done: its caller was cancelled
        self._begin(self._answer_group(org_id, org, group), Context())

    async def _answer_group(self, org_id: str, org: _Org[T, R], group: "list[_Waiting[T, R]]") -> None:
        try:
            results = await self._try_group([waiting.command for waiting in group])
        except BaseException:
            for waiting in group:
                waiting.result.cancel()
            raise
        finally:
            self._end_transaction(org_id, org)
        for waiting, result in zip(group, results, strict=True):
            if result is None:
                self._begin(self._answer_alone(waiting), waiting.context)
            else:
                _answer(waiting, result)

    async def _try_group(self, commands: Sequence[T]) -> Sequence[R | Exception | None]:
        try:
            return await self._run_group(commands) if commands else []
        except OutcomeUnknown as unknown:
            return [unknown.copy() for _ in commands]
        except Exception as error:
            return [error] if len(commands) == 1 else [None] * len(commands)

    async def _answer_alone(self, waiting: _Waiting[T, R]) -> None:
        try:
            result: R | Exception = await self._run_alone(waiting.command)
        except Exception as error:
            result = error
        _answer(waiting, result)

    def _begin(self, work: Any, context: Context) -> None:
        task = asyncio.get_running_loop().create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _answer(waiting: _Waiting[T, R], result: R | Exception) -> None:
    if waiting.result.done():
        return
    if isinstance(result, Exception):
        waiting.result.set_exception(result)
    else:
        waiting.result.set_result(result)
