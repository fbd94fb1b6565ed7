"""A process of its own on a test's database: does what it is told line by line, and answers each with a line.

Run by `tests.processes.spawn`. Time stands still at the moment that the test names.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from assent.effects.addresses import Allowed
from assent.effects.settings import EffectSettings, SendingSettings
from assent.model.ids import new_id
from assent.model.mutation import Refused
from assent.runtime import InstanceView, Runtime, receipts
from assent.runtime.errors import ReceiptTaken
from assent.runtime.event_processor import EventProcessor
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import DutyRun, WorkerContext
from assent.worker.effects import Effects
from assent.worker.loop import exhaust
from assent.worker.options import Options
from assent.worker.results import Results
from assent.worker.schedules import Schedules
from assent.worker.tasks import Tasks
from assent.worker.timers import Timeouts, Timers
from tests.postgres import SETTINGS
from tests.processes.application import app
from tests.world import ANN, ORG

PATIENT = EffectSettings(allow=Allowed.read(["127.0.0.0/8"]))


def seen(view: InstanceView) -> dict[str, Any]:
    waiting = [waiting.name for waiting in view.waiting]
    return {"status": view.status, "version": view.version, "waiting": waiting}


async def advance(runtime: Runtime, instance: str, event: str, **rest: Any) -> Any:
    return seen(await runtime.org(ORG, ANN).instances.advance(UUID(instance), event, **rest))


async def advance_often(runtime: Runtime, instance: str, event: str, times: int) -> Any:
    """How often the event was taken; being refused is no error."""
    done = 0
    for _ in range(times):
        try:
            await runtime.org(ORG, ANN).instances.advance(UUID(instance), event)
        except Refused:
            continue
        done += 1
    return done


async def transition(runtime: Runtime, entity: str, name: str) -> Any:
    return seen(await runtime.org(ORG, ANN).entities.transition(UUID(entity), name))


async def start(runtime: Runtime, flow: str, **rest: Any) -> Any:
    view = await runtime.org(ORG, ANN).instances.start(flow, **rest)
    return {"id": str(view.id), **seen(view)}


async def process(runtime: Runtime, limit: int = 200) -> Any:
    return await EventProcessor(runtime.core).process_events(limit)


async def process_until_empty(runtime: Runtime, limit: int = 200) -> Any:
    total = 0
    processor = EventProcessor(runtime.core)
    while handled := await processor.process_events(limit):
        total += handled
    return total


async def recover(runtime: Runtime) -> Any:
    return await EventProcessor(runtime.core).recover_batches()


async def take_receipts(runtime: Runtime, instance: str, keys: list[str]) -> Any:
    """How many of these receipts this process was given, each asked for in a transaction of its own."""
    given = 0
    for key in keys:
        now = runtime.database.clock.now()
        receipt = (ORG, UUID(instance), key, new_id(now), "write")
        with suppress(ReceiptTaken):
            async with runtime.database.transaction(ORG) as connection:
                await receipts.take_receipts(connection, [receipt], now, copies=False)
            given += 1
    return given


async def tell_times(runtime: Runtime) -> Any:
    """Run the duties that look at the clock, once."""
    place = WorkerContext(runtime.database)
    return [(await duty(place).run_once()).count for duty in (Timers, Timeouts)]


async def send_effects(runtime: Runtime) -> Any:
    """Send what is due to receivers on this machine; how many attempts ended how."""
    duty = Effects(WorkerContext(runtime.database, runtime=runtime, sending=SendingSettings(PATIENT)))
    runs: list[DutyRun] = []
    await exhaust(duty, runs.append)
    return [str(run.error) if run.error else dict(run.done.parts) for run in runs]


async def run_tasks(runtime: Runtime) -> Any:
    """Run the tasks that are due; how many attempts ended how."""
    duty = Tasks(WorkerContext(runtime.database, runtime=runtime))
    runs: list[DutyRun] = []
    await exhaust(duty, runs.append)
    return [str(run.error) if run.error else dict(run.done.parts) for run in runs]


async def fire_schedules(runtime: Runtime) -> Any:
    """Start the tasks of the schedules whose time has come, one schedule at a time; how many tasks."""
    duty = Schedules(WorkerContext(runtime.database, Options(schedules_batch_max=1), runtime))
    runs: list[DutyRun] = []
    await exhaust(duty, runs.append)
    return [str(run.error) if run.error else run.done.count for run in runs]


async def fold_results(runtime: Runtime) -> Any:
    """Take in what outside parties have sent; how many bundles became what."""
    return dict((await Results(WorkerContext(runtime.database)).run_once()).parts)


JOBS: dict[str, Callable[..., Awaitable[Any]]] = {
    job.__name__: job
    for job in (
        advance,
        advance_often,
        transition,
        start,
        process,
        process_until_empty,
        recover,
        take_receipts,
        tell_times,
        send_effects,
        run_tasks,
        fire_schedules,
        fold_results,
    )
}


async def answer(runtime: Runtime, line: str) -> dict[str, Any]:
    asked = json.loads(line)
    try:
        return {"answer": await JOBS[asked.pop("job")](runtime, **asked)}
    except Refused as refusal:
        return {"refused": refusal.code}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


async def serve(url: str, now: str) -> None:
    clock = MovedClock(datetime.fromisoformat(now))
    database = await Database.open(url, settings=SETTINGS, clock=clock)
    runtime = app.runtime(database)
    print(json.dumps({"answer": "ready"}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await answer(runtime, line)), flush=True)
    await database.close()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
