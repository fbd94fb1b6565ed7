"""Tasks that do nothing: submitted and drained by the second, and how long one waits until it is begun.

A backlog is drained by one worker process, and in turns with that by two. `python -m bench.tasks URL` is such a
process: it works from one line of its input to the next, and says after each claim how many tasks it has done.
"""

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median, quantiles

from assent.app import App
from assent.runtime import Runtime
from assent.runtime.task_commands import NewTask
from assent.store.database import Database
from assent.worker.duty import DutyRun, Observer, WorkerContext
from assent.worker.options import Options
from assent.worker.process import collect_less_often
from assent.worker.supervisor import Supervisor
from assent.worker.tasks import Tasks
from bench.report import BenchReport, Measurement, progress
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


async def measure() -> BenchReport:
    submitted: list[float] = []
    drained: dict[int, list[float]] = {1: [], 2: []}
    async with fresh_database() as database, AsyncExitStack() as stack:
        runtime = app.runtime(database)
        workers = [await stack.enter_async_context(_worker(database.url)) for _ in range(max(drained))]
        for number in range(RUNS + 1):
            for count, rates in drained.items():
                rate = await _submit(runtime)
                found = await _drain(workers[:count])
                if number:  # the first round warms caches and plans
                    submitted.append(rate)
                    rates.append(found)
                progress(
                    f"{f'round {number} of {RUNS}' if number else 'warm-up'}: {count} drained {found:,.0f} tasks/s"
                )
        waits_ms = await _waits_ms(WorkerContext(database, Options(), runtime), runtime)
    p95 = quantiles(waits_ms, n=20)[-1]
    measurements = [
        Measurement(f"submitted, {BATCH:,} at a time", "tasks/s", submitted),
        Measurement("backlog drained by one worker", "tasks/s", drained[1]),
        Measurement("backlog drained by two workers", "tasks/s", drained[2]),
        Measurement("from submission to begin, one at a time", "ms", waits_ms, {"p95": p95}),
    ]
    ratio = median(drained[2]) / median(drained[1])
    return BenchReport("tasks", "Tasks that do nothing", measurements, {"ratio_two_workers": ratio})


async def _submit(runtime: Runtime) -> float:
    started = time.perf_counter()
    for _ in range(TASKS // BATCH):
        await runtime.org(ORG).tasks.submit_many([NewTask("bench.nothing")] * BATCH)
    return TASKS / (time.perf_counter() - started)


async def _drain(workers: Sequence[Process]) -> float:
    began_s, done = time.perf_counter(), 0

    async def read(worker: Process) -> None:
        nonlocal done
        assert worker.stdout is not None
        while (said := (await worker.stdout.readline()).strip()) != b"stopped":
            done += int(said)
            if done >= TASKS:
                took_s.append(time.perf_counter() - began_s)
                _tell(workers)

    took_s: list[float] = []
    _tell(workers)
    await asyncio.gather(*map(read, workers))
    if done != TASKS:
        raise RuntimeError(f"Expected {TASKS} tasks to be done, found {done}")
    return TASKS / took_s[0]


def _tell(workers: Sequence[Process]) -> None:
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"\n")


@asynccontextmanager
async def _worker(url: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.tasks", url), stdin=PIPE, stdout=PIPE
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()  # it is ready
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def _work(url: str) -> None:
    def say(run: DutyRun) -> None:
        if run.done.count:
            print(run.done.count, flush=True)

    collect_less_often()  # as every worker process does
    database = await Database.open(url)
    try:
        place = WorkerContext(database, Options(), app.runtime(database))
        print("ready", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            async with _working(place, say):
                await asyncio.to_thread(sys.stdin.readline)
            print("stopped", flush=True)
    finally:
        await database.close()


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


if __name__ == "__main__":
    asyncio.run(_work(sys.argv[1]))
