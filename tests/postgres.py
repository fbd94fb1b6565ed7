"""The server that our own tests run on, and the databases that they get: those of the test kit for applications.

Tests run as the owner of their databases, who is no superuser. What only a superuser can do says so.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

from assent.store.cluster import SUPERUSER
from assent.store.connect import Connection, connect
from assent.testing.databases import SETTINGS, START, Databases
from assent.testing.server import fastest_folder, folder_of_this_run, server_at

__all__ = [
    "SETTINGS",
    "START",
    "Databases",
    "fastest_folder",
    "folder_of_this_run",
    "past_the_guards",
    "server_at",
    "superuser_url",
]


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
