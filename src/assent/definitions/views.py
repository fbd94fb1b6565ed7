"""Definitions that an org sees: its own and those of all orgs. Reads, and never writes."""

from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

from assent.compiler.credentials import hide_credentials
from assent.definitions.definition import Definition, DefinitionVersion, Kind, Status
from assent.definitions.load import verified
from assent.definitions.publisher import SQL
from assent.model.mutation import Refused, Rejection
from assent.model.workflow import Workflow
from assent.store.connection import Connection
from assent.store.rows import Row


@dataclass(frozen=True, slots=True)
class DefinitionFilter:
    """Which definitions are wanted; what is not said is no matter."""

    kind: Kind | None = None
    key: str | None = None
    status: Status | None = None
    entity_type: str | None = None
    own: bool = False
    """Only the org's own, and not everybody's."""


async def page_of_definitions(
    connection: Connection, org_id: str, wanted: DefinitionFilter, after: UUID | None, limit: int
) -> list[DefinitionVersion]:
    """Versions, the newest first."""
    by = (wanted.kind, wanted.key, wanted.status, wanted.entity_type, wanted.own)
    rows = await connection.fetch(SQL.page_of_definitions, org_id, *by, after, limit)
    return [DefinitionVersion.of(row) for row in rows]


@dataclass(frozen=True, slots=True)
class DefinitionContent:
    """A version of a definition with what its authors wrote: a flow, a contract, a patch, or patches together."""

    version: DefinitionVersion
    source: Any
    """Without credentials."""

    @classmethod
    def of(cls, row: Row) -> Self:
        return cls(DefinitionVersion.of(row), hide_credentials(_source(row)))


def _source(row: Row) -> Any:
    match row["definition_kind"]:
        case "flow":
            return row["source_json"]
        case "envelope":
            return row["source_json"]["contract"]
        case "org_patch":
            return row["body_patches_json"][0]
        case _:
            return list(row["body_patches_json"] or ())


async def definition_seen(connection: Connection, org_id: str, definition_id: UUID) -> Row:
    """Return a definition that the org may see, with its content; raise `Refused` if there is none."""
    row = await connection.fetchrow(SQL.read_definition_seen, org_id, definition_id)
    if row is None:
        message = f"there is no definition {definition_id}"
        raise Refused(Rejection("NOT_FOUND", message, ("definition_id",)))
    return row


def workflow_in(row: Row) -> Workflow:
    """Return what a definition compiled to; raise `Refused` where it never was, or is not what was compiled."""
    found = verified(row)
    if not isinstance(found, Definition):
        raise Refused(found)
    return found.workflow
