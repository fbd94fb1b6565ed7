"""Assent: flows of ten script steps, a backlog of events drained by one worker process."""

import asyncio
import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from assent.app import App
from assent.definitions import publish_flow
from assent.model.actor import SYSTEM
from assent.runtime import Runtime
from assent.runtime.event_processor import EventProcessor
from assent.store.database import Database
from assent.worker.options import Options
from bench.child import Run
from bench.server import server_cpu_s

ORG = "bench"
LANES = Options().events_lanes

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


async def measure(url: str, workflows: int, warm_up: int) -> Run:
    database = await Database.open(url)
    try:
        runtime = app.runtime(database)
        async with database.transaction(None) as connection:
            await publish_flow(connection, ORG, FLOW, SYSTEM, database.clock.now())
            backend = connection.get_server_pid()
        await _drain(runtime, warm_up, backend)
        before = await _steps(database)
        seconds, python_s, server_s = await _drain(runtime, workflows, backend)
        steps = await _steps(database) - before
        cpu = {"python_us": python_s / steps * 1e6, "postgresql_us": server_s / steps * 1e6}
        return Run(steps, seconds, cpu)
    finally:
        await database.close()


async def _drain(runtime: Runtime, workflows: int, backend: int) -> tuple[float, float, float]:
    """Run the workflows; return the seconds that it took, and those of CPU in this process and in the server."""
    inputs: list[Mapping[str, Any]] = [{"number": number} for number in range(workflows)]
    await runtime.org(ORG, SYSTEM).instances.start_many(FLOW["flow"], inputs)
    started = _clocks(backend)
    await asyncio.gather(*(_process_all(runtime) for _ in range(LANES)))
    wall_s, python_s, server_s = (now - then for now, then in zip(_clocks(backend), started, strict=True))
    return wall_s, python_s, server_s


def _clocks(backend: int) -> tuple[float, float, float]:
    return time.perf_counter(), time.process_time(), server_cpu_s(backend)


async def _process_all(runtime: Runtime) -> None:
    processor = EventProcessor(runtime.core)
    while await processor.process_events():
        pass


async def _steps(database: Database) -> int:
    """Completed steps of the ten, and not of the start and the end that a flow has besides."""
    async with database.transaction(None) as connection:
        count: int = await connection.fetchval(
            "SELECT count(*) FROM assent.workflow_step_executions"
            " WHERE node_type = 'script' AND status = 'completed'"
        )
    return count


if __name__ == "__main__":
    asyncio.run(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))).hand_over()
