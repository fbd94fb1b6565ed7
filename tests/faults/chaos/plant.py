"""What chaos runs on: a PostgreSQL of its own, proxies before it, server and worker processes, and a receiver."""

import asyncio
import os
import random
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import psutil

from assent.store.database import Database
from assent.store.embedded.cluster import OWNER, Cluster, read_postmaster
from assent.store.embedded.programs import wheel_programs
from assent.store.migrate import migrate
from tests.faults.chaos.application import furnish
from tests.faults.proxy import Proxy
from tests.http.callers import AUDIENCE, ISSUER, SECRET
from tests.receiver import Receiver, receiving

ROOT: Final = Path(__file__).parents[3]
ASSENT: Final = Path(sys.executable).parent / "assent"
SKEWED: Final = ROOT / "tests" / "faults" / "skewed"
START_MAX_S: Final = 60

ENVIRONMENT: Final = {
    "ASSENT_HTTP_JWT_KEY": SECRET,
    "ASSENT_HTTP_JWT_ISSUER": ISSUER,
    "ASSENT_HTTP_JWT_AUDIENCE": AUDIENCE,
    "ASSENT_HTTP_ACCESS_LOG": "off",
    "ASSENT_HTTP_RATE_WORKFLOWS_PER_MINUTE": "100000",
    "ASSENT_HTTP_RATE_ENTITIES_PER_MINUTE": "100000",
    "ASSENT_CALLBACKS_KEY": SECRET,
    "ASSENT_EFFECTS_ALLOW": "127.0.0.0/8",
    "ASSENT_EFFECTS_READ_TIMEOUT_MS": "2000",
    "ASSENT_EFFECTS_TOTAL_TIMEOUT_MS": "3000",
    "ASSENT_EFFECTS_BACKOFF_MIN_MS": "200",
    "ASSENT_EFFECTS_BACKOFF_MAX_MS": "1000",
    # Short deadlines, so that every fault is over while there is load.
    "ASSENT_POOL_WAIT_TIMEOUT_MS": "3000",
    "ASSENT_CONNECT_TIMEOUT_MS": "3000",
    "ASSENT_STATEMENT_TIMEOUT_MS": "3000",
    "ASSENT_STATEMENT_SLACK_MS": "1000",
    "ASSENT_CANCEL_TIMEOUT_MS": "500",
    "ASSENT_LOCK_TIMEOUT_MS": "2000",
    "ASSENT_IDLE_IN_TRANSACTION_TIMEOUT_MS": "4000",
    "ASSENT_WORKER_LEASE_MS": "4000",
    "ASSENT_WORKER_RESCUE_INTERVAL_MS": "1000",
    "ASSENT_WORKER_RECOVERED_INTERVAL_MS": "1000",
    "ASSENT_WORKER_TASKS_BACKOFF_MIN_MS": "200",
    "ASSENT_WORKER_TASKS_BACKOFF_MAX_MS": "1000",
    "ASSENT_WORKER_BACKOFF_MIN_MS": "100",
    "ASSENT_WORKER_BACKOFF_MAX_MS": "1000",
    "ASSENT_WORKER_REPORT_INTERVAL_MS": "3600000",
}


@dataclass
class Process:
    """An `assent serve` or `assent worker` that is started again whenever it was killed."""

    kind: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    _running: asyncio.subprocess.Process | None = None
    starts: int = 0

    async def start(self, skew_s: int = 0) -> None:
        """Start it, on a machine whose clock is so many seconds off and steps back by as many after a while."""
        steps = {"SKEW_S": str(skew_s), "STEP_S": str(-2 * skew_s), "STEP_AFTER_S": "5"}
        skew = {"PYTHONPATH": str(SKEWED), **steps} if skew_s else {}
        with self.log.open("ab") as log:
            self._running = await asyncio.create_subprocess_exec(
                *(ASSENT, self.kind, *self.arguments),
                cwd=ROOT,
                env={**os.environ, **self.environment, **skew},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.starts += 1

    def send(self, which: signal.Signals) -> None:
        if self._running is not None:
            with suppress(ProcessLookupError):
                self._running.send_signal(which)

    @property
    def runs(self) -> bool:
        return self._running is not None and self._running.returncode is None

    async def kill(self) -> None:
        self.send(signal.SIGKILL)
        if self._running is not None:
            await self._running.wait()


@dataclass
class Postgres:
    """A cluster that survives its crashes: fsync is on."""

    cluster: Cluster
    crashes: Counter[str] = field(default_factory=Counter)

    def url(self, database: str) -> str:
        found = read_postmaster(self.cluster.path)
        assert found is not None, "expected a running postmaster"
        return found.url(OWNER, database)

    async def start(self) -> None:
        await asyncio.to_thread(self.cluster.start)

    async def stop(self) -> None:
        await asyncio.to_thread(self.cluster.stop)

    async def stop_at_once(self) -> None:
        """Immediate shutdown, as `pg_ctl stop -m immediate`: the next start recovers from the log."""
        if (found := read_postmaster(self.cluster.path)) is not None:
            with suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGQUIT)
            await _gone(found.pid)
        await self.start()

    async def kill_postmaster(self) -> None:
        if (found := read_postmaster(self.cluster.path)) is not None:
            with suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)
            await _gone(found.pid)
        await self.start()

    def kill_backend(self, chance: random.Random) -> None:
        """Kill a server process; the postmaster ends all others, and recovers."""
        found = read_postmaster(self.cluster.path)
        with suppress(psutil.Error, IndexError):
            children = psutil.Process(found.pid).children() if found else []
            backends = [child for child in children if "assent" in " ".join(child.cmdline())]
            chance.choice(backends).kill()


@dataclass
class Plant:
    """All of it."""

    postgres: Postgres
    database_url: str
    proxies: list[Proxy]
    servers: list[Process]
    workers: list[Process]
    ports: list[int]
    receiver: Receiver

    @property
    def processes(self) -> list[Process]:
        return [*self.servers, *self.workers]

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path, servers: int = 2, workers: int = 2) -> AsyncIterator[Self]:
        async with AsyncExitStack() as stack:
            postgres = Postgres(Cluster(folder / "cluster", wheel_programs()))
            await asyncio.to_thread(postgres.cluster.make, fast=False)
            await postgres.start()
            stack.push_async_callback(postgres.stop)
            receiver = stack.enter_context(receiving())
            url = await _furnished(postgres, receiver.url)
            proxies = [await stack.enter_async_context(Proxy.before(url)) for _ in range(servers + workers)]
            ports = [_free_port() for _ in range(servers)]
            common = {**ENVIRONMENT, "ASSENT_CALLBACKS_URL": f"http://127.0.0.1:{ports[0]}"}
            app = ("--app", "tests.faults.chaos.application:app")
            made = [
                Process(
                    kind,
                    (*app, "--port", str(ports[number])) if kind == "serve" else app,
                    {**common, "ASSENT_DATABASE_URL": proxies[place].url},
                    folder / f"{kind}-{number}.log",
                )
                for place, (kind, number) in enumerate(
                    [("serve", n) for n in range(servers)] + [("worker", n) for n in range(workers)]
                )
            ]
            plant = cls(postgres, url, proxies, made[:servers], made[servers:], ports, receiver)
            try:
                await asyncio.gather(*(process.start() for process in plant.processes))
                await asyncio.gather(*(plant.wait_for_server(port) for port in ports))
                yield plant
            finally:
                await asyncio.gather(*(process.kill() for process in plant.processes))

    async def wait_for_server(self, port: int) -> None:
        """Return when something listens on the port."""
        async with asyncio.timeout(START_MAX_S):
            while True:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    return
                await asyncio.sleep(0.1)


async def _furnished(postgres: Postgres, receiver_url: str) -> str:
    maintenance = await Database.open(postgres.url("postgres"))
    try:
        async with maintenance.glance() as connection:
            await connection.execute("CREATE DATABASE assent")
    finally:
        await maintenance.close()
    url = postgres.url("assent")
    database = await Database.open(url)
    try:
        await migrate(database)
        await furnish(database, receiver_url)
    finally:
        await database.close()
    return url


async def _gone(pid: int) -> None:
    """Wait until a process has ended."""
    with suppress(psutil.NoSuchProcess):
        await asyncio.to_thread(psutil.Process(pid).wait, START_MAX_S)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
