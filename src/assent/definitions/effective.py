"""What an org starts for an entity type: the envelope with its published patches, as one frozen workflow."""

from typing import Any

from assent.compiler import compile_effective
from assent.definitions.compile_thread import aside
from assent.definitions.definition import EVERYBODY, DefinitionVersion
from assent.definitions.publisher import SQL, Publisher, require_rights
from assent.definitions.sources import effective_columns, envelope_in, patches_in
from assent.model.envelope import Envelope
from assent.model.problems import Invalid, Problem
from assent.model.workflow import Workflow
from assent.store.connection import Connection

PatchData = dict[str, Any]


async def read_envelope(connection: Connection, entity_type: str, version: int | None = None) -> Envelope:
    """The envelope of an entity type, the newest unless a version is named; raises `Invalid`."""
    rows = await connection.fetch(SQL.read_envelopes, entity_type, version)
    if not rows:
        known = await connection.fetch(SQL.list_definitions, EVERYBODY, "envelope", entity_type)
        raise Invalid([_unknown(entity_type, version, sorted(row["version"] for row in known))])
    return envelope_in(rows[0])


def _unknown(entity_type: str, version: int | None, known: list[int]) -> Problem:
    hint = "publish the contract first"
    if not known:
        message = f"no contract `{entity_type}` is published"
        return Problem("UNKNOWN_CONTRACT", message, ("base", "entity_type"), hint)
    versions = ", ".join(map(str, known))
    message = f"contract `{entity_type}` has no version {version}; published are: {versions}"
    return Problem("UNKNOWN_CONTRACT", message, ("base", "envelope_version"), hint)


async def published_patches(publisher: Publisher, entity_type: str) -> list[PatchData]:
    """The org's published patches for an entity type, by name."""
    rows = await publisher.connection.fetch(SQL.read_published_patches, publisher.org_id, entity_type)
    return [patch for row in rows for patch in patches_in(row)]


async def settle_effective(publisher: Publisher, entity_type: str) -> DefinitionVersion | None:
    """Have the org start what its published patches say; without patches, what everybody starts."""
    patches = await published_patches(publisher, entity_type)
    if not patches and publisher.org_id != EVERYBODY:
        await publisher.archive_published("effective", entity_type)
        return None
    version = patches[0]["base"]["envelope_version"] if patches else None
    envelope = await read_envelope(publisher.connection, entity_type, version)
    workflow = (await aside(compile_effective, envelope, patches)).unwrap()
    effective, _ = await keep_effective(publisher, envelope, patches, workflow)
    return effective


async def keep_effective(
    publisher: Publisher, envelope: Envelope, patches: list[PatchData], workflow: Workflow
) -> tuple[DefinitionVersion, bool]:
    """Publish an effective workflow; false where it was published already."""
    await require_rights(publisher, workflow)
    columns = effective_columns(envelope, patches, workflow)
    return await publisher.publish("effective", envelope.entity_type, columns)
