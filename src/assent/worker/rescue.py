"""Rescue: return jobs of workers whose lease expired to the queue."""

from typing import Final

from assent.jobs.queue import rescue_jobs
from assent.store.queries import load_queries
from assent.tasks import settle as tasks
from assent.worker import effects
from assent.worker.duty import RunResult, Schedule, WorkerContext
from assent.worker.plans import look_up_by_index

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
        parts = {"tasks": 0, "effects": 0, "results": 0, "dead": 0}
        for row in rescued:
            parts["dead" if row["status"] == "dead" else f"{row['kind']}s"] += 1
        return RunResult(len(rescued), more=self._batch_max in (len(gone), len(rescued)), parts=parts)
