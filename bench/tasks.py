"""Tasks that do nothing: submitted and drained by the second, and how long one waits until it is begun; beside peers.

A backlog is drained by one worker process, and in turns with that by two and by each peer in its fastest mode, on one
server. `python -m bench.tasks URL` is such a process: it works from one line of its input to the next, and says after
each claim how many tasks it has done. Then: what a claim takes behind a long history, and what a flood of one org
costs another. ASSENT_BENCH_FINISHED sets another number of finished tasks.
"""

import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from statistics import median, quantiles
from typing import Final

from assent.app import App
from assent.jobs.lease import Lease
from assent.jobs.queue import JobQueue, prepare_claim
from assent.runtime import Runtime
from assent.runtime.task_commands import NewTask
from assent.store.database import Connection, Database
from assent.store.queries import load_queries
from assent.tasks.claimed_task import load_tasks
from assent.tasks.context import TaskContext
from assent.worker.duty import DutyRun, Observer, WorkerContext
from assent.worker.options import Options
from assent.worker.process import collect_less_often
from assent.worker.supervisor import Supervisor
from assent.worker.tasks import Tasks
from bench.child import ChildRun, run_program
from bench.peers.node_tasks import FOLDER, node
from bench.report import BenchReport, Measurement, progress
from bench.server import BenchServer, fresh_server

RUNS = 3
TASKS = 20_000
BATCH = 1_000
SINGLES = 200
PEER_SINGLES = 60
ORG, OTHER_ORG = "acme", "other"
FINISHED, READY, FUTURE = int(os.environ.get("ASSENT_BENCH_FINISHED", "500000")), 20_000, 100_000
CLAIMS, CLAIMED_AT_ONCE = 100, 100
FLOOD, BESIDE = 20_000, 4_000

_SQL: Final = load_queries("bench", "tasks.sql")

app = App()
begun: "asyncio.Queue[float]" = asyncio.Queue()
begun_beside: "asyncio.Queue[float]" = asyncio.Queue()


@dataclass(frozen=True, slots=True)
class PeerQueue:
    """A queue that drains jobs that do nothing, and how many keep it busy for a second or more."""

    name: str
    mode: str
    module: str
    tasks: int

    @property
    def program(self) -> list[str]:
        if self.module.endswith(".mjs"):
            return [node(), str(FOLDER / self.module)]
        return [sys.executable, "-m", self.module]


PEERS: Final = (
    PeerQueue("pgqueuer", "batches of 200", "bench.peers.pgqueuer_tasks", 20_000),
    PeerQueue("procrastinate", "20 at a time", "bench.peers.procrastinate_tasks", 1_500),
    PeerQueue("dbos", "queue, 50 at a time", "bench.peers.dbos_tasks", 1_500),
    PeerQueue("graphile", "local queue, batched completion", "graphile.mjs", 40_000),
    PeerQueue("pgboss", "fetch and complete, 4 loops", "pgboss.mjs", 40_000),
)


@app.task("bench.nothing")
async def nothing() -> None: ...


@app.task("bench.ring")
async def ring() -> None:
    begun.put_nowait(time.perf_counter())


@app.task("bench.beside")
async def beside(task: TaskContext) -> None:
    if task.org_id == OTHER_ORG:
        begun_beside.put_nowait(time.perf_counter())


async def measure() -> BenchReport:
    submitted: list[float] = []
    drained: dict[int, list[float]] = {1: [], 2: []}
    of_peers: dict[PeerQueue, list[ChildRun]] = {peer: [] for peer in PEERS}
    async with fresh_server() as server:
        async with _ours(server, "assent") as database, AsyncExitStack() as stack:
            runtime = app.runtime(database)
            workers = [await stack.enter_async_context(_worker(database.url)) for _ in range(max(drained))]
            for number in range(RUNS + 1):
                for count, rates in drained.items():
                    rate = await _submit(runtime)
                    found = await _drain(workers[:count])
                    if number:  # the first round warms caches and plans
                        submitted.append(rate)
                        rates.append(found)
                    _say(number, f"{count} drained", found)
                if number:
                    for peer, runs in of_peers.items():  # each warms up by itself
                        runs.append(await _run_peer(server, peer))
                        _say(number, f"{peer.name} drained", runs[-1].rate)
            waits_ms = await _waits_ms(WorkerContext(database, Options(), runtime), runtime)
        slower = await _slower_by_flood(server)
        claims = await _claims_ms(server)
    p95 = quantiles(waits_ms, n=20)[-1]
    measurements = [
        Measurement(f"submitted, {BATCH:,} at a time", "tasks/s", submitted),
        Measurement("backlog drained by one worker", "tasks/s", drained[1]),
        Measurement("backlog drained by two workers", "tasks/s", drained[2]),
        *(Measurement(f"{p.name}: {p.mode}", "tasks/s", [run.rate for run in of_peers[p]]) for p in PEERS),
        Measurement("from submission to begin, one at a time", "ms", waits_ms, {"p95": p95}),
        *(Measurement(f"{p.name}: the same", "ms", _peer_waits_ms(of_peers[p])) for p in PEERS),
        *(Measurement(f"claim of {CLAIMED_AT_ONCE}: {name}", "ms", found) for name, found in claims.items()),
        Measurement(f"{BESIDE:,} tasks beside a flood of {FLOOD:,}, against alone", "times", slower),
    ]
    ours = median(drained[1])
    totals: dict[str, object] = {
        "ratio_two_workers": median(drained[2]) / ours,
        **{f"ratio_{p.name}": ours / median(run.rate for run in of_peers[p]) for p in PEERS},
        "submit_to_start_p50_ms": median(waits_ms),
        **{f"submit_to_start_p50_ms_{p.name}": median(_peer_waits_ms(of_peers[p])) for p in PEERS},
        "ratio_claim_behind_history": median(claims["behind history"]) / median(claims["empty"]),
        "ratio_flood": median(slower),
    }
    return BenchReport("tasks", "Tasks that do nothing", measurements, totals)


def _say(number: int, what: str, rate: float) -> None:
    progress(f"{f'round {number} of {RUNS}' if number else 'warm-up'}: {what} {rate:,.0f} tasks/s")


@asynccontextmanager
async def _ours(server: BenchServer, name: str) -> AsyncIterator[Database]:
    database = await Database.open(await server.create_ours(name))
    try:
        yield database
    finally:
        await database.close()


async def _run_peer(server: BenchServer, peer: PeerQueue) -> ChildRun:
    url = await server.create(peer.name)
    return await run_program(peer.program, [url, peer.tasks, PEER_SINGLES], peer.tasks)


def _peer_waits_ms(runs: Sequence[ChildRun]) -> list[float]:
    return [float(wait_ms) for run in runs for wait_ms in run.facts["waits_ms"]]


async def _claims_ms(server: BenchServer) -> dict[str, list[float]]:
    """Return what a claim takes: with nothing but what is claimed, and in turns with that behind a history."""
    async with _ours(server, "claims_empty") as empty, _ours(server, "claims_full") as full:
        async with server.connection("claims_full") as connection:
            await connection.execute(_SQL.skip_triggers)
            await connection.execute(_SQL.make_finished, ORG, FINISHED, "bench.nothing")
        await _submit(app.runtime(full), FUTURE, delay="365d")
        await _submit(app.runtime(full), READY)
        await _submit(app.runtime(empty), (CLAIMS + 10) * CLAIMED_AT_ONCE)
        for name in ("claims_empty", "claims_full"):
            await server.settle(name)
        claiming = {"empty": _queue(empty), "behind history": _queue(full)}
        found: dict[str, list[float]] = {name: [] for name in claiming}
        for number in range(CLAIMS + 10):
            for (name, queue), database in zip(claiming.items(), (empty, full), strict=True):
                took_ms = await _claim_ms(database, queue)
                if number >= 10:
                    found[name].append(took_ms)
    progress(", ".join(f"claim {name} {median(made):.2f} ms" for name, made in found.items()))
    return found


def _queue(database: Database) -> JobQueue:
    length = timedelta(minutes=10)

    async def compare(connection: Connection, known: object) -> None: ...

    jobs = Lease().jobs(compare, length)
    return JobQueue("task", jobs.worker_id, None, app.tasks, jobs.lease_min, jobs.renew_lease)


async def _claim_ms(database: Database, queue: JobQueue) -> float:
    """Claim tasks and load them, in a transaction of their own, as a worker does; return the milliseconds."""
    began_s = time.perf_counter()
    async with database.transaction(None) as connection:
        await prepare_claim(connection)
        claimed = await load_tasks(connection, await queue.claim(connection, CLAIMED_AT_ONCE))
    if len(claimed) != CLAIMED_AT_ONCE:
        raise RuntimeError(f"Expected {CLAIMED_AT_ONCE} tasks to be claimed, found {len(claimed)}")
    return (time.perf_counter() - began_s) * 1000


async def _slower_by_flood(server: BenchServer) -> list[float]:
    """Return how many times as long the tasks of an org take where another org has submitted a flood before."""
    async with _ours(server, "flood") as database:
        runtime, found = app.runtime(database), []
        for number in range(RUNS + 1):
            alone_s = await _beside_s(database, runtime)
            await _submit(runtime, FLOOD, type="bench.beside")
            beside_s = await _beside_s(database, runtime)
            if number:
                found.append(beside_s / alone_s)
    progress(f"beside a flood: {median(found):.2f} times as long")
    return found


async def _beside_s(database: Database, runtime: Runtime) -> float:
    """Return how long the tasks of the other org take, from the worker's beginning to that of the last."""
    await _submit(runtime, BESIDE, type="bench.beside", org=OTHER_ORG)
    began_s = time.perf_counter()
    async with _working(WorkerContext(database, Options(), runtime), lambda run: None):
        for _ in range(BESIDE):
            ended_s = await begun_beside.get()
        took_s = ended_s - began_s
        while await _has_tasks(database):  # noqa: ASYNC110  the next run begins with an empty queue
            await asyncio.sleep(0.05)
    return took_s


async def _has_tasks(database: Database) -> bool:
    async with database.transaction(None, read_only=True) as connection:
        return bool(await connection.fetchval(_SQL.has_open_tasks))


async def _submit(
    runtime: Runtime,
    count: int = TASKS,
    *,
    type: str = "bench.nothing",
    org: str = ORG,
    delay: str | None = None,
) -> float:
    started = time.perf_counter()
    for _ in range(count // BATCH):
        await runtime.org(org).tasks.submit_many([NewTask(type, delay=delay)] * BATCH)
    return count / (time.perf_counter() - started)


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
