"""The rights of the engine's role on tables of the application: declared, given by the tables' owner, and compared.

Operations, actions and tasks run as the engine's role, which has no rights but on Assent's own schema.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import asyncpg

from assent.store.connection import Connection
from assent.store.errors import StoreError
from assent.store.queries import load_queries
from assent.store.roles import ENGINE_ROLE, as_script

Privilege = Literal["SELECT", "INSERT", "UPDATE", "DELETE"]
PRIVILEGES: Final[tuple[Privilege, ...]] = ("SELECT", "INSERT", "UPDATE", "DELETE")
TableGrants = Mapping[str, Sequence[Privilege]]
"""Table → what operations, actions and tasks may do with its rows."""

_SQL: Final = load_queries("assent.store", "store.sql")


@dataclass(slots=True)
class GrantReport:
    """How the rights on the application's tables differ from what it declares."""

    missing: list[str] = field(default_factory=list)
    """Statements for the owner of the tables."""
    unknown: list[str] = field(default_factory=list)
    """Tables that are not there."""
    unreachable: list[str] = field(default_factory=list)
    """Tables with row security of which no policy lets the engine's role see a row."""


async def examine_table_grants(connection: Connection, grants: TableGrants) -> GrantReport:
    """Compare the rights of the engine's role with what an application declares."""
    pairs = [(table, privilege) for table, privileges in grants.items() for privilege in privileges]
    report = GrantReport()
    if not pairs:
        return report
    tables, privileges = zip(*pairs, strict=True)
    for row in await connection.fetch(_SQL.compare_table_grants, tables, privileges, ENGINE_ROLE):
        getattr(report, row["finding"]).append(row["said"])
    return report


async def grant_tables(connection: Connection, grants: TableGrants) -> list[str]:
    """Give the engine's role the rights that are missing; return the statements.

    Raise `StoreError` where a table is not there, or belongs to another role: with the statements for its owner.
    """
    before = await examine_table_grants(connection, grants)
    if before.unknown:
        raise StoreError(
            f"The application declares rights on tables that are not there: {', '.join(before.unknown)}. "
            "Create them first, or correct the name in app.grant"
        )
    refused = "they were not given"
    try:
        async with connection.transaction():
            for statement in before.missing:
                await connection.execute(statement)
    except asyncpg.InsufficientPrivilegeError as error:
        refused = str(error)
    # PostgreSQL only warns where the role may use the table and may not grant it.
    left = (await examine_table_grants(connection, grants)).missing
    if left:
        raise StoreError(
            f"The engine's role lacks rights on tables of the application ({refused}). Have their owner run this:\n"
            f"{as_script(left)}"
        )
    return before.missing


def advise_on_rights(error: BaseException) -> None:
    """Add to PostgreSQL's "permission denied" what gives the right, for errors of the application's own statements."""
    if isinstance(error, asyncpg.InsufficientPrivilegeError) and not error.hint:
        error.hint = (
            f"Operations, actions and tasks run as {ENGINE_ROLE}. Declare the table with app.grant(…), and run "
            "`assent migrate --app …`; `assent doctor --app …` says what is missing, policies of row security included"
        )
