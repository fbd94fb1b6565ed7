"""Bring a database to the schema of this code: a new one by the schema folder, an older one by migrations.

The folder `schema` is the truth: every table and function as it is now, in files that are read in the order of their
numbers. A new database gets it in one transaction, as version 0001, and all known migrations count as applied. An
older database is brought forward by the files `migrations/NNNN_name.sql`, numbered from 0002 without a gap, each once
and in a transaction of its own. An applied file is never changed: its checksum is kept, and a difference is an error.
There is no way back; a mistake is corrected by the next file. A change of the schema is an edit of the folder and a
migration; a test builds both and compares (tests/upgrades).

The version of the code is the number of the newest file that it has. A file whose schema older code can go on using
says so on a line `-- oldest-code: NNNN`, the oldest version that can; without it older code refuses to work from then
on. So processes of two releases share a database during an upgrade, and an old one may restart.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import asyncpg

from assent.store.clock import time_for_sql
from assent.store.connection import Connection, connect
from assent.store.database import Database
from assent.store.errors import StoreError
from assent.store.lock_waits import LOST_THE_LOCK, OnWait, log_wait, run_with_short_lock_waits
from assent.store.moved_time import let_time_move
from assent.store.queries import load_queries
from assent.store.roles import Report, ensure_roles, examine_roles, record_grants, require_roles
from assent.store.settings import Settings

_FILE_NAME: Final = re.compile(r"([0-9]{4})_([a-z0-9_]+)\.sql")
_OLDEST_CODE: Final = re.compile(r"^-- oldest-code: ([0-9]{4})$", re.MULTILINE)
_BEFORE_RELEASE: Final = (
    "The database was made by a version of Assent before its first release. Make a new one"
)
_FILE_OF_SCHEMA: Final = re.compile(r"^-- file: (.+)$", re.MULTILINE)
_QUERIES: Final = load_queries("assent.store", "store.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: the whole schema folder as version 0001, or a file of the folder `migrations`."""

    version: int
    name: str
    sql: str
    is_schema: bool = False
    """Whether it is the schema folder, which changes with every migration: its checksum is not compared."""

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def oldest_code(self) -> int:
        """Return the oldest version of the code that can use the schema once this file is applied."""
        match = _OLDEST_CODE.search(self.sql)
        return int(match[1]) if match else self.version

    def __str__(self) -> str:
        return f"{self.version:04}_{self.name}"


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """Which migrations a database has, and which it still needs."""

    applied: Sequence[Migration]
    pending: Sequence[Migration]
    newer: Sequence[str] = ()
    """Migrations of newer versions, whose schema this version can use."""


def load_schema(folder: Traversable | Path | None = None) -> Migration:
    """Return a schema folder, ours unless named, as version 0001; a line before each file names it."""
    folder = folder or files("assent.store").joinpath("schema")
    found = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql"))
    text = "".join(f"-- file: {name}\n{_read_text(entry)}" for name, entry in found)
    return Migration(1, "baseline", text, is_schema=True)


def load_migrations(folder: Traversable | Path | None = None) -> list[Migration]:
    """Return our schema folder and our migrations, or the migrations in a folder, in order.

    Raise `StoreError` for a number out of line.
    """
    if folder is not None:
        return _read_folder(folder, first=1)
    return [load_schema(), *_read_folder(files("assent.store").joinpath("migrations"), first=2)]


def _read_folder(folder: Traversable | Path, first: int) -> list[Migration]:
    entries = folder.iterdir() if folder.is_dir() else []
    found = sorted((entry.name, entry) for entry in entries if entry.name.endswith(".sql"))
    migrations = [_read(name, entry) for name, entry in found]
    for expected, migration in enumerate(migrations, start=first):
        if migration.version != expected:
            raise StoreError(
                f"Expected migration {expected:04} after {expected - 1:04}, found {migration}. "
                f"Migrations are numbered from {first:04}, without a gap and without a repeat"
            )
    return migrations


def _read(name: str, entry: Traversable | Path) -> Migration:
    if (match := _FILE_NAME.fullmatch(name)) is None:
        raise StoreError(f"Expected a migration named such as 0001_tables.sql, found {name}")
    migration = Migration(int(match[1]), match[2], _read_text(entry))
    if not 1 <= migration.oldest_code <= migration.version:
        raise StoreError(
            f"Expected the oldest code that can use {migration} to be from 0001 to {migration.version:04}, "
            f"found {migration.oldest_code:04}"
        )
    return migration


def _read_text(entry: Traversable | Path) -> str:
    """Return a file's text with equal line ends, so that a checkout on another system gives the same checksum."""
    return entry.read_bytes().decode().replace("\r\n", "\n")


async def migrate(
    target: Database | str, migrations: Sequence[Migration] | None = None, *, on_wait: OnWait = log_wait
) -> list[Migration]:
    """Apply what is missing, and return it. Of two processes that do this at once, each file is applied by one.

    A file that does not get its locks in `ASSENT_MIGRATION_LOCK_TIMEOUT_MS` is rolled back and tried again after a
    pause; `on_wait` is called with the sessions that are in its way.

    A database that is migrated on a moved clock is one of a test, and its time can be moved from then on.
    """
    known = load_migrations() if migrations is None else migrations
    now = "" if isinstance(target, str) else time_for_sql(target.clock)
    url, settings = _place(target)
    applied: list[Migration] = []
    async with owner_connection(target) as connection:
        await read_status(connection, known)
        await ensure_roles(connection)
        await require_roles(connection)
        while pending := (await read_status(connection, known)).pending:

            async def apply_next() -> list[Migration]:
                return await _apply_next(connection, known, now)

            applied += await run_with_short_lock_waits(
                f"Migration {pending[0]}", connection, apply_next, url=url, settings=settings, on_wait=on_wait
            )
    return applied


async def status(target: Database | str, migrations: Sequence[Migration] | None = None) -> MigrationStatus:
    """Return what is applied and what is missing; writes nothing."""
    known = load_migrations() if migrations is None else migrations
    async with owner_connection(target) as connection:
        return await read_status(connection, known)


async def require_ready(database: Database) -> None:
    """Raise `StoreError`, which says what to do, where the schema, a role or a right of the roles is missing."""
    async with owner_connection(database) as connection:
        if pending := (await read_status(connection, load_migrations())).pending:
            names = ", ".join(str(migration) for migration in pending)
            raise StoreError(f"The database lacks {names}. Run `assent migrate` first")
        await require_roles(connection)


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """How far a database's schema is, and which code can use it; both zero where nothing was ever applied."""

    newest: int
    oldest_code: int


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why this code cannot use a schema, and what to do."""

    problem: str
    remedy: str


def schema_mismatch(schema: SchemaVersion) -> Mismatch | None:
    """Compare a schema with this code: a newer one is good where its migrations say so, for in an upgrade both run."""
    code = code_version()
    if schema.newest < code.version:
        found = f"expected the schema of {code} or a newer one, found version {schema.newest}"
        return Mismatch(found, "run `assent migrate`")
    if schema.oldest_code > code.version:
        found = (
            f"the schema is for programs from version {schema.oldest_code} on, this is version {code.version}"
        )
        return Mismatch(found, "install the version that migrated the database")
    return None


async def read_schema_version(connection: Connection) -> SchemaVersion:
    """Return the version of the schema, in one statement: what readiness asks."""
    row = await connection.fetchrow(_QUERIES.read_schema_version)
    assert row is not None, "an aggregate always has a row"
    return SchemaVersion(row["newest"], row["oldest_code"])


@cache
def code_version() -> Migration:
    """Return the newest migration that this code knows."""
    return load_migrations()[-1]


async def examine(target: Database | str) -> Report:
    """Return how roles and their rights stand; writes nothing."""
    async with owner_connection(target) as connection:
        return await examine_roles(connection)


async def _apply_next(connection: Connection, known: Sequence[Migration], now: str) -> list[Migration]:
    """Apply what is next, in the transaction that is open, and return it; nothing if another process was first."""
    await connection.execute(_QUERIES.lock_migrations)
    await connection.execute(_QUERIES.enter_as_owner, now, "")
    pending = (await read_status(connection, known)).pending
    if not pending:
        return []
    # The schema folder has in it what every known migration does.
    applied = list(pending if pending[0].is_schema else pending[:1])
    await _apply(connection, applied)
    if now:
        await let_time_move(connection)
    if applied[0].version == 1:
        # Not in the schema: the months are those of the clock, which can be moved only now.
        await _make_partitions(connection)
    await record_grants(connection)
    return applied


async def _apply(connection: Connection, migrations: Sequence[Migration]) -> None:
    """Run the first of these, and note all of them as applied."""
    first = migrations[0]
    try:
        if first.version == 1:
            await connection.execute(_QUERIES.create_schema)
            await connection.execute(_QUERIES.create_migrations_table)
        await connection.execute(first.sql)
    except asyncpg.PostgresError as error:
        if error.sqlstate in LOST_THE_LOCK:
            raise
        raise StoreError(f"Migration {first} failed{_position(first, error)}: {error}") from error
    for each in migrations:
        await connection.execute(
            _QUERIES.insert_migration, each.version, each.name, each.checksum, each.oldest_code
        )


async def _make_partitions(connection: Connection) -> None:
    if await connection.fetchval(_QUERIES.find_partitions) is not None:
        await connection.execute(_QUERIES.make_first_partitions)


def _position(migration: Migration, error: asyncpg.PostgresError) -> str:
    """Return the line of an error, when PostgreSQL says where it is: it counts characters from one."""
    if error.position is None:
        return ""
    before = migration.sql[: int(error.position) - 1]
    begin = list(_FILE_OF_SCHEMA.finditer(before)) if migration.is_schema else []
    if not begin:
        return f" at line {before.count(chr(10)) + 1}"
    return f" at line {before.count(chr(10), begin[-1].end())} of {begin[-1][1]}"


async def read_status(connection: Connection, known: Sequence[Migration]) -> MigrationStatus:
    """Compare the database with the known migrations; raise `StoreError` where this code cannot use what it has."""
    if await connection.fetchval(_QUERIES.find_migrations_table) is None:
        return MigrationStatus([], known)
    try:
        rows = await connection.fetch(_QUERIES.list_applied_migrations)
    except asyncpg.UndefinedColumnError:
        raise StoreError(_BEFORE_RELEASE) from None
    for row, expected in zip(rows, known, strict=False):
        _require_known(row["version"], row["name"], row["checksum"], expected)
    newer = rows[len(known) :]
    _require_usable(newer, len(known))
    return MigrationStatus(
        known[: len(rows)], known[len(rows) :], [f"{row['version']:04}_{row['name']}" for row in newer]
    )


def _require_usable(newer: Sequence[asyncpg.Record], code: int) -> None:
    for row in newer:
        if row["oldest_code"] > code:
            raise StoreError(
                f"The database has migration {row['version']:04}_{row['name']} of a newer version of Assent. It can be "
                f"used by versions that know migration {row['oldest_code']:04}; this one knows those up to {code:04}. "
                "Install the version that made it, or a newer one"
            )


def _require_known(version: int, name: str, checksum: str, expected: Migration) -> None:
    found = f"{version:04}_{name}"
    if expected.version != version:
        raise StoreError(
            f"The database has migration {found} where {expected} was expected: a row is missing from "
            "assent.schema_migrations. Restore it"
        )
    if expected.is_schema and expected.name != name:
        raise StoreError(_BEFORE_RELEASE)
    if not expected.is_schema and expected.checksum != checksum:
        raise StoreError(
            f"Migration {found} was changed after it was applied: its checksum was {checksum[:12]}…, now it "
            f"is {expected.checksum[:12]}…. Undo the change and write a new migration instead"
        )


def _place(target: Database | str) -> tuple[str, Settings]:
    if isinstance(target, str):
        return target, Settings.defaults()
    # A migration holds locks and raises timeouts for longer than a transaction of a pooler.
    return target.settings.direct_url(target.url), target.settings


@asynccontextmanager
async def owner_connection(target: Database | str) -> AsyncIterator[Connection]:
    """Open a connection whose statements may take as long as a migration needs."""
    url, settings = _place(target)
    connection = await connect(url, settings.replace(statement_timeout_ms=0))
    try:
        yield connection
    finally:
        await connection.close()
