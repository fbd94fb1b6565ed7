"""From the commit of an event to the commit of its step, on a worker that has nothing else to do; with peers beside.

Every worker is a process of its own, woken by NOTIFY. Times are PostgreSQL's own, kept with each commit, so nothing
that measures takes part in what is measured. The rounds are interleaved.

Procrastinate: from the commit of a job to the commit of its end. DBOS: from the return of `send` to a workflow that
waits in `recv` (so a little less than from its commit) to the commit of the step that follows.
"""

import asyncio
import os
import random
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles

from dbos import DBOSClient

from assent.definitions import publish_flow
from assent.model.actor import SYSTEM
from assent.runtime import Runtime
from assent.store.database import Database
from assent.store.queries import load_queries
from bench.ours_steps import ORG, app, flow_of
from bench.peers import dbos_messages
from bench.peers.procrastinate_jobs import ProcrastinateJobs
from bench.report import BenchReport, Measurement, progress
from bench.server import BenchServer, fresh_server

ROUNDS = 5
EVENTS = 100
PAUSE_S = (0.01, 0.05)
"""Between two events: long enough for the worker to be idle, and never in step with its polling."""

FLOW = flow_of("bench.one_step", steps=1)

Round = Callable[[], Awaitable[list[float]]]
"""Gives the worker EVENTS events one by one; returns the latency of each in milliseconds."""

_SQL = load_queries("bench", "latency.sql")


async def measure() -> BenchReport:
    rounds: dict[str, list[list[float]]] = {"ours": [], "procrastinate": [], "dbos": []}
    async with fresh_server(track_commit_timestamp="on") as server, AsyncExitStack() as stack:
        contenders: dict[str, Round] = {
            "ours": await stack.enter_async_context(_ours(server)),
            "procrastinate": await stack.enter_async_context(_procrastinate(server)),
            "dbos": await stack.enter_async_context(_dbos(server)),
        }
        for number in range(ROUNDS + 1):  # the first round warms caches and plans
            for name, latencies_ms in contenders.items():
                rounds[name].append(await latencies_ms())
            latest = ", ".join(f"{name} {median(made[-1]):.1f} ms" for name, made in rounds.items())
            progress(f"{f'round {number} of {ROUNDS}' if number else 'warm-up'}: {latest}")
    return _report({name: made[1:] for name, made in rounds.items()})


@asynccontextmanager
async def _ours(server: BenchServer) -> AsyncIterator[Round]:
    database = await Database.open(await server.create_ours("latency"))
    try:
        runtime = app.runtime(database)
        async with database.transaction(None) as connection:
            await publish_flow(connection, ORG, FLOW, SYSTEM, database.clock.now())
        program = str(Path(sys.executable).with_name("assent"))
        words = [program, "worker", "--json", "--app", "bench.ours_steps:app"]
        async with _worker(words, {"ASSENT_DATABASE_URL": database.url}):
            yield lambda: _our_round(runtime)
    finally:
        await database.close()


async def _our_round(runtime: Runtime) -> list[float]:
    ids = []
    for _ in range(EVENTS):
        ids += await runtime.org(ORG, SYSTEM).instances.start_many(FLOW["flow"], [{"number": 1}])
        await _pause()
    async with asyncio.timeout(30), runtime.database.transaction(None) as connection:
        while await connection.fetchval(_SQL.count_open, ids, ORG):  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.05)
        rows = await connection.fetch(_SQL.read_latencies_ms, ids, ORG)
    return _complete([float(row["latency_ms"]) for row in rows])


@asynccontextmanager
async def _procrastinate(server: BenchServer) -> AsyncIterator[Round]:
    jobs = ProcrastinateJobs(url := await server.create("procrastinate"))
    async with jobs.app.open_async():
        await jobs.app.schema_manager.apply_schema_async()
        async with _worker([sys.executable, "-m", "bench.peers.procrastinate_jobs", url]):

            async def latencies_ms() -> list[float]:
                ids = []
                for _ in range(EVENTS):
                    ids.append(await jobs.submit())
                    await _pause()
                async with asyncio.timeout(60):
                    while len(found := await jobs.latencies_ms(ids)) < EVENTS:  # noqa: ASYNC110 - in another process
                        await asyncio.sleep(0.05)
                return _complete(found)

            yield latencies_ms


@asynccontextmanager
async def _dbos(server: BenchServer) -> AsyncIterator[Round]:
    url = await server.create("dbos")
    begun = 0
    async with _worker([sys.executable, "-m", "bench.peers.dbos_messages", url]):
        client = DBOSClient(system_database_url=url, lazy=True)

        async def latencies_ms() -> list[float]:
            nonlocal begun
            ids, begun = await asyncio.to_thread(dbos_messages.start, client, EVENTS), begun + EVENTS
            async with asyncio.timeout(60):
                while await asyncio.to_thread(dbos_messages.count_waiting, url) < begun:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            sent_ms = {}
            for workflow_id in ids:
                await client.send_async(workflow_id, "go")
                sent_ms[workflow_id] = time.time() * 1000
                await _pause()
            async with asyncio.timeout(60):
                read = partial(dbos_messages.latencies_ms, url, sent_ms)
                while len(found := await asyncio.to_thread(read)) < EVENTS:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            return _complete(found)

        yield latencies_ms
        client.destroy()


@asynccontextmanager
async def _worker(words: Sequence[str], environment: dict[str, str] | None = None) -> AsyncIterator[Process]:
    env = os.environ | (environment or {})
    worker = await asyncio.create_subprocess_exec(*words, env=env, stdout=DEVNULL, stderr=DEVNULL)
    try:
        yield worker
    finally:
        worker.send_signal(signal.SIGTERM)
        await worker.wait()


async def _pause() -> None:
    await asyncio.sleep(random.uniform(*PAUSE_S))  # noqa: S311 - no secret


def _complete(latencies_ms: list[float]) -> list[float]:
    if len(latencies_ms) != EVENTS:
        raise RuntimeError(f"Expected a step for each of {EVENTS} events, found {len(latencies_ms)}")
    return latencies_ms


def _report(rounds: dict[str, list[list[float]]]) -> BenchReport:
    cuts = {name: [quantiles(one, n=20) for one in made] for name, made in rounds.items()}
    p50 = {name: median(one[9] for one in made) for name, made in cuts.items()}
    return BenchReport(
        "latency",
        "From the commit of an event to the commit of its step, on an idle worker",
        [
            Measurement(f"{name}: {quantile}", "ms", [one[at] for one in made], {"events": EVENTS})
            for name, made in cuts.items()
            for quantile, at in (("p50", 9), ("p95", 18))
        ],
        {"p50_ms": p50["ours"], "p95_ms": median(one[18] for one in cuts["ours"])}
        | {f"ratio_{peer}": p50["ours"] / p50[peer] for peer in ("procrastinate", "dbos")},
    )
