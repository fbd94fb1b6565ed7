"""Publishing: what authors wrote is checked, compiled and kept, and starts from now on; or all its problems.

Each function is one savepoint of the caller's transaction: everything or nothing. Definitions for everybody
(org `*`) are the owner's to publish; row security refuses them to the engine's role.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from assent.compiler import compile_flow, envelope_of
from assent.definitions.compile_thread import aside
from assent.definitions.definition import EVERYBODY, DefinitionVersion, Publication
from assent.definitions.effective import settle_effective
from assent.definitions.publisher import SQL, Publisher, require_rights
from assent.definitions.sources import contract_in, data_of, declared, envelope_columns, flow_columns
from assent.model.actor import Actor
from assent.model.contract import Contract, parse_contract
from assent.model.envelope import Envelope
from assent.model.flow import Flow, parse_flow
from assent.model.problems import Invalid, Problem
from assent.model.workflow import Workflow
from assent.store.connection import Connection


async def publish_contract(
    connection: Connection, contract: Contract | Mapping[str, Any], actor: Actor, now: datetime
) -> Publication:
    """Keep a contract's envelope, and have its workflow start in orgs without a patch."""
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


async def publish_flow(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    flow: Flow | Mapping[str, Any],
    actor: Actor,
    now: datetime,
    *,
    capabilities: Mapping[str, str] | None = None,
) -> Publication:
    """Publish a flow for an org, or for everybody; an org's own goes before everybody's.

    `capabilities` is what an application says its things take: `app.capabilities`.
    """
    return await publish_flow_by(Publisher(connection, org_id, actor, now, capabilities or {}), flow)


async def publish_flow_by(publisher: Publisher, flow: Flow | Mapping[str, Any]) -> Publication:
    found = await aside(declared, Flow, parse_flow, flow)
    async with publisher.connection.transaction():
        await publisher.lock_flow(found.flow)
        workflow = await check_flow(publisher, found)
        await require_rights(publisher, workflow)
        kept, changed = await publisher.publish("flow", found.flow, flow_columns(found, workflow))
        return Publication(kept, kept, changed)


async def check_flow(publisher: Publisher, flow: Flow) -> Workflow:
    """What a flow compiles to; raises `Invalid` with everything that keeps it from being published."""
    workflow = await compile_kept_flow(publisher.connection, flow)
    taken = await publisher.connection.fetchval(
        SQL.find_other_source, publisher.org_id, flow.flow, data_of(flow)
    )
    if taken:
        raise Invalid([_taken(f"flow `{flow.flow}`", flow.version)])
    return workflow


async def compile_kept_flow(connection: Connection, flow: Flow) -> Workflow:
    """A flow against the newest contract of its entity; without one the entity's fields are not checked."""
    row = await connection.fetchrow(SQL.read_envelopes, flow.entity, None) if flow.entity else None
    return (await aside(compile_flow, flow, contract_in(row) if row else None)).unwrap()


def _taken(what: str, version: int) -> Problem:
    message = f"version {version} of {what} is published already, and says something else"
    return Problem("VERSION_TAKEN", message, ("version",), hint="give it a new version")
