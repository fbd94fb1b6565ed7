"""Schedules: a cron line whose time has come starts a task, once in all workers together.

What is due before the next poll is armed, as with timers. A worker starts the tasks that its application has; what
another application declares is left to that one's workers.
"""

import time
from datetime import timedelta
from typing import Final

from assent.model.actor import SYSTEM, By
from assent.schedules.schedules import declare_schedules, find_next_schedule, fire_schedules
from assent.store.database import Connection
from assent.worker.duty import RunResult, Schedule, WorkerContext

ARMED_S: Final = 0.5
"""How much further ahead than its interval a run looks for the next time: an interval varies."""
DECLARED_EVERY_S: Final = 60.0
"""How often a worker looks for orgs that lack a schedule which its application declares."""


class Schedules:
    """Submit the tasks of the schedules whose time has come, and move these on, in one transaction."""

    name = "schedules"

    def __init__(self, place: WorkerContext) -> None:
        if place.runtime is None:
            raise ValueError(
                "Schedules start the tasks of an application; give the worker context its runtime."
            )
        options, core = place.options, place.runtime.core
        self.pace = Schedule(options.schedules_interval_ms / 1000)
        self._database = place.database
        self._batch_max = options.schedules_batch_max
        self._on_time = timedelta(milliseconds=options.schedules_on_time_ms)
        self._task_types = core.task_types
        self._declared = tuple(core.schedules.values())
        self._declared_s: float | None = None

    async def run_once(self) -> RunResult:
        await self._declare()
        return await self._database.run(self._fire, org_id=None)

    async def _declare(self) -> None:
        """Make the declared schedules that are missing; at the first run, change those that the code has changed."""
        now_s, former_s = time.monotonic(), self._declared_s
        if not self._declared or (former_s is not None and now_s - former_s < DECLARED_EVERY_S):
            return

        async def work(connection: Connection) -> int:
            return await declare_schedules(connection, self._declared, change=former_s is None)

        await self._database.run(work, org_id=None, by=By(SYSTEM))
        self._declared_s = now_s

    async def _fire(self, connection: Connection) -> RunResult:
        started, more = await fire_schedules(
            connection, self._task_types, self._declared, self._batch_max, self._on_time
        )
        if more:
            return RunResult(started, more=True)
        next_s = await find_next_schedule(connection, self.pace.interval_s + ARMED_S)
        return RunResult(started, again_in_s=next_s)
