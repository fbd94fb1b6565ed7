"""A cluster on this machine: a scheduler and its nodes, each a process that a test can kill."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from assent.cluster.executor import count_nodes
from assent.cluster.settings import ClusterSettings
from assent.worker.supervisor import Supervisor
from tests.plain_sql import WAIT_MAX_S
from tests.workers import TasksWorker

IDLE: Final = ("--idle-timeout", "1200")
"""A scheduler that was left behind ends by itself."""
ROOT: Final = Path(__file__).parents[2]


class LocalCluster:
    """A scheduler on a port of its own, and nodes that tests start and kill."""

    def __init__(self) -> None:
        self.path: Path = ROOT
        """Where nodes import the application from."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.settings = ClusterSettings.defaults(address=f"tcp://127.0.0.1:{self.port}")
        self.scheduler: asyncio.subprocess.Process | None = None
        self.nodes: list[asyncio.subprocess.Process] = []

    async def start(self, nodes: int) -> None:
        self.scheduler = await _start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port), *IDLE
        )
        for _ in range(nodes):
            await self.add_node()
        await self.wait_for_nodes(nodes)

    async def add_node(self) -> asyncio.subprocess.Process:
        # It ends by itself where the tests were killed, and its scheduler with them.
        limits = ("--no-nanny", "--nthreads", "2", "--memory-limit", "0", "--death-timeout", "60")
        node = await _start(
            *("dask_worker", self.settings.address, "--host", "127.0.0.1", *limits), path=self.path
        )
        self.nodes.append(node)
        return node

    async def wait_for_nodes(self, count: int) -> None:
        async with asyncio.timeout(WAIT_MAX_S):
            while await self._count() != count:  # noqa: ASYNC110  other processes come and go
                await asyncio.sleep(0.05)

    async def _count(self) -> int:
        with suppress(OSError, TimeoutError):
            return await count_nodes(self.settings)
        return -1

    async def stop(self) -> None:
        for process in [*self.nodes, self.scheduler]:
            if process is not None:
                await kill(process)


@asynccontextmanager
async def running(worker: TasksWorker) -> AsyncIterator[None]:
    """The worker as a process has it: its loops, and a connection that listens."""
    supervisor = Supervisor(worker.database, [worker.duty], worker.place.options)
    task = asyncio.create_task(supervisor.run())
    try:
        yield
    finally:
        supervisor.stop()
        await asyncio.wait_for(task, WAIT_MAX_S)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(WAIT_MAX_S):
        while not await condition():  # noqa: ASYNC110  other processes decide it
            await asyncio.sleep(0.02)


async def until_file(file: Path) -> None:
    """Wait until a function on a node has left this file."""

    async def is_there() -> bool:
        return file.exists()  # noqa: ASYNC240

    await until(is_there)


async def kill(process: asyncio.subprocess.Process) -> None:
    """SIGKILL, and wait until it is gone."""
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def _start(program: str, *arguments: str, path: Path = ROOT) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"distributed.cli.{program}", "--no-dashboard", *arguments),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(path)},
        stderr=asyncio.subprocess.DEVNULL,
    )
