"""One attempt at a task: its function is run, in a thread where it would block others, and its outcome written down."""

import asyncio
import contextvars
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from assent.jobs.job import AttemptResult, Failed, JobOutcome, Succeeded
from assent.model.parse import problems_of
from assent.model.problems import Invalid, error_text, typed_error_text
from assent.store.database import Database
from assent.store.errors import PoolBusy
from assent.store.pool import holding
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.context import TaskContext
from assent.tasks.errors import FAILED, GAVE_UP, LOST, TIMED_OUT, ClaimLost, GiveUp, Retry
from assent.tasks.settle import settle_if_claimed
from assent.tasks.task_type import TaskType, as_kept

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended."""

    outcome: JobOutcome
    written: bool = False
    """Whether it was written down already, in the transaction of the function's own rows."""
    error: Exception | None = None
    """The exception, where it was not expected."""


class _TookTooLong(Exception):
    """The time of the attempt was over; raised, so that what it wrote is rolled back."""


@dataclass
class Attempts:
    """What attempts are made with."""

    types: Mapping[str, TaskType]
    database: Database
    worker_id: UUID
    threads_max: int
    _threads: ThreadPoolExecutor | None = field(default=None, init=False)
    _turns: asyncio.Semaphore = field(init=False)
    """Transactions of tasks that may be open at a time: the rest of the pool is for the duties."""

    def __post_init__(self) -> None:
        self._turns = asyncio.Semaphore(self.database.settings.task_transactions_max)

    def close(self) -> None:
        """Let threads end that have nothing to do; those that run go on."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    async def make(self, claimed: ClaimedTask) -> Ended:
        # An attempt outlives the run of the duty that began it, and so do its connections.
        with holding(None):
            while True:
                try:
                    return await self._try(claimed)
                except PoolBusy as busy:
                    # Raised by a transaction that the function opened by itself. It is begun again, as after any
                    # error, and no attempt is counted; `pool_wait_timeout_ms` has passed meanwhile.
                    said = {"task": claimed.type, "task_id": str(claimed.id), "error": str(busy)}
                    _log.warning("task waits for a connection", extra=said)

    async def _try(self, claimed: ClaimedTask) -> Ended:
        try:
            return await self._make(self.types[claimed.type], claimed)
        except PoolBusy:
            raise
        except ClaimLost as lost:
            return Ended(Failed(LOST, error_text(lost)))
        except GiveUp as given_up:
            return Ended(Failed(GAVE_UP, error_text(given_up), permanent=True))
        except Retry as again:
            return Ended(Failed(FAILED, error_text(again), retry_after=again.after))
        except _TookTooLong as late:
            return Ended(Failed(TIMED_OUT, str(late)))
        except Exception as error:
            return Ended(Failed(FAILED, typed_error_text(error)), error=error)

    async def _make(self, kind: TaskType, claimed: ClaimedTask) -> Ended:
        async with AsyncExitStack() as open_until:
            task = TaskContext(claimed, self.worker_id, self.database, self._turns, open_until)
            try:
                arguments = kind.arguments(task, claimed.input)
            except ValidationError as error:
                return Ended(Failed("BAD_INPUT", error_text(Invalid(problems_of(error))), permanent=True))
            output = await self._run_in_time(kind, task, arguments)
            return await self._complete(task, claimed, Succeeded(result=as_kept(output, "output")))

    async def _run_in_time(self, kind: TaskType, task: TaskContext, arguments: dict[str, Any]) -> Any:
        if kind.timeout is None:
            return await self._run(kind, arguments)
        try:
            async with asyncio.timeout(kind.timeout.total_seconds()) as limit:
                task.limit = limit
                return await self._run(kind, arguments)
        except TimeoutError as error:
            if limit.expired():
                raise _TookTooLong(f"it took longer than {kind.timeout}") from error
            raise

    async def _run(self, kind: TaskType, arguments: dict[str, Any]) -> Any:
        if kind.is_async:
            return await kind.run(**arguments)
        call = partial(contextvars.copy_context().run, kind.run, **arguments)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.threads_max, thread_name_prefix="task")
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def _complete(self, task: TaskContext, claimed: ClaimedTask, outcome: Succeeded) -> Ended:
        """In the function's own transaction, if it has opened one: it commits when the attempt is left."""
        if task.connection is None:
            return Ended(outcome)
        result = AttemptResult(claimed, outcome, "done", output=outcome.result)
        await settle_if_claimed(task.connection, self.worker_id, [result])
        return Ended(outcome, written=True)
