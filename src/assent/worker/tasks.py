"""Tasks: claimed, run beside each other outside of any transaction, and settled.

What ended is written in the transaction that claims what comes next.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from assent.jobs.job import RetryPolicy, next_state
from assent.jobs.queue import JobRow
from assent.jobs.throttles import ThrottledQueue, declare_resources, throttle_if_claimed
from assent.model.job import Throttle
from assent.store.database import Connection
from assent.tasks.attempt import Attempts
from assent.tasks.claimed_task import ClaimedTask, load_tasks
from assent.tasks.executor import NotStarted
from assent.tasks.notes import news_of, write_news_if_claimed
from assent.tasks.settle import TaskKey, TaskResult, parents_to_resume, resume_parents, settle_if_claimed
from assent.tasks.task_type import CLUSTER, TaskType
from assent.telemetry import hooks
from assent.worker.duty import RunResult, Schedule, WorkerContext
from assent.worker.instrumentation import TaskSpan, begin_working, count_tasks
from assent.worker.jobs import JobDuty
from assent.worker.options import Options

if TYPE_CHECKING:
    from assent.cluster.executor import ClusterExecutor

GRACE: Final = 0.8
"""The part of the worker's grace period that attempts may take to end; the rest is for giving them back."""
CANCELLED: Final = "cancelled"
"""What a notification of `assent_tasks` says where a task was cancelled that runs."""
THROTTLED: Final = "throttled"
"""What a notification of `assent_tasks` says where a task was submitted that a limit may hold back."""
BREAK_OFF_S: Final = 1.0
"""How long attempts may take to end that are broken off."""
LOOKS_PER_INTERVAL: Final = 2
"""How often in an interval a worker looks whether attempts were taken from it, where no notification says so."""
PLACES_PER_KEPT_PLACE: Final = 10
"""Of so many places one is kept for orgs that have no task under way here, so that no org takes all of them."""


class Tasks(JobDuty[ClaimedTask]):
    """Runs the tasks of all orgs. Attempts go on between its runs; `finish` waits for them."""

    name = "tasks"
    kind = "task"

    def __init__(self, place: WorkerContext) -> None:
        if place.runtime is None:
            raise ValueError(
                "Tasks need a runtime, for the functions of its application; give the workplace one."
            )
        options, self._types = place.options, place.runtime.core.task_types
        self._resources = place.runtime.core.resources
        self._are_declared = not self._resources
        self.pace = Schedule(options.tasks_interval_ms / 1000, ("assent_tasks",), lanes=options.tasks_lanes)
        super().__init__(place, lanes=self._types)
        self._reachable = options.reachable(self._resources)
        self._throttled = ThrottledQueue(self._queue, self._reachable)
        self._cluster = self._open_cluster(place)
        self._is_throttled_first = False
        self._under_way_max = options.tasks_under_way_max
        self._kept = options.tasks_under_way_max // PLACES_PER_KEPT_PLACE
        self._batch_max = max(1, options.tasks_under_way_max // options.tasks_lanes)
        self._attempts = Attempts(
            *(self._types, place.database, self._jobs.worker_id, self._under_way_max, self._cluster)
        )
        self._retries = _retry_policy(options)
        self._grace_s = GRACE * options.grace_period_ms / 1000
        self._under_way: dict[asyncio.Task[None], ClaimedTask] = {}
        self._reserved = 0
        """Room that other lanes are about to fill."""
        self._results: list[TaskResult] = []
        """What is known and not yet written; kept while the database is away."""
        self._counted: list[TaskResult] = []
        """What attempts have written in transactions of their own."""
        self._parents: set[TaskKey] = set()
        """Tasks that may go on: a subtask of theirs has ended, in a transaction that is committed."""
        self._news = asyncio.Event()
        self._began_s: dict[asyncio.Task[None], float] = {}
        self._looked_s = time.monotonic()
        self._heard_of_cancel = False
        self._noted_s = time.monotonic()

    def _open_cluster(self, place: WorkerContext) -> "ClusterExecutor | None":
        """Return what hands functions to the cluster, where the application and this worker have one."""
        if CLUSTER not in self._reachable or not place.cluster.address:
            return None
        # Imported late: few workers have a cluster, and Dask installed.
        from assent.cluster.executor import ClusterExecutor  # noqa: PLC0415

        return ClusterExecutor(
            place.cluster, self._jobs.worker_id, place.database.clock, self._hear_of_cluster
        )

    def _hear_of_cluster(self) -> None:
        self._throttled.hear()
        self._news.set()

    async def _look_at_cluster(self) -> None:
        """Claim tasks of the cluster only while this worker reaches it."""
        if self._cluster is not None:
            await self._cluster.begin()
        is_reached = self._cluster is not None and self._cluster.is_reached
        self._throttled.reachable = self._reachable if is_reached else self._reachable - {CLUSTER}

    def wake(self) -> None:
        """Something has ended, or may have come."""
        self._news.set()

    def hear(self, said: set[str]) -> None:
        """Note that a task was cancelled that some worker has under way, or one submitted that has limits."""
        self._heard_of_cancel = self._heard_of_cancel or CANCELLED in said
        if THROTTLED in said:
            self._throttled.hear()

    async def run_once(self) -> RunResult:
        self._news.clear()
        self._throttled.again_in_s = None
        await self._declare()
        await self._look_at_cluster()
        await self._jobs.keep(self._database)
        await self._interrupt_taken()
        await self._write_notes()
        results, self._results = self._results, []
        room = self._room()
        self._reserved += room
        try:
            claimed, now = await self._exchange(results, room)
        except BaseException:
            self._results = results + self._results
            raise
        finally:
            self._reserved -= room
        if now is not None:
            count_tasks(results, now)
        for task in claimed:
            self._begin(begin_working(task))
        self._parents |= parents_to_resume(results)
        resumed = await self._resume_parents()
        await self._wait_for_news()
        return self._done(results, more=bool(claimed or resumed))

    def _room(self) -> int:
        """Return how many attempts this lane may begin; none for an application without tasks."""
        free = self._under_way_max - len(self._under_way) - self._reserved
        return max(0, min(self._batch_max, free)) if self._types and self._jobs.may_claim else 0

    async def finish(self) -> None:
        """Wait for what is under way, break off and give back what takes too long, and mark the rest."""
        try:
            if self._under_way:
                await asyncio.wait(self._under_way, timeout=self._grace_s)
            await self._break_off()
            results, self._results = self._results, []
            _, now = await self._exchange(results, 0)
            if now is not None:
                count_tasks(results, now)
            self._parents |= parents_to_resume(results)
            await self._resume_parents()
            await self._jobs.compare(self._database)
            await self._jobs.lease.end(self._database)
        finally:
            await self._break_off()
            self._attempts.close()
            if self._cluster is not None:
                await self._cluster.close()

    async def _break_off(self) -> None:
        """End what is still under way; a thread cannot be broken off, and goes on without us."""
        broken = list(self._under_way)
        for attempt in broken:
            attempt.cancel()
        if broken:
            await asyncio.wait(broken, timeout=BREAK_OFF_S)

    async def _declare(self) -> None:
        """Say once what resources there are, before a task that uses one is claimed."""
        if not self._are_declared:
            async with self._database.transaction(None) as connection:
                await declare_resources(connection, self._resources)
            self._are_declared = True

    async def _choose(self, connection: Connection, room: int) -> list[JobRow]:
        """Claim what is due, for any org; where only kept places are free, one task of each org that has none here.

        Tasks with limits and those without take turns at being first, so that neither takes all the room.
        """
        of_other_lanes = max(0, self._reserved - room)
        for_all = self._under_way_max - self._kept - len(self._under_way) - of_other_lanes
        is_for_all, limit = for_all > 0, min(room, for_all) if for_all > 0 else room
        busy = frozenset() if is_for_all else frozenset(task.org_id for task in self._under_way.values())
        self._is_throttled_first = not self._is_throttled_first
        claimed: list[JobRow] = []
        if self._is_throttled_first:
            claimed += await self._choose_throttled(connection, limit, busy, one_each=not is_for_all)
        if (left := limit - len(claimed)) > 0:
            chosen = super()._choose if is_for_all else partial(self._queue.claim_one_each, without=busy)
            claimed += await chosen(connection, left)
        if not self._is_throttled_first:
            left = limit - len(claimed)
            claimed += await self._choose_throttled(connection, left, busy, one_each=not is_for_all)
        return claimed

    async def _choose_throttled(
        self, connection: Connection, limit: int, busy: frozenset[str], *, one_each: bool
    ) -> list[JobRow]:
        throttled = self._throttled
        claimed = await throttled.claim(connection, limit, without=busy, one_each=one_each)
        room = len(claimed) < limit
        if throttled.has_suspects and room and self._jobs.may_start_suspect(has_room=True):
            claimed += await throttled.claim(connection, 1, suspects=True)
        return claimed

    async def _load(self, connection: Connection, jobs: Sequence[JobRow]) -> list[ClaimedTask]:
        """Load what was claimed; what its type limits more than its submission says is left to a later claim."""
        tasks = await load_tasks(connection, jobs)
        missing = {
            task.id: (task.job, throttle)
            for task, job in zip(tasks, jobs, strict=True)
            if self._types[task.type].is_limited
            and (throttle := _missing_limits(self._types[task.type], task, job))
        }
        if missing:
            await throttle_if_claimed(connection, self._jobs.worker_id, list(missing.values()))
            self._throttled.hear()
            self._news.set()
        return [task for task in tasks if task.id not in missing]

    async def _settle(self, connection: Connection, results: Sequence[TaskResult]) -> datetime | None:
        notes = [self._attempts.notes.get(result.claimed.job) for result in results]
        news = news_of(one for one in notes if one is not None)
        await write_news_if_claimed(connection, self._jobs.worker_id, news)
        _, now = await settle_if_claimed(connection, self._jobs.worker_id, results)
        return now

    async def _interrupt_taken(self) -> None:
        """Break off attempts at tasks that were cancelled, or given to another worker.

        A notification has all of them looked at. Without one, those are that have run for a while: one may be lost.
        """
        now_s, heard = time.monotonic(), self._heard_of_cancel
        while_s = self.pace.interval_s / LOOKS_PER_INTERVAL
        if not heard and now_s - self._looked_s < while_s:
            return
        attempts = {
            task.job: attempt
            for attempt, task in self._under_way.items()
            if heard or now_s - self._began_s[attempt] >= while_s
        }
        self._looked_s, self._heard_of_cancel = now_s, False
        if not attempts:
            return
        try:
            async with self._database.transaction(None, read_only=True) as connection:
                taken = await self._queue.find_taken(connection, attempts)
        except BaseException:
            self._heard_of_cancel = heard
            raise
        for job in taken:
            if not attempts[job].done():
                attempts[job].cancel()
                self._jobs.end([job])

    async def _write_notes(self) -> None:
        """Write what running attempts have said, at most once in an interval; their last words go with their end."""
        now_s = time.monotonic()
        if now_s - self._noted_s < self.pace.interval_s:
            return
        self._noted_s = now_s
        keys = {task.job for task in self._under_way.values()} | {one.claimed.job for one in self._results}
        for key in [key for key in self._attempts.notes if key not in keys]:
            del self._attempts.notes[key]
        if news := news_of(self._attempts.notes.values()):
            async with self._database.transaction(None) as connection:
                await write_news_if_claimed(connection, self._jobs.worker_id, news)
            for one in news:
                one.notes.wrote(one)

    async def _resume_parents(self) -> int:
        """Resume tasks whose last subtask has ended; `unblock` does so where this worker does not come to it."""
        if not self._parents:
            return 0
        parents, self._parents = self._parents, set()
        try:
            async with self._database.transaction(None) as connection:
                resumed = await resume_parents(connection, parents)
        except BaseException:
            self._parents |= parents
            raise
        if resumed:
            self._news.set()
        return resumed

    def _begin(self, working: TaskSpan) -> None:
        attempt = asyncio.create_task(self._attempt(working))
        self._under_way[attempt], self._began_s[attempt] = working.task, time.monotonic()
        attempt.add_done_callback(self._ended)

    async def _attempt(self, working: TaskSpan) -> None:
        task = working.task
        with working.scope():
            try:
                ended = await self._attempts.make(task)
            except NotStarted:
                self._jobs.end([task.job])
                self._jobs.doubt()  # it is given back by the next run
                return
            if ended.error is not None:
                hooks.report(ended.error, task=task.type)
        working.end(ended.outcome)
        result = next_state(task, ended.outcome, self._retries)
        if ended.written:
            self._jobs.end([task.job])
            self._parents |= parents_to_resume([result])
        (self._counted if ended.written else self._results).append(result)

    def _ended(self, attempt: asyncio.Task[None]) -> None:
        task = self._under_way.pop(attempt)
        del self._began_s[attempt]
        # A thread goes on when its attempt is broken off: its task is given to others when the lease is over.
        if attempt.cancelled() and self._types[task.type].is_interruptible:
            self._jobs.end([task.job])
        self._news.set()

    async def _wait_for_news(self) -> None:
        if self._under_way and not self._news.is_set():
            again_in_s = self._throttled.again_in_s
            wait_s = min(self.pace.interval_s, again_in_s or self.pace.interval_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._news.wait()

    def _done(self, results: Sequence[TaskResult], *, more: bool) -> RunResult:
        counted, self._counted = self._counted, []
        count_tasks(counted, self._database.clock.now())
        parts: Counter[str] = Counter(result.status for result in (*results, *counted))
        more = (
            more or bool(self._results or self._under_way or self._parents) or not self._queue.has_gone_around
        )
        return RunResult(len(results) + len(counted), more, dict(parts), self._throttled.again_in_s)


def _missing_limits(kind: TaskType, task: ClaimedTask, job: JobRow) -> Throttle | None:
    """Return the limits of a task where its type has some under which it was not claimed; None where it was."""
    names: Sequence[str] = job.get("resources", ())
    declared = kind.throttle(task.input)
    has_all = set(kind.resources) <= set(names)
    if declared is None or (has_all and (kind.rate_limit is None or job.get("rate_key") is not None)):
        return None
    if kind.rate_limit is None and job.get("rate_key") is not None:
        declared = Throttle(declared.resources, job["rate_key"], job["rate_max"], job["rate_period"])
    return declared.with_resources(names)


def _retry_policy(options: Options) -> RetryPolicy:
    shortest, longest = options.tasks_backoff_min_ms, options.tasks_backoff_max_ms
    return RetryPolicy(timedelta(milliseconds=shortest), timedelta(milliseconds=longest))
