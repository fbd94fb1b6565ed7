"""A PostgreSQL of the benchmark's own, with fsync and synchronous_commit on, gone when it ends."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from assent.store.connection import Connection, connect
from assent.store.database import Database
from assent.store.embedded.cluster import OWNER, SUPERUSER
from assent.store.embedded.server import EmbeddedServer
from assent.store.migrate import migrate
from assent.store.settings import Settings

PATIENT = Settings(statement_timeout_ms=0)
"""For statements that prepare a measurement, which may take as long as they take."""


class BenchServer:
    """One server for all that is compared, with a database for each."""

    def __init__(self, embedded: EmbeddedServer) -> None:
        self._embedded = embedded

    def url(self, database: str) -> str:
        return self._embedded.url(database)

    async def cpu_s(self) -> float:
        """Return the CPU seconds that the server has used so far."""
        async with self.connection("postgres") as connection:
            return server_cpu_s(connection.get_server_pid())

    async def create(self, database: str, template: str = "template1") -> str:
        """Make a database again, empty or as a copy of another, and return its URL."""
        async with self.connection("postgres") as connection:
            await connection.execute(f'DROP DATABASE IF EXISTS "{database}"')
            await connection.execute(f'CREATE DATABASE "{database}" OWNER "{OWNER}" TEMPLATE "{template}"')
        return self.url(database)

    async def create_ours(self, database: str) -> str:
        """A database with our schema."""
        url = await self.create(database)
        ours = await Database.open(url)
        try:
            await migrate(ours)
        finally:
            await ours.close()
        return url

    async def settle(self, database: str) -> None:
        """Do now what the server would do some time: the next run does not pay for the one before."""
        async with self.connection(database) as connection:
            await connection.execute("VACUUM ANALYZE")
            await connection.execute("CHECKPOINT")

    @asynccontextmanager
    async def connection(self, database: str) -> AsyncIterator[Connection]:
        """As the superuser: to set the server's options, and to fill tables without their triggers."""
        connection = await connect(self._embedded.url(database, role=SUPERUSER), PATIENT)
        try:
            yield connection
        finally:
            await connection.close()


def server_cpu_s(backend_pid: int) -> float:
    """Return the CPU seconds that a server on this machine has used so far: all its processes, ended ones included."""
    postmaster = psutil.Process(psutil.Process(backend_pid).ppid())
    times = [process.cpu_times() for process in (postmaster, *postmaster.children())]
    ended = postmaster.cpu_times()
    return sum(one.user + one.system for one in times) + ended.children_user + ended.children_system


def process_cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process and those that it has forked have used so far."""
    process = psutil.Process(pid)
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


@asynccontextmanager
async def fresh_server(**options: str) -> AsyncIterator[BenchServer]:
    """A server in a folder of its own; `options` are PostgreSQL's, on top of what our clusters have."""
    with tempfile.TemporaryDirectory(prefix="assent-bench-") as folder:
        data_dir = Path(folder) / "postgres"
        if options:
            await _set_options(data_dir, options)
        embedded = await asyncio.to_thread(EmbeddedServer.start, data_dir)
        try:
            yield BenchServer(embedded)
        finally:
            await asyncio.to_thread(embedded.stop)


async def _set_options(data_dir: Path, options: dict[str, str]) -> None:
    # Some take effect at the next start only. Ours is the only use of the server, so leaving stops it.
    embedded = await asyncio.to_thread(EmbeddedServer.start, data_dir)
    try:
        async with BenchServer(embedded).connection("postgres") as connection:
            for name, value in options.items():
                await connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    finally:
        await asyncio.to_thread(embedded.stop)


@asynccontextmanager
async def fresh_database(connections: int = 10) -> AsyncIterator[Database]:
    """A server with one database, with our schema."""
    async with fresh_server() as server:
        settings = Settings(pool_connections_max=connections)
        database = await Database.open(await server.create_ours("assent"), settings=settings)
        try:
            yield database
        finally:
            await database.close()
