"""Workers that a test steps: any duty until it has nothing to do, and a worker each of effects, tasks and results."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg

from assent.app import App
from assent.effects.addresses import Allowed
from assent.effects.settings import EffectSettings, SendingSettings, SmtpSettings
from assent.jobs.lease import Lease
from assent.model.actor import Actor
from assent.runtime import InstanceView, Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.tasks.claimed_task import ClaimedTask
from assent.worker.duty import Duty, DutyRun, RunResult, Schedule, WorkerContext
from assent.worker.effects import Effects
from assent.worker.loop import exhaust
from assent.worker.rescue import Rescue
from assent.worker.results import Results
from assent.worker.tasks import Tasks
from assent.worker.timers import Timers
from tests.plain_sql import WAIT_MAX_S
from tests.postgres import SETTINGS
from tests.world import ANN, ORG, drain, effects, fetch, rows, steps_of


async def events(database: Database) -> list[asyncpg.Record]:
    return await fetch(
        database,
        "SELECT * FROM assent.workflow_events_outbox WHERE org_id <> 'aatwin' ORDER BY created_at, id",
    )


async def run_until_done(duty: Duty) -> RunResult:
    """Run a duty until it has nothing more to do; what all of its runs did. Its errors are the test's."""
    runs: list[DutyRun] = []
    await exhaust(duty, runs.append)
    for run in runs:
        if run.error is not None:
            raise run.error
    parts: dict[str, int] = {}
    for run in runs:
        parts |= {name: parts.get(name, 0) + number for name, number in run.done.parts.items()}
    return RunResult(sum(run.done.count for run in runs), parts=parts)


def with_options(place: WorkerContext, **options: Any) -> WorkerContext:
    return replace(place, options=place.options.replace(**options))


@asynccontextmanager
async def second_worker(place: WorkerContext) -> AsyncIterator[WorkerContext]:
    """The same workplace over connections of its own, as another process would have it."""
    other = await Database.open(place.database.url, settings=SETTINGS, clock=place.database.clock)
    try:
        yield replace(place, database=other, lease=Lease())
    finally:
        await other.close()


NEVER_S = 3_600.0
"""An interval that is never the reason that a test passes."""


@dataclass
class ScriptedDuty:
    """A duty that does what the script says, run by run, and then finds nothing."""

    script: list[RunResult | Exception] = field(default_factory=list)
    pace: Schedule = field(default_factory=lambda: Schedule(NEVER_S))
    name: str = "scripted"
    before: Callable[[], None] = lambda: None
    before_once: Callable[[], None] | None = None

    async def run_once(self) -> RunResult:
        self.before()
        once, self.before_once = self.before_once, None
        if once is not None:
            once()
        await asyncio.sleep(0)
        step = self.script.pop(0) if self.script else RunResult()
        if isinstance(step, Exception):
            raise step
        return step


class Runs:
    """Collects the runs of duties, and lets a test wait for the next."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[DutyRun] = asyncio.Queue()

    def __call__(self, run: DutyRun) -> None:
        self.queue.put_nowait(run)

    async def next(self) -> DutyRun:
        async with asyncio.timeout(WAIT_MAX_S):
            return await self.queue.get()


LOCAL = EffectSettings(
    allow=Allowed.read(["127.0.0.0/8"]), connect_timeout_ms=2_000, read_timeout_ms=300, total_timeout_ms=1_000
)
"""Receivers on this machine, and short timeouts."""


class EffectsWorker:
    """A worker of effects that a test steps, with the engine that it reports to."""

    def __init__(self, place: WorkerContext) -> None:
        assert place.runtime is not None
        self.place = place
        self.runtime: Runtime = place.runtime
        self.database: Database = place.database
        self.duty = Effects(place)

    def sending(
        self, smtp: SmtpSettings | None = None, *, public_url: str = "", **settings: Any
    ) -> "EffectsWorker":
        """Return the same worker with other settings for sending."""
        sending = self.place.sending
        changed = replace(
            sending,
            effects=sending.effects.replace(**settings),
            smtp=smtp or sending.smtp,
            public=sending.public.replace(url=public_url),
        )
        return EffectsWorker(replace(self.place, sending=changed))

    def with_options(self, **options: Any) -> "EffectsWorker":
        return EffectsWorker(with_options(self.place, **options))

    async def close(self) -> None:
        await self.duty.finish()

    async def send(self) -> dict[str, int]:
        """Send what is due; how many attempts ended how."""
        done: RunResult = await run_until_done(self.duty)
        return dict(done.parts)

    async def work(self) -> None:
        """Send what is due, and let the engine hear of it."""
        await self.send()
        await drain(self.runtime)

    async def timers(self) -> None:
        await run_until_done(Timers(self.place))
        await drain(self.runtime)

    async def start(self, flow: str, **data: Any) -> InstanceView:
        return await self.runtime.org(ORG, ANN).instances.start(flow, data)

    async def effects(self) -> list[dict[str, Any]]:
        return sorted(await effects(self.database), key=lambda row: row["id"])

    async def effect(self) -> dict[str, Any]:
        (found,) = await self.effects()
        return found

    async def step(self, instance_id: UUID, node: str) -> dict[str, Any]:
        found = [step for step in await steps_of(self.database, instance_id) if step["node_id"] == node]
        return found[-1]

    async def instance(self, instance_id: UUID) -> dict[str, Any]:
        instances = await rows(self.database, "workflow_instances")
        (found,) = [row for row in instances if row["id"] == instance_id]
        return found

    async def status(self, instance_id: UUID) -> str:
        status: str = (await self.instance(instance_id))["status"]
        return status

    async def context(self, instance_id: UUID) -> dict[str, Any]:
        context: dict[str, Any] = (await self.instance(instance_id))["context_json"]
        return context


def open_effects_worker(app: App, database: Database) -> EffectsWorker:
    """Return a worker of an application's effects that may send to this machine."""
    return EffectsWorker(
        WorkerContext(database, runtime=app.runtime(database), sending=SendingSettings(LOCAL))
    )


TASKS = """
SELECT j.*, j.lane AS type, s.input, s.key, s.submitted_by, s.instance_id, s.step_id, s.awaited, s.trace_id
  FROM assent.jobs j JOIN assent.task_submissions s USING (org_id, id) WHERE org_id <> 'aatwin' ORDER BY j.id
"""
ATTEMPTS = "SELECT * FROM assent.job_attempts WHERE org_id <> 'aatwin' AND job_id = $1 ORDER BY attempt"


class TasksWorker:
    """A worker of an application's tasks that a test steps."""

    def __init__(self, app: App, database: Database, **options: Any) -> None:
        self.app = app
        self.database = database
        self.runtime: Runtime = app.runtime(database)
        self.place = with_options(WorkerContext(database, runtime=self.runtime), **options)
        self.duty = Tasks(self.place)

    async def submit(self, type: str, input: Any = None, actor: Actor | None = None, **rest: Any) -> UUID:
        return (await self.runtime.org(ORG, actor).tasks.submit(type, input, **rest)).id

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
        return [dict(row) for row in await fetch(self.database, TASKS)]

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


OpenTasksWorker = Callable[..., TasksWorker]


DELIVERIES = """
SELECT d.*, j.status, j.attempts, j.attempts_max, j.run_at, j.worker_id, j.losses, j.suspect, j.ended_at, a.error
  FROM assent.outside_request_deliveries d JOIN assent.jobs j USING (org_id, id)
  LEFT JOIN LATERAL (SELECT t.error FROM assent.job_attempts t WHERE t.org_id = d.org_id AND t.job_id = d.id
                      ORDER BY t.attempt DESC LIMIT 1) AS a ON true
 WHERE d.org_id <> 'aatwin' ORDER BY d.position
"""


@dataclass
class ResultsWorker:
    """A worker of results that a test steps, with the engine that it reports to."""

    runtime: Runtime
    database: Database
    clock: MovedClock

    async def start(self, flow: str = "kyc", org: str = ORG) -> InstanceView:
        return await self.runtime.org(org, ANN).instances.start(flow, {"client": "c-1"})

    async def push(self, request_id: UUID, key: str = "k", *items: Any, **rest: Any) -> str:
        given = items if items or "status" in rest else ({"cargo": "external://vault/1"},)
        return await self.runtime.org(ORG).requests.push_result(request_id, key, list(given), **rest)

    async def work(self) -> dict[str, int]:
        """Fold what came, and let the engine hear of it."""
        done = await run_until_done(Results(WorkerContext(self.database, runtime=self.runtime)))
        await drain(self.runtime)
        return dict(done.parts)

    async def request(self) -> dict[str, Any]:
        (found,) = await rows(self.database, "outside_requests")
        return found

    async def requests(self) -> list[dict[str, Any]]:
        return sorted(await rows(self.database, "outside_requests"), key=lambda row: row["id"])

    async def deliveries(self) -> list[dict[str, Any]]:
        async with self.database.transaction(None) as connection:
            return [dict(row) for row in await connection.fetch(DELIVERIES)]

    async def items(self) -> list[dict[str, Any]]:
        return sorted(await rows(self.database, "outside_request_items"), key=lambda row: row["id"])

    async def history(self) -> list[tuple[str, str]]:
        found = sorted(await rows(self.database, "outside_request_history"), key=lambda row: row["at"])
        return [(row["what"], row["source"]) for row in found]

    async def instance(self) -> dict[str, Any]:
        (found,) = await rows(self.database, "workflow_instances")
        return found

    async def ended_at(self) -> str:
        """The terminal step that the instance came to."""
        steps = await rows(self.database, "workflow_step_executions")
        (found,) = [step["node_id"] for step in steps if step["node_type"] == "end"]
        return str(found)
