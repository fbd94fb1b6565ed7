"""Bringing a database's schema forward, one file at a time, each once and in a transaction of its own.

Files are `NNNN_name.sql`, numbered from 0001 without a gap. An applied file is never changed: its checksum is
kept, and a difference is an error. There is no way back; a mistake is corrected by the next file.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import asyncpg

from assent.store.clock import time_for_sql
from assent.store.connect import Connection, connect
from assent.store.database import Database
from assent.store.errors import StoreError
from assent.store.moved_time import let_time_move
from assent.store.queries import load_queries
from assent.store.roles import Report, ensure_roles, examine_roles, record_grants, require_roles
from assent.store.settings import Settings

_FILE_NAME: Final = re.compile(r"([0-9]{4})_([a-z0-9_]+)\.sql")
_QUERIES: Final = load_queries("assent.store", "store.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One file."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.version:04}_{self.name}"


@dataclass(frozen=True, slots=True)
class Status:
    """Which migrations a database has, and which it still needs."""

    applied: Sequence[Migration]
    pending: Sequence[Migration]


def load_migrations(folder: Traversable | Path | None = None) -> list[Migration]:
    """The migrations in a folder, ours unless named, in order; `StoreError` for a number out of line."""
    folder = folder or files("assent.store").joinpath("migrations")
    found = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql"))
    migrations = [_read(name, entry) for name, entry in found]
    for expected, migration in enumerate(migrations, start=1):
        if migration.version != expected:
            raise StoreError(
                f"Expected migration {expected:04} after {expected - 1:04}, found {migration}. "
                "Migrations are numbered from 0001, without a gap and without a repeat"
            )
    return migrations


def _read(name: str, entry: Traversable | Path) -> Migration:
    if (match := _FILE_NAME.fullmatch(name)) is None:
        raise StoreError(f"Expected a migration named such as 0001_tables.sql, found {name}")
    # Line ends are made equal, so that a checkout on another system gives the same checksum.
    return Migration(int(match[1]), match[2], entry.read_bytes().decode().replace("\r\n", "\n"))


async def migrate(target: Database | str, migrations: Sequence[Migration] | None = None) -> list[Migration]:
    """Apply what is missing, and return it. Two processes may do this at once: one waits for the other.

    A database that is migrated on a moved clock is one of a test, and its time can be moved from then on.
    """
    known = load_migrations() if migrations is None else migrations
    now = "" if isinstance(target, str) else time_for_sql(target.clock)
    async with _own_connection(target) as connection:
        await connection.execute(_QUERIES.lock_migrations)
        pending = known[await _count_applied(connection, known) :]
        await ensure_roles(connection)
        await require_roles(connection)
        for migration in pending:
            async with connection.transaction():
                await connection.execute(_QUERIES.enter_as_owner, now, "")
                await _apply(connection, migration)
                if now:
                    await let_time_move(connection)
                await record_grants(connection)
    return list(pending)


async def status(target: Database | str, migrations: Sequence[Migration] | None = None) -> Status:
    """What is applied and what is missing; writes nothing."""
    known = load_migrations() if migrations is None else migrations
    async with _own_connection(target) as connection:
        count = await _count_applied(connection, known)
    return Status(known[:count], known[count:])


async def require_ready(database: Database) -> None:
    """Raise `StoreError`, which says what to do, where the schema, a role or a right of the roles is missing."""
    known = load_migrations()
    async with _own_connection(database) as connection:
        if pending := known[await _count_applied(connection, known) :]:
            names = ", ".join(str(migration) for migration in pending)
            raise StoreError(f"The database lacks {names}. Run `assent migrate` first")
        await require_roles(connection)


async def examine(target: Database | str) -> Report:
    """How roles and their rights stand; writes nothing."""
    async with _own_connection(target) as connection:
        return await examine_roles(connection)


async def _apply(connection: Connection, migration: Migration) -> None:
    if migration.version == 1:
        await connection.execute(_QUERIES.create_schema)
        await connection.execute(_QUERIES.create_migrations_table)
    try:
        await connection.execute(migration.sql)
    except asyncpg.PostgresError as error:
        raise StoreError(f"Migration {migration} failed{_line(migration, error)}: {error}") from error
    await connection.execute(_QUERIES.insert_migration, migration.version, migration.name, migration.checksum)


def _line(migration: Migration, error: asyncpg.PostgresError) -> str:
    """Where in the file, when PostgreSQL says so: it counts characters from one."""
    if error.position is None:
        return ""
    return f" at line {migration.sql.count(chr(10), 0, int(error.position) - 1) + 1}"


async def _count_applied(connection: Connection, known: Sequence[Migration]) -> int:
    """How many of the known migrations this database has; `StoreError` where it has others."""
    if await connection.fetchval(_QUERIES.find_migrations_table) is None:
        return 0
    rows = await connection.fetch(_QUERIES.list_applied_migrations)
    for index, row in enumerate(rows):
        _require_known(row["version"], row["name"], row["checksum"], known[index : index + 1])
    return len(rows)


def _require_known(version: int, name: str, checksum: str, expected: Sequence[Migration]) -> None:
    found = f"{version:04}_{name}"
    if not expected:
        raise StoreError(
            f"The database has migration {found}, which this version of Assent does not know. "
            "Install the version that made it, or a newer one"
        )
    if expected[0].version != version:
        raise StoreError(
            f"The database has migration {found} where {expected[0]} was expected: a row is missing from "
            "assent.schema_migrations. Restore it"
        )
    if expected[0].checksum != checksum:
        raise StoreError(
            f"Migration {found} was changed after it was applied: its checksum was {checksum[:12]}…, now it "
            f"is {expected[0].checksum[:12]}…. Undo the change and write a new migration instead"
        )


@asynccontextmanager
async def _own_connection(target: Database | str) -> AsyncIterator[Connection]:
    """A connection that may take, and wait for locks, as long as a migration needs."""
    url, settings = (target, Settings()) if isinstance(target, str) else (target.url, target.settings)
    connection = await connect(url, replace(settings, statement_timeout_ms=0, lock_timeout_ms=0))
    try:
        yield connection
    finally:
        await connection.close()
