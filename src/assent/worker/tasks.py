"""Tasks: claimed, run beside each other outside of any transaction, and marked.

What ended is written down in the transaction that claims what comes next, so that a batch costs the same few statements
whatever its size. A worker that dies leaves claims behind; once its lease is over, `rescue` gives them to others.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from assent.model.jobs import JobKey
from assent.store.clock import transaction_time
from assent.store.database import Connection
from assent.tasks.attempt import Attempts
from assent.tasks.claim import TaskClaims, prepare_claim
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.outcome import RetryPolicy, TaskResult, next_state
from assent.tasks.settle import settle_if_claimed
from assent.telemetry import hooks
from assent.worker.duty import RunResult, Schedule, WorkerContext
from assent.worker.instrumentation import TaskSpan, begin_working, count_task_marks
from assent.worker.options import Options

GRACE: Final = 0.8
"""The part of the worker's grace period that attempts may take to end; the rest is for giving them back."""
BREAK_OFF_S: Final = 1.0
"""How long attempts may take to end that are broken off."""


class Tasks:
    """Runs the tasks of all orgs. Attempts go on between its runs; `finish` waits for them."""

    name = "tasks"

    def __init__(self, place: WorkerContext) -> None:
        if place.runtime is None:
            raise ValueError(
                "Tasks need a runtime, for the functions of its application; give the workplace one."
            )
        options, self._types = place.options, place.runtime.core.task_types
        self.pace = Schedule(options.tasks_interval_ms / 1000, ("assent_tasks",), lanes=options.tasks_lanes)
        self._database = place.database
        self._jobs = place.lease.jobs(self._compare, timedelta(milliseconds=options.lease_ms))
        self._claims = TaskClaims(self._types, self._jobs.worker_id)
        self._under_way_max = options.tasks_under_way_max
        self._batch_max = max(1, options.tasks_under_way_max // options.tasks_lanes)
        self._attempts = Attempts(self._types, place.database, self._claims.worker_id, self._under_way_max)
        self._patience = _patience(options)
        self._grace_s = GRACE * options.grace_period_ms / 1000
        self._under_way: dict[asyncio.Task[None], ClaimedTask] = {}
        self._reserved = 0
        """Room that other lanes are about to fill."""
        self._marks: list[TaskResult] = []
        """What is known and not yet written; kept while the database is away."""
        self._counted: list[TaskResult] = []
        """What attempts have written in transactions of their own."""
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Something has ended, or may have come."""
        self._news.set()

    async def run_once(self) -> RunResult:
        self._news.clear()
        await self._jobs.keep(self._database)
        marks, self._marks = self._marks, []
        room = self._room()
        self._reserved += room
        try:
            claimed = await self._exchange(marks, room)
        except BaseException:
            self._marks = marks + self._marks
            raise
        finally:
            self._reserved -= room
        for task in claimed:
            self._begin(begin_working(task))
        await self._wait_for_news()
        return self._done(marks, more=bool(claimed))

    def _room(self) -> int:
        """How many attempts this lane may begin; none for an application without tasks."""
        free = self._under_way_max - len(self._under_way) - self._reserved
        return max(0, min(self._batch_max, free)) if self._types and self._jobs.may_claim else 0

    async def finish(self) -> None:
        """Wait for what is under way, break off and give back what takes too long, and mark the rest."""
        try:
            if self._under_way:
                await asyncio.wait(self._under_way, timeout=self._grace_s)
            await self._break_off()
            marks, self._marks = self._marks, []
            await self._exchange(marks, 0)
            await self._jobs.compare(self._database)
            await self._jobs.lease.end(self._database)
        finally:
            await self._break_off()
            self._attempts.close()

    async def _break_off(self) -> None:
        """What is still under way ends now; a thread cannot be broken off, and goes on without us."""
        broken = list(self._under_way)
        for attempt in broken:
            attempt.cancel()
        if broken:
            await asyncio.wait(broken, timeout=BREAK_OFF_S)

    async def _exchange(self, marks: Sequence[TaskResult], room: int) -> list[ClaimedTask]:
        """Hand in what ended, and claim what is due, in one transaction."""
        harmless = self._jobs.harmless
        if not (marks or room or harmless):
            return []

        async def work(connection: Connection) -> tuple[list[ClaimedTask], set[UUID], datetime]:
            await prepare_claim(connection)
            if marks:
                await settle_if_claimed(connection, self._jobs.worker_id, marks)
            cleared = await self._claims.clear_suspects(connection, harmless) if harmless else set()
            claimed = await self._claim(connection, room) if room else []
            return claimed, cleared, await transaction_time(connection)

        async with self._jobs.claiming():
            claimed, cleared, now = await self._database.run(work, org_id=None)
            for task in claimed:
                self._jobs.begin(task.job, task.losses)
        self._jobs.clear(cleared)
        self._jobs.end(mark.task.job for mark in marks)
        count_task_marks(marks, now)
        return claimed

    async def _claim(self, connection: Connection, room: int) -> list[ClaimedTask]:
        claimed = await self._claims.claim(connection, room)
        if self._jobs.may_start_suspect(has_room=len(claimed) < room):
            claimed += await self._claims.claim_suspect(connection)
        if claimed:
            await self._jobs.cover(connection)
        return claimed

    async def _compare(self, connection: Connection, known: frozenset[JobKey]) -> None:
        """Give back what is not under way; break off what was cancelled, or given to another worker."""
        await self._claims.give_back_unknown(connection, known)
        taken = await self._claims.find_taken(connection, [task.job for task in self._under_way.values()])
        for attempt, task in self._under_way.items():
            if task.id in taken:
                attempt.cancel()

    def _begin(self, working: TaskSpan) -> None:
        attempt = asyncio.create_task(self._attempt(working))
        self._under_way[attempt] = working.task
        attempt.add_done_callback(self._ended)

    async def _attempt(self, working: TaskSpan) -> None:
        task = working.task
        with working.scope():
            ended = await self._attempts.make(task)
            if ended.error is not None:
                hooks.report(ended.error, task=task.type)
        working.end(ended.outcome)
        mark = next_state(task, ended.outcome, self._patience)
        if ended.written:
            self._jobs.end([task.job])
        (self._counted if ended.written else self._marks).append(mark)

    def _ended(self, attempt: asyncio.Task[None]) -> None:
        task = self._under_way.pop(attempt)
        # A thread goes on when its attempt is broken off: its task is given to others when the lease is over.
        if attempt.cancelled() and self._types[task.type].is_async:
            self._jobs.end([task.job])
        self._news.set()

    async def _wait_for_news(self) -> None:
        if self._under_way and not self._news.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.pace.interval_s):
                    await self._news.wait()

    def _done(self, marks: Sequence[TaskResult], *, more: bool) -> RunResult:
        counted, self._counted = self._counted, []
        count_task_marks(counted, self._database.clock.now())
        parts: Counter[str] = Counter(mark.status for mark in (*marks, *counted))
        more = more or bool(self._marks or self._under_way) or not self._claims.has_gone_around
        return RunResult(len(marks) + len(counted), more, dict(parts))


def _patience(options: Options) -> RetryPolicy:
    shortest, longest = options.tasks_backoff_min_ms, options.tasks_backoff_max_ms
    return RetryPolicy(timedelta(milliseconds=shortest), timedelta(milliseconds=longest))
