"""Rescue: return jobs of workers whose lease expired to the queue, resume tasks whose subtasks have ended, and find
instances that nothing could ever move.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final
from uuid import UUID

from assent.jobs.dead_letters import log_dead
from assent.jobs.queue import rescue_jobs
from assent.model.actor import SYSTEM
from assent.model.problems import Invalid
from assent.operations.health import StuckInstance, find_stuck
from assent.store.queries import load_queries
from assent.tasks import settle as tasks
from assent.worker import effects
from assent.worker.duty import RunResult, Schedule, WorkerContext, look_up_by_index
from assent.worker.options import Options

_log = logging.getLogger(__name__)
_SQL: Final = load_queries("assent.jobs", "leases.sql")


class Rescue:
    """Returns jobs of workers that are gone to the queue; those without attempts left are dead.

    A job that kills every worker which touches it ends where a person looks at it, and costs the jobs beside it
    nothing: which of them killed the worker is found out by starting them one by one.
    """

    name = "rescue"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(options.rescue_interval_ms / 1000, pause_s=options.sweep_pause_ms / 1000)
        self._database = place.database
        self._batch_max = options.rescue_batch_max

    async def run_once(self) -> RunResult:
        async with self._database.transaction(None) as connection:
            await look_up_by_index(connection)
            gone = await connection.fetch(_SQL.lock_expired_leases, self._batch_max)
            workers, jobs = [row["worker_id"] for row in gone], [row["lost_jobs"] for row in gone]
            rescued = [dict(row) for row in await rescue_jobs(connection, workers, jobs, self._batch_max)]
            await tasks.notify_dead(connection, [row for row in rescued if row["kind"] == "task"])
            await effects.notify_dead(connection, [row for row in rescued if row["kind"] == "effect"])
            await connection.execute(_SQL.end_leases_if_unused, workers)
        for row in rescued:
            if row["status"] == "dead":
                log_dead(row["kind"], row, row["lane"], row["code"], row["error"])
        parts = {"tasks": 0, "effects": 0, "results": 0, "dead": 0}
        for row in rescued:
            parts["dead" if row["status"] == "dead" else f"{row['kind']}s"] += 1
        return RunResult(len(rescued), more=self._batch_max in (len(gone), len(rescued)), parts=parts)


class Unblock:
    """Ends the waiting of tasks: of those in the background whose time is over, and of those whose subtasks have ended
    and that no worker has resumed, for it died, or a subtask was cancelled.
    """

    name = "unblock"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(options.unblock_interval_ms / 1000, pause_s=options.sweep_pause_ms / 1000)
        self._database = place.database
        self._batch_max = options.unblock_batch_max

    async def run_once(self) -> RunResult:
        async with self._database.transaction(None) as connection:
            await look_up_by_index(connection)
            expired = await tasks.expire_background(connection, self._batch_max)
            resumed = await tasks.resume_any_parents(connection, self._batch_max)
        for row in expired:
            if row["status"] == "dead":
                log_dead("task", row, row["lane"], row["code"], row["error"])
        more = self._batch_max in (len(expired), resumed)
        parts = {"resumed": resumed, "expired": len(expired)}
        return RunResult(resumed + len(expired), more=more, parts=parts)


Repair = Callable[[str, UUID], Awaitable[object]]
"""Does something about one instance, named by org and id."""


class Stuck:
    """Reports each finding once while it stands, and repairs it where an operator chose how."""

    name = "stuck"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(options.stuck_interval_ms / 1000)
        self._database = place.database
        self._older_than = timedelta(milliseconds=options.stuck_after_ms)
        self._findings_max = options.stuck_findings_max
        self._repair = _chosen_repair(place)
        self._known: frozenset[UUID] = frozenset()

    async def run_once(self) -> RunResult:
        async with self._database.transaction(None) as connection:
            findings = await find_stuck(connection, None, self._older_than, self._findings_max)
        for finding in findings:
            if finding.instance_id not in self._known:
                _log.warning("instance is stuck", extra=finding.fields)
        self._known = frozenset(finding.instance_id for finding in findings)
        repaired = [await self._try_repair(finding) for finding in findings]
        return RunResult(len(findings), parts={"stuck": len(findings), "repaired": sum(repaired)})

    async def _try_repair(self, finding: StuckInstance) -> bool:
        """Return whether it was repaired; one that cannot be must not keep the others from it."""
        if self._repair is None:
            return False
        try:
            await self._repair(finding.org_id, finding.instance_id)
        except Exception:
            _log.exception("repair failed", extra=finding.fields)
            return False
        _log.info("instance repaired", extra=finding.fields)
        return True


def _chosen_repair(place: WorkerContext) -> Repair | None:
    chosen, runtime = place.options.stuck_repair, place.runtime
    if chosen == "none":
        return None
    if runtime is None:
        raise Invalid([Options.bad("stuck_repair", f"{chosen} needs an application: name it with --app")])

    def repair(org_id: str, instance_id: UUID) -> Awaitable[object]:
        org = runtime.org(org_id, SYSTEM)
        match chosen:
            case "rebuild":
                return org.operations.rebuild(instance_id)
            case "reenqueue":
                return org.operations.reenqueue(instance_id)
            case _:
                return org.instances.force_fail(instance_id, "it was stuck")

    return repair
