"""Publishing: what authors wrote is checked, compiled and kept, and starts from now on; or all its problems.

Each function is one savepoint of the caller's transaction: everything or nothing. Definitions for everybody
(org `*`) are the owner's to publish; row security refuses them to the application's role.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from assent.compiler import compile_flow, envelope_of
from assent.model.actor import Actor
from assent.model.contract import Contract, parse_contract
from assent.model.envelope import Envelope
from assent.model.flow import Flow, parse_flow
from assent.model.problems import Invalid, Problem
from assent.runtime.definitions.definition import EVERYBODY, DefinitionVersion, Publication
from assent.runtime.definitions.effective import settle_effective
from assent.runtime.definitions.keep import SQL, Publisher
from assent.runtime.definitions.sources import (
    compiled_columns,
    contract_in,
    data_of,
    declared,
    envelope_columns,
)
from assent.store.connect import Connection


async def publish_contract(
    connection: Connection, contract: Contract | Mapping[str, Any], actor: Actor, now: datetime
) -> Publication:
    """Keep a contract's envelope, and have its workflow start for whoever patched nothing."""
    found = declared(Contract, parse_contract, contract)
    envelope, problems = envelope_of(found)
    if envelope is None:
        raise Invalid(problems)
    publisher = Publisher(connection, EVERYBODY, actor, now)
    async with connection.transaction():
        await publisher.lock_entity_type(found.name)
        kept = await _same_envelope(connection, envelope)
        if kept is not None:
            return Publication(kept, await publisher.published("effective", found.name), changed=False)
        columns = {"version": found.version, "entity_type": found.name, "name": found.label or found.name}
        kept = await publisher.insert("envelope", found.name, columns | envelope_columns(envelope))
        return Publication(kept, await settle_effective(publisher, found.name), changed=True)


async def _same_envelope(connection: Connection, envelope: Envelope) -> DefinitionVersion | None:
    """The envelope as it was kept before; raises `Invalid` where another contract had this version."""
    row = await connection.fetchrow(SQL.read_envelopes, envelope.entity_type, envelope.version)
    if row is None:
        return None
    if contract_in(row) != envelope.contract:
        raise Invalid([_taken(f"contract `{envelope.entity_type}`", envelope.version)])
    return DefinitionVersion.of(row)


async def publish_flow(
    connection: Connection, org_id: str, flow: Flow | Mapping[str, Any], actor: Actor, now: datetime
) -> Publication:
    """Publish a flow for an org, or for everybody; an org's own goes before everybody's."""
    found = declared(Flow, parse_flow, flow)
    workflow = compile_flow(found, await contract_of(connection, found.entity)).unwrap()
    publisher = Publisher(connection, org_id, actor, now)
    publisher.require_capabilities(workflow)
    source = data_of(found)
    columns = {"source_json": source, "entity_type": found.entity, "name": found.name or found.flow}
    async with connection.transaction():
        await publisher.lock_flow(found.flow)
        await _refuse_other_text(publisher, found, source)
        kept, changed = await publisher.publish("flow", found.flow, columns | compiled_columns(workflow))
        return Publication(kept, kept, changed)


async def contract_of(connection: Connection, entity_type: str | None) -> Contract | None:
    """The newest contract of the entity that a flow is about; without one its fields are not checked."""
    row = await connection.fetchrow(SQL.read_envelopes, entity_type, None) if entity_type else None
    return contract_in(row) if row else None


async def _refuse_other_text(publisher: Publisher, flow: Flow, source: Mapping[str, Any]) -> None:
    if await publisher.connection.fetchval(SQL.find_other_source, publisher.org_id, flow.flow, source):
        raise Invalid([_taken(f"flow `{flow.flow}`", flow.version)])


def _taken(what: str, version: int) -> Problem:
    message = f"version {version} of {what} is published already, and says something else"
    return Problem("VERSION_TAKEN", message, ("version",), hint="give it a new version")
