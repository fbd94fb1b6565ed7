"""Work that comes together: whoever arrives while others of the org are at work is carried out with all who wait.

Whoever comes alone is carried out at once. What fails together is carried out again one by one, so that nobody fails
for somebody else. What would have to wait for a lock is carried out alone, and keeps nobody else waiting.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

LANES: Final = 2
"""Transactions of one org that are under way at once before others have to wait for each other."""
TOGETHER_MAX: Final = 50
PATIENCE_S: Final = 0.1
"""How long those who wait do so before they go on beside whoever takes so long: somebody's slow function, say."""

Together = Callable[[Sequence[T]], Awaitable[Sequence[R | Exception | None]]]
"""Carries out some in one transaction and waits for no lock: the result of each, or its own refusal, or none for one
that would have to wait."""
Alone = Callable[[T], Awaitable[R]]
"""Carries out one, however long it has to wait."""


@dataclass(slots=True, eq=False)
class _Waiting(Generic[T, R]):
    asked: T
    answer: "asyncio.Future[R]"
    context: Context = field(default_factory=copy_context)
    """Whose trace and log lines it belongs to."""


@dataclass(slots=True)
class _Org(Generic[T, R]):
    under_way: int = 0
    waiting: "deque[_Waiting[T, R]]" = field(default_factory=deque)


class Gathering(Generic[T, R]):
    """One process's commands of one kind."""

    def __init__(self, together: Together[T, R], alone: Alone[T, R]) -> None:
        self._together = together
        self._alone = alone
        self._orgs: dict[str, _Org[T, R]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def carry_out(self, org_id: str, asked: T) -> R:
        """What becomes of it: by itself and now, unless others of the org are at work."""
        org = self._orgs.setdefault(org_id, _Org())
        if org.under_way >= LANES:
            mine: _Waiting[T, R] = _Waiting(asked, asyncio.get_running_loop().create_future())
            org.waiting.append(mine)
            asyncio.get_running_loop().call_later(PATIENCE_S, self._go_on_beside, org_id, org, mine)
            return await mine.answer
        org.under_way += 1
        try:
            (found,) = await self._together([asked])
        finally:
            self._leave(org_id, org)
        if isinstance(found, Exception):
            raise found
        return await self._alone(asked) if found is None else found

    def _leave(self, org_id: str, org: _Org[T, R]) -> None:
        org.under_way -= 1
        if org.waiting:
            self._begin_batch(org_id, org)
        elif not org.under_way:
            self._orgs.pop(org_id, None)

    def _go_on_beside(self, org_id: str, org: _Org[T, R], first: _Waiting[T, R]) -> None:
        if first in org.waiting:
            self._begin_batch(org_id, org)

    def _begin_batch(self, org_id: str, org: _Org[T, R]) -> None:
        org.under_way += 1
        taken = [org.waiting.popleft() for _ in range(min(len(org.waiting), TOGETHER_MAX))]
        batch = [one for one in taken if not one.answer.done()]  # who has gone meanwhile asks nothing
        self._begin(self._carry_out_batch(org_id, org, batch), Context())

    async def _carry_out_batch(self, org_id: str, org: _Org[T, R], batch: "list[_Waiting[T, R]]") -> None:
        try:
            found = await self._attempt([one.asked for one in batch])
        except BaseException:
            for one in batch:
                one.answer.cancel()
            raise
        finally:
            self._leave(org_id, org)
        for one, result in zip(batch, found, strict=True):
            if result is None:
                self._begin(self._answer_alone(one), one.context)
            elif not one.answer.done():
                _answer(one.answer, result)

    async def _attempt(self, asked: Sequence[T]) -> Sequence[R | Exception | None]:
        try:
            return await self._together(asked) if asked else []
        except Exception as error:
            return [error] if len(asked) == 1 else [None] * len(asked)

    async def _answer_alone(self, one: _Waiting[T, R]) -> None:
        try:
            result: R | Exception = await self._alone(one.asked)
        except Exception as error:
            result = error
        if not one.answer.done():
            _answer(one.answer, result)

    def _begin(self, work: Any, context: Context) -> None:
        task = asyncio.get_running_loop().create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _answer(answer: "asyncio.Future[R]", result: R | Exception) -> None:
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)
