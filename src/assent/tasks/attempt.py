"""One attempt at a task: an executor runs its function, and its outcome is written down."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from pydantic import ValidationError

from assent.jobs.job import Failed, JobKey, JobOutcome, RetryPolicy, Succeeded, Suspended, next_state
from assent.model.ids import new_id
from assent.model.job import PRIORITY_MAX
from assent.model.mutation import Refused, Rejection
from assent.model.parse import problems_of
from assent.model.problems import Invalid, clean_error_text, error_text, typed_error_text
from assent.store.database import Database
from assent.store.errors import PoolBusy
from assent.store.pool import holding
from assent.store.table_grants import advise_on_rights
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.context import TaskContext, people_of_attempt
from assent.tasks.errors import (
    FAILED,
    GAVE_UP,
    LOST,
    MISUSED,
    SUBTASK_FAILED,
    TIMED_OUT,
    ClaimLost,
    GiveUp,
    Retry,
    is_retried,
    stack_trace_of,
)
from assent.tasks.executor import Executor, FailedElsewhere, LocalExecutor, NotStarted, TaskCall
from assent.tasks.notes import Notes, news_of, write_news_if_claimed
from assent.tasks.outcomes import Background, Blocked, BlockedBySubtasks, Complete, TaskError
from assent.tasks.settle import settle_if_claimed
from assent.tasks.submit import Submission
from assent.tasks.task_type import Hook, TaskType, as_kept

ENDED: Final = ("done", "cancelled", "dead")

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


class _Returned(Exception):
    """The function returned a failure; raised, so that what it wrote is rolled back."""

    def __init__(self, outcome: Failed) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


@dataclass
class Attempts:
    """What attempts are made with."""

    types: Mapping[str, TaskType]
    database: Database
    worker_id: UUID
    threads_max: int
    cluster: Executor | None = None
    """What runs the functions of tasks of the cluster; a worker without it claims none of them."""
    notes: dict[JobKey, Notes] = field(default_factory=dict, init=False)
    """What attempts have said whose end is not written yet."""
    _local: LocalExecutor = field(init=False)
    _turns: asyncio.Semaphore = field(init=False)
    """Transactions of tasks that may be open at a time: the rest of the pool is for the duties."""

    def __post_init__(self) -> None:
        self._local = LocalExecutor(self.threads_max)
        self._turns = asyncio.Semaphore(self.database.settings.task_transactions_max)

    def close(self) -> None:
        """Let threads end that have nothing to do; those that run go on."""
        self._local.close()

    async def make(self, claimed: ClaimedTask) -> Ended:
        """Make an attempt, and return how it ended; raise `NotStarted` where its executor cannot be reached."""
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
        kind = self.types[claimed.type]
        try:
            return await self._make(kind, claimed)
        except (PoolBusy, NotStarted):
            raise
        except _Returned as returned:
            return Ended(returned.outcome)
        except FailedElsewhere as error:
            return Ended(error.failed, error=None if error.is_expected else error)
        except Exception as error:
            if not (expected := is_expected(error)):
                advise_on_rights(error)
            return Ended(failure_of(kind, error), error=None if expected else error)

    async def _make(self, kind: TaskType, claimed: ClaimedTask) -> Ended:
        if any(one.status not in ENDED for one in claimed.subtasks):
            return Ended(BlockedBySubtasks())  # one of them was retried meanwhile: it is waited for once more
        error = next((one.error for one in claimed.subtasks if one.error is not None), None)
        hook = _hook(kind, claimed, error)
        if hook is None:
            return Ended(_failure_of_subtask(claimed))
        async with AsyncExitStack() as open_until:
            make_subtask = partial(self._make_subtask, claimed)
            notes = self.notes.setdefault(claimed.job, Notes(claimed.job))
            task = TaskContext(
                claimed, self.worker_id, self.database, self._turns, open_until, make_subtask, notes
            )
            try:
                arguments = kind.arguments(hook, task, claimed.input, error)
            except ValidationError as error_of_input:
                message = error_text(Invalid(problems_of(error_of_input)))
                return Ended(Failed("BAD_INPUT", message, permanent=True))
            call = TaskCall(kind, hook, claimed, task, arguments, error)
            outcome = _outcome(task, await self._run_in_time(call))
            if isinstance(outcome, Failed):
                raise _Returned(outcome)
            return await self._complete(task, claimed, outcome)

    def _make_subtask(self, claimed: ClaimedTask, type: str, input: Any, priority: int | None) -> Submission:
        """Return the submission of a subtask: of the submitter, the partition and the step of its parent."""
        kind = self.types.get(type)
        if kind is None:
            raise Refused(Rejection("UNKNOWN_TASK", f"no task `{type}` is registered", ("type",)))
        if priority is not None and not 0 <= priority <= PRIORITY_MAX:
            raise ValueError(f"Expected a priority from 0 to {PRIORITY_MAX}, found {priority}.")
        checked = kind.check(input)
        return Submission(
            org_id=claimed.org_id,
            type=type,
            input=checked,
            throttle=kind.throttle(checked),
            priority=kind.priority if priority is None else priority,
            attempts_max=kind.attempts_max,
            submitted_by=claimed.submitted_by,
            people=claimed.people,
            partition_id=claimed.partition_id,
            instance_id=claimed.instance_id,
            step_id=claimed.step_id,
            trace_id=claimed.trace_id,
            id=new_id(self.database.clock.now()),
            parent_id=claimed.id,
            parent_attempt=claimed.attempt,
            depth=claimed.depth + 1,
        )

    async def _run_in_time(self, call: TaskCall) -> Any:
        # What the function does by the runtime, in any name, is the work of these people too.
        called = people_of_attempt.set(tuple(call.task.people))
        try:
            return await self._run(call)
        finally:
            people_of_attempt.reset(called)

    async def _run(self, call: TaskCall) -> Any:
        executor = self.cluster if call.kind.on_cluster else self._local
        if executor is None:
            raise NotStarted("this worker has no cluster")
        run, length = executor.run, call.kind.timeout
        if length is None:
            return await run(call)
        try:
            async with asyncio.timeout(length.total_seconds()) as limit:
                call.task.limit = limit
                return await run(call)
        except TimeoutError as error:
            if limit.expired():
                raise _TookTooLong(f"it took longer than {length}") from error
            raise

    async def _complete(self, task: TaskContext, claimed: ClaimedTask, outcome: Succeeded) -> Ended:
        """Complete the task, in the function's own transaction if it opened one; that commits later."""
        if task.connection is None:
            return Ended(outcome)
        result = next_state(claimed, outcome, RetryPolicy())
        await write_news_if_claimed(task.connection, self.worker_id, news_of([self.notes[claimed.job]]))
        await settle_if_claimed(task.connection, self.worker_id, [result])
        return Ended(outcome, written=True)


def _hook(kind: TaskType, claimed: ClaimedTask, error: TaskError | None) -> Hook | None:
    """Return the function that an attempt runs; None if a subtask has failed and the task does not handle that.

    What runs for a batch handles it in any case: it was submitted to hear how the batch has ended.
    """
    if error is not None and (kind.on_error is not None or not claimed.is_callback):
        return kind.on_error
    return kind.on_resume if claimed.subtasks else kind.on_start


def _failure_of_subtask(claimed: ClaimedTask) -> Failed:
    failed = [one for one in claimed.subtasks if one.error is not None]
    first, others = failed[0], len(failed) - 1
    assert first.error is not None
    more = f"; and {others} more of {len(claimed.subtasks)}" if others else ""
    message = f"subtask {first.id} ({first.type}) failed: {first.error.code}: {first.error.message}{more}"
    return Failed(SUBTASK_FAILED, clean_error_text(message), permanent=True)


def _outcome(task: TaskContext, returned: Any) -> JobOutcome:
    """Return what a function's return value says about its attempt."""
    if isinstance(returned, Failed):
        return returned
    if isinstance(returned, Blocked) != bool(task.made):
        found = f"{len(task.made)} subtasks and `{type(returned).__name__}`"
        message = f"a function that makes subtasks returns `Blocked`, and no other does; found {found}"
        return Failed(MISUSED, message, permanent=True)
    match returned:
        case Blocked():
            return BlockedBySubtasks(subtasks=tuple(task.made))
        case Background():
            note = {"reason": clean_error_text(returned.reason)}
            return Suspended(result=note, status="background", timeout=returned.length)
        case Complete():
            return Succeeded(result=as_kept(returned.output, "output"))
        case _:
            return Succeeded(result=as_kept(returned, "output"))


def is_expected(error: Exception) -> bool:
    """Return whether an exception only says how the attempt ended, and is no error to be reported."""
    return isinstance(error, ClaimLost | GiveUp | Retry | _TookTooLong)


def failure_of(kind: TaskType, error: Exception) -> Failed:
    """Return what an exception says about its attempt."""
    match error:
        case ClaimLost():
            return Failed(LOST, error_text(error))
        case _TookTooLong():
            return Failed(TIMED_OUT, error_text(error))
        case GiveUp():
            failed = Failed(GAVE_UP, error_text(error), permanent=True)
        case Retry():
            failed = Failed(FAILED, error_text(error), retry_after=error.after)
        case _:
            failed = Failed(FAILED, typed_error_text(error), not is_retried(error, kind.retry_on))
    return replace(failed, error_type=type(error).__name__, stack_trace=stack_trace_of(error))
