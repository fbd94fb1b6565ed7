"""An application's tasks and a worker for them, side by side."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from assent.app import App
from assent.model.actor import Actor
from assent.runtime import Runtime
from assent.store.database import Database
from assent.tasks.claimed_task import ClaimedTask
from assent.worker.duty import WorkerContext
from assent.worker.rescue import Rescue
from assent.worker.tasks import Tasks
from tests.worker.queues import run_until_done, with_options
from tests.world import ORG, drain, fetch

ROWS = """
SELECT j.*, j.lane AS type, s.input, s.key, s.submitted_by, s.instance_id, s.step_id, s.awaited, s.trace_id
  FROM assent.jobs j JOIN assent.task_submissions s USING (org_id, id) WHERE org_id <> 'aatwin' ORDER BY j.id
"""
ATTEMPTS = "SELECT * FROM assent.job_attempts WHERE org_id <> 'aatwin' AND job_id = $1 ORDER BY attempt"


class Workshop:
    """What a worker process does for tasks, one thing after the other."""

    def __init__(self, app: App, database: Database, **options: Any) -> None:
        self.app = app
        self.database = database
        self.runtime: Runtime = app.runtime(database)
        self.place = with_options(WorkerContext(database, runtime=self.runtime), **options)
        self.duty = Tasks(self.place)

    async def submit(self, type: str, input: Any = None, actor: Actor | None = None, **rest: Any) -> UUID:
        return await self.runtime.org(ORG, actor).tasks.submit(type, input, **rest)

    async def work(self) -> dict[str, int]:
        """Run what is due; how many attempts ended how."""
        return dict((await run_until_done(self.duty)).parts)

    async def work_and_tell(self) -> None:
        """Run what is due, and let the engine hear of it."""
        await self.work()
        await drain(self.runtime)

    async def sweep(self) -> dict[str, int]:
        """What other workers do, once the lease of a dead one is over."""
        self.database.clock.advance("2m")  # type: ignore[attr-defined]
        return dict((await run_until_done(Rescue(self.place))).parts)

    async def claim(self, limit: int) -> list[ClaimedTask]:
        """Claim tasks for this worker, and do nothing about them."""
        return await self.database.run(lambda connection: self.duty._claim(connection, limit), org_id=None)

    async def renew(self) -> None:
        """Say that this worker is alive, and compare what it has with what is recorded."""
        await self.duty._jobs.lease.renew(self.database, timedelta(minutes=1))
        await self.duty._jobs.keep(self.database)

    async def rows(self) -> list[dict[str, Any]]:
        return [dict(row) for row in await fetch(self.database, ROWS)]

    async def row(self) -> dict[str, Any]:
        (found,) = await self.rows()
        return found

    async def status(self) -> str:
        status: str = (await self.row())["status"]
        return status

    async def attempts(self, task_id: UUID | None = None) -> list[dict[str, Any]]:
        found = await fetch(self.database, ATTEMPTS, task_id or (await self.row())["id"])
        return [dict(row) for row in found]

    async def attempt(self) -> dict[str, Any]:
        (found,) = await self.attempts()
        return found


Opened = Callable[..., Workshop]
