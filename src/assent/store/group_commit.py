"""Group commit: commands that arrive while transactions are running share the next one.

A command that arrives alone runs at once. A command that would have to wait for a lock runs in a transaction of its
own. A group whose transaction was rolled back is repeated command by command, so that no command fails for another.
Nothing is repeated unless the rollback is proved: `OutcomeUnknown` goes to every caller of the group.

Where `run_shared` is given, commands of several orgs share a transaction too, once a process runs as many as it has
lanes. A shared transaction that was rolled back is repeated org by org.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from assent.store.errors import OutcomeUnknown

T = TypeVar("T")
R = TypeVar("R")

LANES: Final = 2
"""Transactions of one org that run at once before further commands wait."""
SHARED_LANES: Final = 4
"""Transactions of one process that run at once before commands of different orgs wait, and share one."""
GROUP_MAX: Final = 50
WAIT_S_MAX: Final = 0.1
"""How long a command waits for a running transaction before a further one is begun: a slow function may hold it."""
APART_S: Final = 10.0
"""How long an org shares no transaction with others after it has broken one."""

RunGroup = Callable[[Sequence[T]], Awaitable[Sequence[R | Exception | None]]]
"""Runs commands of one org in one transaction without waiting for a lock: the result of each, or its refusal, or None
for a command that would have to wait. An error other than `OutcomeUnknown` means that nothing was changed."""
RunShared = Callable[[Mapping[str, Sequence[T]]], Awaitable[Sequence[R | Exception | None]]]
"""The same for commands of several orgs; the results are in the order of the orgs."""
RunAlone = Callable[[T], Awaitable[R]]
"""Runs one command in a transaction of its own, waiting for locks."""


@dataclass(slots=True, eq=False)
class _Waiting(Generic[T, R]):
    org_id: str
    command: T
    result: "asyncio.Future[R]"
    context: Context = field(default_factory=copy_context)
    """The caller's trace and log fields."""


@dataclass(slots=True)
class _Org(Generic[T, R]):
    running: int = 0
    waiting: "deque[_Waiting[T, R]]" = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class _Running:
    """A transaction that runs."""

    org_ids: Sequence[str]
    began_s: float = field(default_factory=time.monotonic)


class GroupCommit(Generic[T, R]):
    """The commands of one kind in one process."""

    def __init__(
        self,
        run_group: RunGroup[T, R],
        run_alone: RunAlone[T, R],
        run_shared: RunShared[T, R] | None = None,
    ) -> None:
        self._run_group = run_group
        self._run_alone = run_alone
        self._run_shared = run_shared
        self._orgs: dict[str, _Org[T, R]] = {}
        """Orgs with commands; those that have waited longest since their last turn come first."""
        self._running: set[_Running] = set()
        self._apart_until_s: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def set_apart(self, org_id: str) -> None:
        """Have an org share no transaction with others for a while: it has broken one, or needs long."""
        now_s = time.monotonic()
        past = [one for one, until_s in self._apart_until_s.items() if until_s <= now_s]
        for one in past:
            del self._apart_until_s[one]
        self._apart_until_s[org_id] = now_s + APART_S

    async def run(self, org_id: str, command: T) -> R:
        """Return a command's result: of its own transaction, or of one shared with others."""
        org = self._orgs.setdefault(org_id, _Org())
        if org.running >= LANES or (self._shares(org_id) and self._is_busy()):
            waiting: _Waiting[T, R] = _Waiting(org_id, command, asyncio.get_running_loop().create_future())
            org.waiting.append(waiting)
            asyncio.get_running_loop().call_later(WAIT_S_MAX, self._stop_waiting, waiting)
            return await waiting.result
        running = self._begin_transaction([org_id])
        try:
            (result,) = await self._run_group([command])
        finally:
            self._end_transaction(running)
        if isinstance(result, Exception):
            raise result
        return await self._run_alone(command) if result is None else result

    def _shares(self, org_id: str) -> bool:
        return self._run_shared is not None and self._apart_until_s.get(org_id, -1.0) <= time.monotonic()

    def _is_busy(self) -> bool:
        """Return whether all shared lanes are taken. What runs for long, such as a slow function, takes none."""
        if len(self._running) < SHARED_LANES:
            return False
        since_s = time.monotonic() - WAIT_S_MAX
        return sum(one.began_s > since_s for one in self._running) >= SHARED_LANES

    def _begin_transaction(self, org_ids: Sequence[str]) -> _Running:
        for org_id in org_ids:
            self._orgs[org_id].running += 1
        running = _Running(org_ids)
        self._running.add(running)
        return running

    def _end_transaction(self, ended: _Running) -> None:
        self._running.discard(ended)
        for org_id in ended.org_ids:
            self._orgs[org_id].running -= 1
        for org_id in ended.org_ids:
            org = self._orgs[org_id]
            if org.waiting and not self._shares(org_id):
                self._begin_group(self._take_of(org_id))
            elif not org.waiting and not org.running:
                del self._orgs[org_id]
        if self._run_shared is not None and not self._is_busy():
            self._begin_group(self._take_of_all())

    def _stop_waiting(self, waiting: _Waiting[T, R]) -> None:
        org = self._orgs.get(waiting.org_id)
        if org is None or waiting not in org.waiting:
            return
        if self._shares(waiting.org_id) and not self._is_busy():
            self._begin_group(self._take_of_all())  # what all lanes run takes long
        if waiting in org.waiting:
            self._begin_group(self._take_of(waiting.org_id))

    def _take_of(self, org_id: str) -> "list[_Waiting[T, R]]":
        waiting = self._orgs[org_id].waiting
        return [waiting.popleft() for _ in range(min(len(waiting), GROUP_MAX))]

    def _take_of_all(self) -> "list[_Waiting[T, R]]":
        """Take commands of the orgs that share, one of each in turn; who was taken goes to the end of the line."""
        able = deque(
            org_id
            for org_id, org in self._orgs.items()
            if org.waiting and org.running < LANES and self._shares(org_id)
        )
        taken: list[_Waiting[T, R]] = []
        while able and len(taken) < GROUP_MAX:
            org_id = able.popleft()
            org = self._orgs[org_id]
            taken.append(org.waiting.popleft())
            if org.waiting:
                able.append(org_id)
        for one in taken:
            self._orgs[one.org_id] = self._orgs.pop(one.org_id)
        return taken

    def _begin_group(self, taken: "Sequence[_Waiting[T, R]]") -> None:
        if not taken:
            return
        by_org: dict[str, list[_Waiting[T, R]]] = {}
        for waiting in taken:
            by_org.setdefault(waiting.org_id, []).append(waiting)
        running = self._begin_transaction(list(by_org))
        self._begin(self._answer_group(running, by_org), Context())

    async def _answer_group(self, running: _Running, taken: "Mapping[str, Sequence[_Waiting[T, R]]]") -> None:
        # Done: its caller was cancelled.
        left = {org_id: [one for one in some if not one.result.done()] for org_id, some in taken.items()}
        by_org = {org_id: some for org_id, some in left.items() if some}
        group = [waiting for some in by_org.values() for waiting in some]
        try:
            results = await self._try(
                {org_id: [one.command for one in some] for org_id, some in by_org.items()}
            )
        except BaseException:
            for waiting in group:
                waiting.result.cancel()
            raise
        finally:
            self._end_transaction(running)
        for waiting, result in zip(group, results, strict=True):
            if result is None:
                self._begin(self._answer_alone(waiting), waiting.context)
            else:
                _answer(waiting, result)

    async def _try(self, by_org: Mapping[str, Sequence[T]]) -> Sequence[R | Exception | None]:
        if len(by_org) > 1 and self._run_shared is not None:
            try:
                return await self._run_shared(by_org)
            except OutcomeUnknown as unknown:
                return [unknown.copy() for some in by_org.values() for _ in some]
            except Exception:  # noqa: S110 - each org is tried by itself, and hears its own error
                pass
        by_itself = await asyncio.gather(*map(self._try_group, by_org.values()))
        return [result for some in by_itself for result in some]

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
