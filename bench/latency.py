"""From the commit of an event to the commit of its step, on a worker that has nothing else to do.

The worker is a real one in a process of its own, woken by NOTIFY. Both times are PostgreSQL's own, kept with each
commit, so nothing that measures takes part in what is measured.
"""

import asyncio
import os
import random
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import quantiles

from assent.definitions import publish_flow
from assent.model.actor import SYSTEM
from assent.runtime import Runtime
from assent.store.database import Database
from assent.store.queries import load_queries
from bench.ours_steps import ORG, app, flow_of
from bench.report import Measurement, Report, progress
from bench.server import fresh_server

ROUNDS = 5
EVENTS = 100
PAUSE_S = (0.01, 0.05)
"""Between two events: long enough for the worker to be idle, and never in step with its polling."""

FLOW = flow_of("bench.one_step", steps=1)

_SQL = load_queries("bench", "latency.sql")


async def measure() -> Report:
    p50, p95 = [], []
    async with fresh_server(track_commit_timestamp="on") as server:
        database = await Database.open(await server.create_ours("latency"))
        try:
            runtime = app.runtime(database)
            async with database.transaction(None) as connection:
                await publish_flow(connection, ORG, FLOW, SYSTEM, database.clock.now())
            async with _worker(database.url):
                await _latencies_ms(runtime)  # warms caches and plans
                for number in range(ROUNDS):
                    cuts = quantiles(await _latencies_ms(runtime), n=20)
                    p50.append(cuts[9])
                    p95.append(cuts[18])
                    progress(f"round {number + 1} of {ROUNDS}: p50 {p50[-1]:.1f} ms, p95 {p95[-1]:.1f} ms")
        finally:
            await database.close()
    return Report(
        "latency",
        "From the commit of an event to the commit of its step, on an idle worker",
        [
            Measurement("p50", "ms", p50, {"events": EVENTS}),
            Measurement("p95", "ms", p95, {"events": EVENTS}),
        ],
    )


@asynccontextmanager
async def _worker(url: str) -> AsyncIterator[Process]:
    words = [
        str(Path(sys.executable).with_name("assent")),
        "worker",
        "--json",
        "--app",
        "bench.ours_steps:app",
    ]
    environment = os.environ | {"ASSENT_DATABASE_URL": url}
    worker = await asyncio.create_subprocess_exec(*words, env=environment, stdout=DEVNULL, stderr=DEVNULL)
    try:
        yield worker
    finally:
        worker.send_signal(signal.SIGTERM)
        await worker.wait()


async def _latencies_ms(runtime: Runtime) -> list[float]:
    ids = []
    for _ in range(EVENTS):
        ids += await runtime.org(ORG, SYSTEM).instances.start_many(FLOW["flow"], [{"number": 1}])
        await asyncio.sleep(random.uniform(*PAUSE_S))  # noqa: S311 - no secret
    async with asyncio.timeout(30), runtime.database.transaction(None) as connection:
        while await connection.fetchval(_SQL.count_open, ids, ORG):  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.05)
        rows = await connection.fetch(_SQL.read_latencies_ms, ids, ORG)
    if len(rows) != EVENTS:
        raise RuntimeError(f"Expected a step for each of {EVENTS} events, found {len(rows)}")
    return [float(row["latency_ms"]) for row in rows]
