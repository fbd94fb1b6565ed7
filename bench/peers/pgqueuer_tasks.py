"""pgqueuer: jobs that do nothing, enqueued 1,000 at a time and drained in batches of 200, its fastest; on uvloop."""

import asyncio
import logging
import sys
import time

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from bench.child import ChildRun
from bench.peers.waits import BeginTimes

AT_ONCE = 1_000
BATCH = 200
LATENCY_BATCH = 10


async def measure(url: str, tasks: int, singles: int) -> ChildRun:
    logging.disable(logging.CRITICAL)
    waits, done = BeginTimes(), 0
    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    await queries.install()

    async def open_worker() -> PgQueuer:
        worker = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))

        @worker.entrypoint("nothing")
        async def nothing(job: object) -> None:
            nonlocal done
            done += 1

        @worker.entrypoint("ring")
        async def ring(job: object) -> None:
            waits.begin()

        return worker

    async def drain(count: int) -> float:
        nonlocal done
        done = 0
        for start in range(0, count, AT_ONCE):
            number = min(AT_ONCE, count - start)
            await queries.enqueue(["nothing"] * number, [None] * number, [0] * number)
        worker = await open_worker()
        began_s = time.perf_counter()
        await worker.qm.run(batch_size=BATCH, mode=QueueExecutionMode.drain)
        return time.perf_counter() - began_s

    await drain(AT_ONCE)
    seconds = await drain(tasks)
    units, worker = done, await open_worker()
    running = asyncio.create_task(worker.qm.run(batch_size=LATENCY_BATCH))
    waits_ms = await waits.measure_ms(lambda: queries.enqueue("ring", None), singles)
    worker.qm.shutdown.set()
    await running
    return ChildRun(units, seconds, {"waits_ms": waits_ms})


if __name__ == "__main__":
    uvloop.run(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))).hand_over()
