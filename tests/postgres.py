"""The server that our own tests run on, and the databases that they get: those of the test kit for applications.

Tests run as the owner of their databases, who is no superuser. What only a superuser can do says so.
"""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from assent.store.connection import Connection, connect
from assent.store.embedded.cluster import OWNER, SUPERUSER, Cluster, Postmaster
from assent.store.embedded.programs import wheel_programs
from assent.testing.databases import SETTINGS, START, Databases, fastest_folder, folder_of_this_run, server_at

__all__ = [
    "PROGRAMS_VARIABLE",
    "SETTINGS",
    "START",
    "Databases",
    "OwnServer",
    "fastest_folder",
    "folder_of_this_run",
    "own_server_in",
    "past_the_guards",
    "server_at",
    "superuser_url",
]


PROGRAMS_VARIABLE = "ASSENT_TEST_PROGRAMS"
"""Names the folder of another PostgreSQL's programs, for tests with a server of their own (`tests.on_postgres`)."""


@dataclass(frozen=True)
class OwnServer:
    """A server of one test's own, since roles belong to the whole server."""

    postmaster: Postmaster

    def url(self, database: str, *, role: str = OWNER) -> str:
        return self.postmaster.url(role, database)


@contextmanager
def own_server_in(parent: Path) -> Iterator[OwnServer]:
    """Inside, a server runs in a folder below this one; of the version that is tested."""
    programs = Path(os.environ.get(PROGRAMS_VARIABLE) or wheel_programs())
    with tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder) / "cluster", programs)
        cluster.make(fast=True)
        try:
            yield OwnServer(cluster.start())
        finally:
            cluster.stop()


def superuser_url(url: str) -> str:
    """The same database as the superuser of the cluster that the tests made."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{SUPERUSER}@{parts.netloc.rpartition('@')[2]}"))


@asynccontextmanager
async def past_the_guards(url: str) -> AsyncIterator[Connection]:
    """A superuser's transaction in which no trigger fires: it makes damage that everybody else is refused."""
    connection = await connect(superuser_url(url), SETTINGS)
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            yield connection
    finally:
        await connection.close()
