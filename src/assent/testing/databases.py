"""Databases for tests: each a fresh copy of one template, which is migrated once for a server and a schema.

The server is the one that `ASSENT_TEST_DATABASE_URL` names, else our own in a temporary folder. Our own is started once
in a process, trades durability for speed, and is gone with the process, however that ends.
"""

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.store.embedded.file_lock import FileLock
from assent.store.embedded.server import EmbeddedServer
from assent.store.migrate import load_migrations, migrate
from assent.store.queries import load_queries
from assent.store.settings import Settings

VARIABLE: Final = "ASSENT_TEST_DATABASE_URL"

_FOLDER_PREFIX: Final = "assent-tests-"
_RUN_LOCK: Final = "run.lock"
_ROOM_BYTES: Final = 2 * 1024**3


@contextmanager
def folder_of_this_run() -> Iterator[Path]:
    """Make a temporary folder for servers, removed at the end; those of runs that were killed go as well."""
    parent = fastest_folder()
    for folder in parent.glob(f"{_FOLDER_PREFIX}*"):
        _remove_if_abandoned(folder)
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=parent))
    (folder / _RUN_LOCK).touch()
    with FileLock.exclusive(folder / _RUN_LOCK):
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


def fastest_folder() -> Path:
    """Return a folder in memory where there is room: the 350 files of a database take 0.4 s to make on a slow disk."""
    memory = Path("/dev/shm")  # noqa: S108 - the folder made in it is private
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > _ROOM_BYTES
    return memory if roomy else Path(tempfile.gettempdir())


def _remove_if_abandoned(folder: Path) -> None:
    with suppress(OSError):
        abandoned = FileLock.exclusive_if_free(folder / _RUN_LOCK)
        if abandoned is not None:
            with abandoned:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def server_at(data_dir: Path) -> Iterator[str]:
    """Yield the URL of a server to make databases on: the one that is named, else our own in this folder."""
    if given := os.environ.get(VARIABLE):
        yield given
    else:
        with EmbeddedServer.start(data_dir, fast=True) as server:
            yield server.url("postgres")


class _ServerOfThisProcess:
    """Started when it is first asked for, by whichever thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._until_exit = ExitStack()
        self._url: str | None = None

    def url(self) -> str:
        with self._lock:
            if self._url is None:
                # Registered before the server is, so that the server has stopped when its folder goes.
                atexit.register(self._until_exit.close)
                folder = self._until_exit.enter_context(folder_of_this_run())
                self._url = self._until_exit.enter_context(server_at(folder / "server"))
            return self._url


_SERVER: Final = _ServerOfThisProcess()


def server_url() -> str:
    """Return the URL of the server that this process makes its test databases on. Blocks while it starts."""
    return os.environ.get(VARIABLE) or _SERVER.url()


START: Final = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
"""What a test's clock says at first: a Monday morning."""

SETTINGS: Final = Settings.defaults(statement_timeout_ms=20_000, lock_timeout_ms=15_000)

_SQL: Final = load_queries("assent.testing", "testing.sql")


class Databases:
    """Makes databases on a server, and drops them."""

    def __init__(self, connection: asyncpg.Connection, url: str) -> None:
        self._connection = connection
        self._url = url

    @classmethod
    @asynccontextmanager
    async def on(cls, url: str) -> AsyncIterator[Self]:
        connection = await asyncpg.connect(url)
        try:
            yield cls(connection, url)
        finally:
            await connection.close()

    def url(self, name: str) -> str:
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))

    async def ensure_template(self) -> str:
        """Return the name of a migrated database; the first caller builds it, again when migrations change."""
        name = _template_name()
        await self._connection.execute(_SQL.lock_templates)
        try:
            if not await self._connection.fetchval(_SQL.find_database, name):
                await self._build_template(name)
        finally:
            await self._connection.execute(_SQL.unlock_templates)
        return name

    @asynccontextmanager
    async def fresh(self, template: str = "template1") -> AsyncIterator[str]:
        """Yield the URL of a new database, dropped at the end."""
        name = f"test_{uuid4().hex}"
        await self._say(_SQL.text_of_copy, name, template)
        try:
            yield self.url(name)
        finally:
            await self._say(_SQL.text_of_drop, name)

    async def _build_template(self, name: str) -> None:
        # Built under another name: a template whose migration failed is never found.
        draft = f"{name}_draft"
        await self._say(_SQL.text_of_drop, draft)
        await self._say(_SQL.text_of_create, draft)
        database = await Database.open(self.url(draft), settings=SETTINGS, clock=MovedClock(START))
        try:
            await migrate(database)
        finally:
            await database.close()
        await self._say(_SQL.text_of_rename, draft, name)

    async def _say(self, text_of_statement: str, *names: str) -> None:
        await self._connection.execute(await self._connection.fetchval(text_of_statement, *names))


@cache
def _template_name() -> str:
    checksums = "".join(migration.checksum for migration in load_migrations())
    return f"assent_template_{hashlib.sha256(checksums.encode()).hexdigest()[:16]}"
