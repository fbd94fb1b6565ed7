"""Tasks that do nothing: submitted and drained by the second, and how long one waits until it is begun."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import quantiles

from assent.app import App
from assent.runtime import Runtime
from assent.runtime.task_commands import NewTask
from assent.worker.duty import DutyRun, Observer, WorkerContext
from assent.worker.options import Options
from assent.worker.supervisor import Supervisor
from assent.worker.tasks import Tasks
from bench.report import Measurement, Report
from bench.server import fresh_database

RUNS = 3
TASKS = 20_000
BATCH = 1_000
SINGLES = 200
ORG = "acme"

app = App()
begun: "asyncio.Queue[float]" = asyncio.Queue()


@app.task("bench.nothing")
async def nothing() -> None: ...


@app.task("bench.ring")
async def ring() -> None:
    begun.put_nowait(time.perf_counter())


async def measure() -> Report:
    submitted, drained = [], []
    async with fresh_database() as database:
        runtime = app.runtime(database)
        place = WorkerContext(database, Options(), runtime)
        for number in range(RUNS + 1):
            rates = await _submit(runtime), await _drain(place)
            if number:  # the first round warms caches and plans
                submitted.append(rates[0])
                drained.append(rates[1])
        waits_ms = await _waits_ms(place, runtime)
    p95 = quantiles(waits_ms, n=20)[-1]
    measurements = [
        Measurement(f"submitted, {BATCH:,} at a time", "tasks/s", submitted),
        Measurement("backlog drained", "tasks/s", drained),
        Measurement("from submission to begin, one at a time", "ms", waits_ms, {"p95": p95}),
    ]
    return Report("tasks", "Tasks that do nothing, one worker process", measurements)


async def _submit(runtime: Runtime) -> float:
    started = time.perf_counter()
    for _ in range(TASKS // BATCH):
        await runtime.org(ORG).tasks.submit_many([NewTask("bench.nothing")] * BATCH)
    return TASKS / (time.perf_counter() - started)


async def _drain(place: WorkerContext) -> float:
    done, all_done = 0, asyncio.Event()

    def observe(run: DutyRun) -> None:
        nonlocal done
        done += run.done.count
        if done >= TASKS:
            all_done.set()

    started = time.perf_counter()
    async with _working(place, observe):
        await all_done.wait()
        return TASKS / (time.perf_counter() - started)


async def _waits_ms(place: WorkerContext, runtime: Runtime) -> list[float]:
    waits = []
    async with _working(place, lambda run: None):
        for number in range(SINGLES + 20):
            submitted = time.perf_counter()
            await runtime.org(ORG).tasks.submit("bench.ring")
            wait_ms = (await begun.get() - submitted) * 1000
            if number >= 20:  # the worker listens by then
                waits.append(wait_ms)
    return waits


@asynccontextmanager
async def _working(place: WorkerContext, observe: Observer) -> AsyncIterator[None]:
    supervisor = Supervisor(place.database, [Tasks(place)], place.options, [observe])
    running = asyncio.create_task(supervisor.run())
    try:
        yield
    finally:
        supervisor.stop()
        await running
