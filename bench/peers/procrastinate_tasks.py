"""Procrastinate: jobs that do nothing, deferred 1,000 at a time and drained by one worker, 20 at a time."""

import asyncio
import logging
import sys
import time
from contextlib import suppress

from procrastinate import App, PsycopgConnector

from bench.child import ChildRun
from bench.peers.waits import BeginTimes

AT_ONCE = 1_000
CONCURRENCY = 20


async def measure(url: str, tasks: int, singles: int) -> ChildRun:
    logging.disable(logging.CRITICAL)
    app, waits, done = (
        App(connector=PsycopgConnector(conninfo=url, min_size=10, max_size=10)),
        BeginTimes(),
        0,
    )

    @app.task(name="nothing")
    async def nothing() -> None:
        nonlocal done
        done += 1

    @app.task(name="ring")
    async def ring() -> None:
        waits.begin()

    async def drain(count: int) -> float:
        nonlocal done
        done = 0
        for start in range(0, count, AT_ONCE):
            await nothing.batch_defer_async(*({} for _ in range(min(AT_ONCE, count - start))))
        began_s = time.perf_counter()
        await app.run_worker_async(concurrency=CONCURRENCY, wait=False, install_signal_handlers=False)
        return time.perf_counter() - began_s

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await drain(200)
        seconds = await drain(tasks)
        units = done
        worker = app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
        running = asyncio.create_task(worker)
        waits_ms = await waits.measure_ms(ring.defer_async, singles)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    return ChildRun(units, seconds, {"waits_ms": waits_ms})


if __name__ == "__main__":
    asyncio.run(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))).hand_over()
