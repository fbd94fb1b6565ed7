"""Tasks a second: a backlog of tasks that do nothing is drained by one worker process."""

import time

from assent.app import App
from assent.runtime import Runtime
from assent.runtime.task_commands import NewTask
from assent.worker.duty import Run, Workplace
from assent.worker.options import Options
from assent.worker.supervisor import Supervisor
from assent.worker.tasks import Tasks
from bench.report import Measurement, Report
from bench.server import fresh_database

RUNS = 3
TASKS = 20_000
BATCH = 1_000
ORG = "acme"

app = App()


@app.task("bench.nothing")
async def nothing() -> None: ...


async def measure() -> Report:
    submitted, drained = [], []
    async with fresh_database() as database:
        place = Workplace(database, Options(), app.runtime(database))
        for number in range(RUNS + 1):
            rates = await _submit(place.runtime), await _drain(place)
            if number:  # the first round warms caches and plans
                submitted.append(rates[0])
                drained.append(rates[1])
    measurements = [
        Measurement(f"submitted, {BATCH:,} at a time", "tasks/s", submitted),
        Measurement("backlog drained", "tasks/s", drained),
    ]
    return Report("tasks", "Tasks that do nothing, one worker process", measurements)


async def _submit(runtime: Runtime | None) -> float:
    assert runtime is not None
    started = time.perf_counter()
    for _ in range(TASKS // BATCH):
        await runtime.submit_many(ORG, [NewTask("bench.nothing")] * BATCH)
    return TASKS / (time.perf_counter() - started)


async def _drain(place: Workplace) -> float:
    done = 0

    def observe(run: Run) -> None:
        nonlocal done
        done += run.done.count
        if done >= TASKS:
            supervisor.stop()

    supervisor = Supervisor(place.database, [Tasks(place)], place.options, [observe])
    started = time.perf_counter()
    await supervisor.run()
    return TASKS / (time.perf_counter() - started)
