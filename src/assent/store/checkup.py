"""What `assent doctor` asks of a database: whether the present code and machine can work on it.

Reads only. Every finding says what to do.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from assent.store.connection import Connection, connect
from assent.store.errors import StoreError
from assent.store.listen import DEAF, DEAF_REMEDY, hears_others
from assent.store.migrate import MigrationStatus, load_migrations, read_status
from assent.store.queries import load_queries
from assent.store.roles import ENGINE_ROLE, Report, as_script, examine_roles
from assent.store.settings import Settings
from assent.store.table_grants import TableGrants, examine_table_grants

CLOCK_TOLERANCE_S: Final = 2.0
OVERDUE_S: Final = 60.0
USED_PERCENT_MAX: Final = 90

_LANGUAGES: Final = ("plpgsql", "sql")
_PARTITIONED: Final = ("workflow_step_executions", "workflow_events_outbox")
_SQL: Final = load_queries("assent.store", "store.sql")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, and what to do about it."""

    check: str
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Checkup:
    """Everything that was looked at."""

    findings: Sequence[Finding]
    roles: Report | None
    """Roles and grants, as statements; none where there is no schema."""
    notes: Sequence[str]

    @property
    def is_healthy(self) -> bool:
        return not self.findings and not (self.roles and self.roles.statements)

    def to_json(self) -> dict[str, Any]:
        roles = self.roles or Report([], [], [], [])
        statements = {name: list(getattr(roles, name)) for name in ("roles", "missing", "beyond")}
        return {
            "healthy": self.is_healthy,
            "findings": [asdict(finding) for finding in self.findings],
            **statements,
            "notes": [*roles.notes, *self.notes],
        }


@dataclass(frozen=True, slots=True)
class PoolUse:
    """The connections of a process: how many its pool may open, and how many its lanes hold at a time."""

    connections_max: int
    lanes: int
    beside: int = 2
    """Outside the pool: one that listens, and one for a migration or a look at the database."""


async def examine_notifications(url: str, settings: Settings) -> list[Finding]:
    """Listen as a worker does, and try whether the notification of another session arrives."""
    direct = settings.direct_url(url)
    connection = await connect(direct, settings)
    try:
        heard = await hears_others(connection, direct, settings)
    finally:
        await connection.close()
    return [] if heard else [Finding("notifications", DEAF, DEAF_REMEDY)]


async def examine_database(
    connection: Connection,
    pool: PoolUse,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    *,
    grants: TableGrants | None = None,
) -> Checkup:
    """Look at roles, grants, schema, extensions, clock, connections, partitions and timers; `now` is our own clock."""
    try:
        found = await read_status(connection, load_migrations())
    except StoreError as error:
        return Checkup([Finding("schema", str(error), "see the message")], None, [])
    findings = [*_schema(found), *await _extensions(connection), *await _clock(connection, now)]
    findings += await _connections(connection, pool)
    if not found.applied:
        return Checkup(findings, None, [])
    roles = await examine_roles(connection)
    if not found.pending:
        findings += [*await _partitions(connection), *await _timers(connection)]
    if not roles.roles:
        findings += await _tables(connection, grants or {})
    notes = [f"migration {name} is of a newer version, which this one can work with" for name in found.newer]
    return Checkup(findings, roles, notes)


def _schema(found: MigrationStatus) -> Iterator[Finding]:
    if found.pending:
        names = ", ".join(str(migration) for migration in found.pending)
        yield Finding("schema", f"the database lacks {names}", "run `assent migrate`")


async def _extensions(connection: Connection) -> list[Finding]:
    rows = await connection.fetch(_SQL.list_missing_languages, _LANGUAGES)
    remedy = "have an administrator run CREATE EXTENSION plpgsql in this database"
    return [
        Finding("extensions", f"the language {row['name']} is missing in this database", remedy)
        for row in rows
    ]


async def _clock(connection: Connection, now: Callable[[], datetime]) -> list[Finding]:
    """Compare the clocks.

    The database is asked between two moments of ours, so that half the round trip is all that is unknown.
    """
    before, started_s = now(), time.monotonic()
    theirs: datetime = await connection.fetchval(_SQL.read_clock)
    trip_s = time.monotonic() - started_s
    ahead_s = (theirs - before).total_seconds() - trip_s / 2
    if abs(ahead_s) <= CLOCK_TOLERANCE_S + trip_s / 2:
        return []
    direction = "behind" if ahead_s > 0 else "ahead of"
    problem = f"the clock of this machine is {abs(ahead_s):.0f} s {direction} the database's"
    remedy = (
        "let both machines follow the same time server (chrony, systemd-timesyncd); due times go by the database's "
        "clock, but tokens, signatures and logs by this machine's"
    )
    return [Finding("clock", problem, remedy)]


async def _connections(connection: Connection, pool: PoolUse) -> list[Finding]:
    row = await connection.fetchrow(_SQL.read_connections)
    assert row is not None, "a SELECT without FROM has a row"
    given, used = row["given"], row["used"]
    findings = []
    if pool.lanes >= pool.connections_max:
        problem = f"the lanes of a worker hold {pool.lanes} connections, the pool has {pool.connections_max} for all"
        remedy = "raise ASSENT_POOL_CONNECTIONS_MAX, or lower ASSENT_WORKER_EVENTS_LANES or ASSENT_WORKER_TASKS_LANES"
        findings.append(Finding("pool", problem, remedy))
    if (most := pool.connections_max + pool.beside) > given:
        problem = f"this process may open {most} connections, the server gives {given} to all together"
        remedy = "lower ASSENT_POOL_CONNECTIONS_MAX, or raise max_connections and restart PostgreSQL"
        findings.append(Finding("pool", problem, remedy))
    if used * 100 >= given * USED_PERCENT_MAX:
        problem = f"{used} of the {given} connections that the server gives are in use"
        remedy = (
            "run fewer processes, lower ASSENT_POOL_CONNECTIONS_MAX, raise max_connections, or use a pooler"
        )
        findings.append(Finding("pool", problem, remedy))
    return findings


async def _partitions(connection: Connection) -> list[Finding]:
    missing = [row["missing"] for row in await connection.fetch(_SQL.list_missing_partitions, _PARTITIONED)]
    filled = [row["name"] for row in await connection.fetch(_SQL.list_filled_default_partitions)]
    remedy = "run `assent migrate`, which makes them; a running worker does so every hour (duty `partitions`)"
    findings = []
    if missing:
        problem = f"partitions of this month or the next are missing: {', '.join(missing)}"
        findings.append(Finding("partitions", problem, remedy))
    if filled:
        problem = f"rows of months that were not prepared are in {', '.join(filled)}"
        findings.append(Finding("partitions", problem, remedy))
    return findings


async def _tables(connection: Connection, grants: TableGrants) -> list[Finding]:
    """Look at the application's own tables, as far as it declares them."""
    found = await examine_table_grants(connection, grants)
    findings = []
    if found.unknown:
        problem = f"the application declares tables that are not there: {', '.join(found.unknown)}"
        findings.append(Finding("tables", problem, "create them, or correct the name in app.grant"))
    if found.missing:
        problem = f"{ENGINE_ROLE} lacks rights on tables of the application, so operations and tasks fail"
        remedy = f"run `assent migrate --app …`, or as the owner of the tables:\n{as_script(found.missing)}"
        findings.append(Finding("tables", problem, remedy))
    if found.unreachable:
        problem = (
            f"row security shows {ENGINE_ROLE} no row of {', '.join(found.unreachable)}: no policy is for it"
        )
        remedy = (
            f"CREATE POLICY assent ON {found.unreachable[0]} TO {ENGINE_ROLE} USING (true), or USING (org_id = "
            "current_setting('assent.org_id')) where its rows belong to orgs"
        )
        findings.append(Finding("tables", problem, remedy))
    return findings


async def _timers(connection: Connection) -> list[Finding]:
    overdue_s: float | None = await connection.fetchval(_SQL.read_overdue_timers)
    if overdue_s is None or overdue_s <= OVERDUE_S:
        return []
    problem = f"a timer has been due for {overdue_s:.0f} s, and no worker took it"
    remedy = (
        "start a worker (`assent worker`), or look at why it does not get on: its log, and `assent health`"
    )
    return [Finding("timers", problem, remedy)]
