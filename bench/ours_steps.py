"""Assent: flows of ten script steps, a backlog of events drained by one worker process or by several.

`python -m bench.ours_steps URL` is one more worker process: for each line that it reads it drains what there is.
"""

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import psutil

from assent.app import App
from assent.definitions import EVERYBODY, publish_flow
from assent.model.actor import SYSTEM, Authority
from assent.model.ids import new_id
from assent.model.mutation import Event
from assent.outbox.events import emit_events
from assent.runtime import Runtime
from assent.runtime.event_inputs import ON_START
from assent.runtime.event_processor import EventProcessor
from assent.store.database import Database
from assent.worker.options import Options
from assent.worker.process import collect_less_often
from bench.child import ChildRun
from bench.server import server_cpu_s

ORG = "bench"
LANES = Options().events_lanes
EMITTED_AT_ONCE = 2_000

app = App()


def flow_of(key: str, steps: int) -> dict[str, Any]:
    """A flow of so many script steps, one after the other."""
    names = [f"s{number}" for number in range(steps)]
    scripts = [
        {"id": name, "type": "script", "set": {"above": f"workflow.number > {number}"}}
        for number, name in enumerate(names)
    ]
    return {
        "flow": key,
        "version": 1,
        "start": names[0],
        "steps": [*scripts, {"id": "done", "type": "terminal"}],
        "transitions": [{"from": here, "to": there} for here, there in pairwise([*names, "done"])],
    }


FLOW = flow_of("bench.ten_steps", steps=10)


@dataclass(frozen=True, slots=True)
class Drain:
    """What one process did of a backlog."""

    cpu_s: float
    batch_s_max: float
    """How long the slowest batch took."""
    memory_mb: float
    """The most memory that the process had between two batches."""


async def measure(url: str, workflows: int, warm_up: int, processes: int = 1, orgs: int = 1) -> ChildRun:
    """Drain one event for each workflow, in turns of the orgs; the warm-up is of as many processes."""
    async with AsyncExitStack() as stack:
        collect_less_often()  # as every worker process does
        database = await Database.open(url)
        stack.push_async_callback(database.close)
        async with database.transaction(None) as connection:
            await publish_flow(connection, EVERYBODY, FLOW, SYSTEM, database.clock.now())
            backend = connection.get_server_pid()
        others = [await stack.enter_async_context(_another(url)) for _ in range(processes - 1)]
        runtime = app.runtime(database)
        await _emit(database, warm_up, orgs)
        warm = await _drain_together(runtime, others)
        await _emit(database, workflows, orgs)
        before, server_before_s, began_s = await _steps(database), server_cpu_s(backend), time.perf_counter()
        drains = await _drain_together(runtime, others)
        seconds, server_s = time.perf_counter() - began_s, server_cpu_s(backend) - server_before_s
        steps = await _steps(database) - before
    return ChildRun(
        steps,
        seconds,
        {
            "python_us": sum(drain.cpu_s for drain in drains) / steps * 1e6,
            "postgresql_us": server_s / steps * 1e6,
            "batch_s_max": max(drain.batch_s_max for drain in drains),
            "memory_mb": max(drain.memory_mb for drain in drains),
            "memory_mb_warm": max(drain.memory_mb for drain in warm),
        },
    )


async def _emit(database: Database, number: int, orgs: int) -> None:
    """Put the events into the outbox that start as many flows, as `start_many` would."""
    now = database.clock.now()
    authority = Authority.of(SYSTEM).to_json()
    about = {"flow": FLOW["flow"], "actor": SYSTEM.id, "authority": authority, "granted": True}
    names = [ORG] if orgs == 1 else [f"org{one:05}" for one in range(orgs)]
    for begin in range(0, number, EMITTED_AT_ONCE):
        ids = [(one, new_id(now)) for one in range(begin, min(begin + EMITTED_AT_ONCE, number))]
        events = [
            Event(
                *(names[one % orgs], new_id(now), ON_START),
                {**about, "cause": str(instance_id), "data": {"number": one}},
                instance_id,
            )
            for one, instance_id in ids
        ]
        async with database.transaction(None) as connection:
            await emit_events(connection, events, now)


async def _drain_together(runtime: Runtime, others: Sequence[Process]) -> list[Drain]:
    for other in others:
        assert other.stdin is not None
        other.stdin.write(b"drain\n")
    drains = [await _drain(runtime)]
    for other in others:
        assert other.stdout is not None
        drains.append(Drain(**json.loads(await other.stdout.readline())))
    return drains


async def _drain(runtime: Runtime) -> Drain:
    took_s, memory_b, began_s = [0.0], [0], time.process_time()
    this = psutil.Process()

    async def process_all() -> None:
        processor, done = EventProcessor(runtime.core), 1
        while done:
            batch_began_s = time.perf_counter()
            done = await processor.process_events()
            took_s.append(time.perf_counter() - batch_began_s)
            memory_b.append(this.memory_info().rss)

    await asyncio.gather(*(process_all() for _ in range(LANES)))
    return Drain(time.process_time() - began_s, max(took_s), max(memory_b) / 1e6)


async def _steps(database: Database) -> int:
    """Completed steps of the ten, and not of the start and the end that a flow has besides."""
    async with database.transaction(None) as connection:
        count: int = await connection.fetchval(
            "SELECT count(*) FROM assent.workflow_step_executions"
            " WHERE node_type = 'script' AND status = 'completed'"
        )
    return count


@asynccontextmanager
async def _another(url: str) -> AsyncIterator[Process]:
    words = [sys.executable, "-m", "bench.ours_steps", url]
    process = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE)
    try:
        assert process.stdout is not None
        await process.stdout.readline()  # it is ready
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def _drain_when_asked(url: str) -> None:
    collect_less_often()
    database = await Database.open(url)
    try:
        runtime = app.runtime(database)
        print("ready", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(asdict(await _drain(runtime))), flush=True)
    finally:
        await database.close()


if __name__ == "__main__":
    url, *numbers = sys.argv[1:]
    if numbers:
        asyncio.run(measure(url, *map(int, numbers))).hand_over()
    else:
        asyncio.run(_drain_when_asked(url))
