"""Databases for tests: each a fresh copy of one template, which is migrated once for a server and a schema."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.store.migrate import load_migrations, migrate
from assent.store.queries import load_queries
from assent.store.settings import Settings

START: Final = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
"""What a test's clock says at first: a Monday morning."""

SETTINGS: Final = Settings.defaults(statement_timeout_ms=20_000, lock_timeout_ms=15_000)

_SQL: Final = load_queries("assent.testing", "databases.sql")


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
        """The URL of a new database, dropped at the end."""
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
