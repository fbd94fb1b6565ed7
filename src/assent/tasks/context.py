"""A task as its function sees it while it runs: who it is, its subtasks, how to write together with its completion."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Protocol
from uuid import UUID

from assent.jobs.queue import hold_if_claimed
from assent.model.ids import new_id
from assent.model.mutation import ON_EVENT, PARTITION, PEOPLE, Event
from assent.outbox.events import emit_events
from assent.store.database import Connection, Database
from assent.store.errors import PoolBusy
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.errors import ClaimLost
from assent.tasks.notes import LogLevel, Notes
from assent.tasks.outcomes import Subtask, TaskError
from assent.tasks.submit import Submission

SUBTASKS_MAX: Final = 10_000
"""How many subtasks one attempt may make."""
DEPTH_MAX: Final = 50
"""How many tasks a subtask may have above it."""


people_of_attempt: ContextVar[tuple[str, ...]] = ContextVar("people_of_attempt", default=())
"""Those on whose behalf the task runs whose function is calling; none outside of tasks."""


class TaskReference(Protocol):
    """A task by its handle."""

    name: str


MakeSubtask = Callable[[str, Any, int | None], Submission]
"""Makes the submission of a subtask: its type, input and priority. Raises an error for what cannot be submitted."""


class TaskContext:
    """One attempt at a task."""

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        claimed: ClaimedTask,
        worker_id: UUID,
        database: Database,
        turns: asyncio.Semaphore,
        open_until: AsyncExitStack,
        make_subtask: MakeSubtask,
        notes: Notes,
    ) -> None:
        self._claimed = claimed
        self._worker_id = worker_id
        self._database = database
        self._turns = turns
        self._open_until = open_until
        self._opening = asyncio.Lock()
        self._connection: Connection | None = None
        self.limit: asyncio.Timeout | None = None
        """The time of the attempt; waiting for a connection is no part of it."""
        self._interrupted = False
        self._make_subtask = make_subtask
        self._notes = notes
        self.made: list[Submission] = []
        """The subtasks that this attempt has made; submitted when it ends with `Blocked`."""

    @property
    def id(self) -> UUID:
        return self._claimed.id

    @property
    def type(self) -> str:
        return self._claimed.type

    @property
    def org_id(self) -> str:
        return self._claimed.org_id

    @property
    def partition_id(self) -> str | None:
        return self._claimed.partition_id

    @property
    def attempt(self) -> int:
        """Which one this is, from 1."""
        return self._claimed.attempt

    @property
    def is_last_attempt(self) -> bool:
        return self._claimed.attempt >= self._claimed.attempts_max

    @property
    def submitted_by(self) -> str:
        return self._claimed.submitted_by

    @property
    def people(self) -> Sequence[str]:
        """Those whose work it hands on, as the members who began it: they approve nothing that follows from it."""
        return self._claimed.people

    @property
    def submitted_at(self) -> datetime:
        return self._claimed.created_at

    @property
    def notes(self) -> Notes:
        """What the attempt has said, for what runs its function elsewhere."""
        return self._notes

    @property
    def key(self) -> str:
        """The same at every attempt: pass it on where the other side takes an idempotency key."""
        return str(self._claimed.id)

    def progress(self, fraction: float, message: str = "") -> None:
        """Say how far the attempt is, from 0 to 1: `task.progress(0.4, "page 12 of 30")`. It is seen a second later."""
        self._notes.say(fraction, message, self._database.clock.now())

    def log(self, message: str, level: LogLevel = "info") -> None:
        """Keep a line with the attempt; of one attempt, the first 1,000 are kept."""
        self._notes.log(message, level, self._database.clock.now())

    def subtask(self, type: "str | TaskReference", input: Any = None, *, priority: int | None = None) -> UUID:
        """Make a subtask, and return its id; return `Blocked()` from the function then.

        It is submitted in the transaction that blocks the task: an attempt that fails, or is lost, has made none.
        Raises `Refused` or `Invalid` for a type that the application does not have, or an input that does not fit.
        """
        if len(self.made) >= SUBTASKS_MAX:
            raise ValueError(f"Expected at most {SUBTASKS_MAX} subtasks of one attempt, found one more.")
        if self._claimed.depth >= DEPTH_MAX:
            raise ValueError(f"Expected at most {DEPTH_MAX} levels of subtasks, found one more.")
        submission = self._make_subtask(type if isinstance(type, str) else type.name, input, priority)
        assert submission.id is not None
        self.made.append(submission)
        return submission.id

    def take_subtask(self, id: UUID, type: str, input: Any, priority: int | None) -> None:
        """Note a subtask that the function has made in another process, under this id; raise as `subtask` does."""
        self.made.append(replace(self._make_subtask(type, input, priority), id=id))

    @property
    def subtasks(self) -> tuple[Subtask, ...]:
        """The subtasks for which the task was blocked last, in the order in which they were made; all have ended."""
        return self._claimed.subtasks

    def subtask_result(self, subtask_id: UUID) -> Any:
        """Return what a subtask returned; None of one that failed."""
        return self._subtask(subtask_id).output

    def subtask_error(self, subtask_id: UUID) -> TaskError | None:
        """Return why a subtask failed; None of one that did not."""
        return self._subtask(subtask_id).error

    def _subtask(self, subtask_id: UUID) -> Subtask:
        found = next((one for one in self._claimed.subtasks if one.id == subtask_id), None)
        if found is None:
            raise LookupError(
                f"Expected one of the {len(self.subtasks)} subtasks of {self.id}, found {subtask_id}."
            )
        return found

    @property
    def is_interrupted(self) -> bool:
        """Whether the attempt has ended without its function: cancelled, out of time, or given to another worker.

        An `async` function is cancelled then. A plain function goes on in its thread, and its result is dropped; one
        that takes long asks now and then, and returns.
        """
        return self._interrupted

    def interrupt(self) -> None:
        """Note that nothing waits for the function any more."""
        self._interrupted = True

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Write to the database together with the task's completion: both happen when the function returns, or neither.

        Acts for the task's org, under row security. Raises `ClaimLost` where the task was cancelled or given to
        another worker; and from here to the end of the function neither can happen.
        """
        async with self._opening:
            if self._connection is None:
                self._connection = await self._begin()
        async with (
            self._connection.transaction()
        ):  # a savepoint: what is caught outside undoes no more than this
            yield self._connection

    async def emit(self, key: str, data: Any = None, *, cause: str | None = None) -> None:
        """Emit an event together with the task's completion, to the triggers and the steps that wait for its key.

        With the cause of an earlier event under the key it is that event, and nothing happens.
        """
        await self._emit(key, [(cause, data)])

    async def emit_many(self, key: str, data: Mapping[str, Any]) -> None:
        """Emit an event for each cause and its data, in one statement: `{"a.png": {"size": 12}, "b.png": …}`."""
        await self._emit(key, list(data.items()))

    async def _emit(self, key: str, caused: Sequence[tuple[str | None, Any]]) -> None:
        async with self.transaction() as connection:
            now = self._database.clock.now()
            events = [self._event(key, cause, data, now) for cause, data in caused]
            await emit_events(connection, events, now)

    def _event(self, key: str, cause: str | None, data: Any, now: datetime) -> Event:
        event_id = new_id(now)
        payload = {"cause": cause or str(event_id), "key": key, "data": data}
        if self.partition_id is not None:
            payload[PARTITION] = self.partition_id
        if self._claimed.people:
            payload[PEOPLE] = self._claimed.people
        return Event(self.org_id, event_id, ON_EVENT, payload, None)

    async def _begin(self) -> Connection:
        """Wait for a turn, however long it takes: a pool that is busy is not the task's failure."""
        with self.time_stopped():
            await self._open_until.enter_async_context(self._turns)
            connection = await self._open()
        if not await hold_if_claimed(connection, self._worker_id, [self._claimed.job]):
            raise ClaimLost(f"task {self.id} is not ours any more: it was cancelled, or taken over")
        return connection

    async def _open(self) -> Connection:
        while True:
            try:
                return await self._open_until.enter_async_context(self._database.transaction(self.org_id))
            except PoolBusy:
                continue  # it has waited for as long as `pool_wait_timeout_ms` says

    @contextmanager
    def time_stopped(self) -> Iterator[None]:
        """Inside, the time of the attempt stands still: it waits, for a connection or for a place to run."""
        limit, loop = self.limit, asyncio.get_running_loop()
        if limit is None or (when_s := limit.when()) is None:
            yield
            return
        left_s = when_s - loop.time()
        limit.reschedule(None)
        try:
            yield
        finally:
            limit.reschedule(loop.time() + left_s)

    @property
    def connection(self) -> Connection | None:
        """The transaction that the task's completion is to be part of, if its function has opened one."""
        return self._connection
