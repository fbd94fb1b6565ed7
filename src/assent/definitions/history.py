"""The history of definitions: versions listed, archived, restored. Running instances do not change."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from assent.compiler import compile_effective
from assent.definitions.definition import EVERYBODY, DefinitionVersion, Kind, Publication
from assent.definitions.patches import (
    keep_effective,
    publish_patches_by,
    published_patches,
    read_envelope,
    settle_effective,
)
from assent.definitions.publish import publish_flow_by
from assent.definitions.publisher import SQL, Publisher
from assent.definitions.sources import patches_in
from assent.model.actor import Actor
from assent.model.mutation import Refused, Rejection
from assent.store.connection import Connection
from assent.store.rows import Row


async def list_versions(
    connection: Connection, org_id: str | None = None, kind: Kind | None = None, key: str | None = None
) -> list[DefinitionVersion]:
    """Return every version that the connection may see, newest first within a key."""
    rows = await connection.fetch(SQL.list_definitions, org_id, kind, key)
    return [DefinitionVersion.of(row) for row in rows]


async def archive(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    definition_id: UUID,
    actor: Actor,
    now: datetime,
    *,
    capabilities: Mapping[str, str] | None = None,
) -> DefinitionVersion:
    """Take a published flow or patch out of use; an org's workflow goes on without the patch.

    What everybody starts for an entity type can be archived too: no new instance starts then.
    """
    publisher = Publisher(connection, org_id, actor, now, capabilities or {})
    row = await read_definition(connection, org_id, definition_id)
    _refuse_unmovable(row)
    if row["definition_kind"] == "org_patch" and await publisher.needs_two_people():
        # Without the patch another workflow starts, perhaps without its approvals.
        hint = "have a draft of the patch published that says what is to start instead"
        raise _refused(row, "FOUR_EYES_REQUIRED", "is not one person's to archive", hint)
    async with connection.transaction():
        await publisher.lock_for(row)
        archived = await connection.fetchrow(SQL.archive_if_published, org_id, definition_id, now)
        if archived is not None and row["definition_kind"] == "org_patch":
            await settle_effective(publisher, row["entity_type"])
        return DefinitionVersion.of(archived or await read_definition(connection, org_id, definition_id))


async def rollback(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    definition_id: UUID,
    actor: Actor,
    now: datetime,
    *,
    capabilities: Mapping[str, str] | None = None,
) -> Publication:
    """Publish an archived version again, and archive the current one.

    It is compiled again: where that gives what it gave then, the old version itself comes back, else a new one
    says the same.
    """
    publisher = Publisher(connection, org_id, actor, now, capabilities or {})
    row = await read_definition(connection, org_id, definition_id)
    _refuse_unmovable(row)
    match row["definition_kind"]:
        case "flow":
            return await publish_flow_by(publisher, row["source_json"])
        case "org_patch":
            (published,) = await publish_patches_by(publisher, patches_in(row))
            return published
        case _:
            return await _bring_back_effective(publisher, row)


async def _bring_back_effective(publisher: Publisher, row: Row) -> Publication:
    async with publisher.connection.transaction():
        await publisher.lock_for(row)
        if await published_patches(publisher, row["entity_type"]):
            raise _derived(row)
        version = row["base_ref"]["envelope_version"]
        envelope = await read_envelope(publisher.connection, row["entity_type"], version)
        kept, changed = await keep_effective(publisher, envelope, [], compile_effective(envelope).unwrap())
        return Publication(kept, kept, changed)


async def read_definition(connection: Connection, org_id: str, definition_id: UUID) -> Row:
    """Return a definition of an org with its content; raise `Refused`. Another org's is not there."""
    row = await connection.fetchrow(SQL.read_definition, org_id, definition_id)
    if row is None:
        message = f"org {org_id} has no definition {definition_id}"
        raise Refused(Rejection("NOT_FOUND", message, ("definition_id",)))
    return row


def _refuse_unmovable(row: Row) -> None:
    if row["definition_kind"] == "envelope":
        raise _refused(row, "DEFINITION_IMMUTABLE", "is generated and stays", "move the effective workflow")
    if row["status"] == "draft":
        raise _refused(row, "WORKFLOW_NOT_PUBLISHED", "is a draft", "publish it or discard it")
    if row["definition_kind"] == "effective" and (row["org_id"] != EVERYBODY or patches_in(row)):
        raise _derived(row)


def _derived(row: Row) -> Refused:
    return _refused(row, "DEFINITION_DERIVED", "follows from patches", "archive or bring back the patch")


def _refused(row: Row, code: str, message: str, hint: str) -> Refused:
    what = f"{row['definition_kind']} `{row['key']}` version {row['version']}"
    return Refused(Rejection(code, f"{what} {message}", ("definition_id",), hint=hint))
