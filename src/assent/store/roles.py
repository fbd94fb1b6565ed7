"""The database roles: made before the migrations that grant them rights, and compared with the catalogue afterwards.

Roles belong to the whole server and are in no dump of a database. So they are looked for on every `migrate`, not made
by a migration, and what the migrations granted is kept in a table that a dump does carry.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg

from assent.store.connection import Connection
from assent.store.errors import StoreError
from assent.store.queries import load_queries

ENGINE_ROLE: Final = "assent_engine"
"""Our own processes' role: under row security, with the privileges that the schema grants it and no more."""

CLIENT_ROLE: Final = "assent_client"
"""The role that host applications and reports join: it reads, and calls the functions that are meant for them."""

ROLES: Final = (ENGINE_ROLE, CLIENT_ROLE)

_SQL: Final = load_queries("assent.store", "store.sql")
_ELSEWHERE_AT_THE_SAME_TIME: Final = (
    asyncpg.DuplicateObjectError,
    asyncpg.UniqueViolationError,
    asyncpg.InternalServerError,  # "tuple concurrently updated": of a grant
)


@dataclass(frozen=True, slots=True)
class Report:
    """What is wrong with roles and their rights, as the statements that repair it; and what is only worth knowing."""

    roles: Sequence[str]
    """For an administrator: they make roles, and let the connected role act as the engine."""
    missing: Sequence[str]
    """For the owner: they give back what migrations granted."""
    beyond: Sequence[str]
    """For the owner: they take away what no migration granted."""
    notes: Sequence[str]

    @property
    def statements(self) -> list[str]:
        return [*self.roles, *self.missing, *self.beyond]


async def missing_roles(connection: Connection) -> list[str]:
    """Return the statements that make the roles that are missing; none where all is well."""
    rows = await connection.fetch(_SQL.text_of_missing_roles, ROLES, ENGINE_ROLE)
    return [row["statement"] for row in rows]


async def ensure_roles(connection: Connection) -> None:
    """Make the roles that are missing; `StoreError` with the statements where the connected role may not."""
    try:
        for statement in await missing_roles(connection):
            await _say(connection, statement)
    except asyncpg.InsufficientPrivilegeError as error:
        refused = str(error)
    else:
        refused = "others changed them at the same time"
    if missing := await missing_roles(connection):
        raise StoreError(
            f"The roles of Assent are not ready ({refused}). Have an administrator run this on the server, "
            f"then migrate again:\n{as_script(missing)}"
        )


async def _say(connection: Connection, statement: str) -> None:
    """Run a statement, undone by itself if it fails: a migration of another database on this server may be first."""
    try:
        async with connection.transaction():
            await connection.execute(statement)
    except _ELSEWHERE_AT_THE_SAME_TIME:
        pass


def as_script(statements: Sequence[str]) -> str:
    """Statements as a text for psql."""
    return "\n".join(f"{statement};" for statement in statements)


async def record_grants(connection: Connection) -> None:
    """Keep what the migrations granted, in their transaction."""
    if await connection.fetchval(_SQL.find_grants_table) is not None:
        await connection.execute(_SQL.record_grants, await _list_grants(connection))


async def examine_roles(connection: Connection) -> Report:
    """Compare roles and rights with what they must be; writes nothing."""
    # Of one moment: a migration changes grants and the record of them together.
    async with connection.transaction(readonly=True, isolation="repeatable_read"):
        recorded = await _list_recorded(connection)
        held = set(await _list_grants(connection)) if recorded else set()
        superuser = await connection.fetchval(_SQL.find_superuser)
        members = [row["rolname"] for row in await connection.fetch(_SQL.list_members, ENGINE_ROLE)]
        roles = await missing_roles(connection)
    notes = (
        [f"connected as the superuser {superuser}; the owner of the database is enough"] if superuser else []
    )
    notes += [f"{member} may act as {ENGINE_ROLE}, which is for Assent's own processes" for member in members]
    beyond = [_revoking(statement) for statement in sorted(held - set(recorded))]
    return Report(roles, [grant for grant in recorded if grant not in held], beyond, notes)


async def require_roles(connection: Connection) -> None:
    """Raise `StoreError` where a role, or something that migrations granted, is gone: as after a restore elsewhere."""
    report = await examine_roles(connection)
    if not report.roles and not report.missing:
        return
    what = [f"{len(report.roles)} statements about roles"] if report.roles else []
    what += [f"{len(report.missing)} rights that migrations granted"] if report.missing else []
    raise StoreError(
        f"The database lacks {' and '.join(what)}, as after a restore on a server without the roles. "
        f"`assent doctor` prints every statement that repairs it, beginning with:\n{as_script(report.statements[:3])}"
    )


def _revoking(statement: str) -> str:
    grant, _, role = statement.rpartition(" TO ")
    return f"{grant.replace('GRANT', 'REVOKE', 1)} FROM {role}"


async def _list_recorded(connection: Connection) -> list[str]:
    if await connection.fetchval(_SQL.find_grants_table) is None:
        return []
    return [row["statement"] for row in await connection.fetch(_SQL.list_recorded_grants)]


async def _list_grants(connection: Connection) -> list[str]:
    async with connection.transaction():
        await connection.execute(_SQL.look_names_up_in_the_catalogue_only)
        return [row["statement"] for row in await connection.fetch(_SQL.list_grants, ROLES)]
