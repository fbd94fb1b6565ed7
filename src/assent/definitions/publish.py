"""Publishing: what authors wrote is checked, compiled and kept, and starts from now on; or all its problems.

Each function is one savepoint of the caller's transaction: everything or nothing. Files are published as one:
contracts, then patches, then flows; all of them, or every problem at its line. Definitions for everybody
(org `*`) are the owner's to publish; row security refuses them to the engine's role.
"""

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from assent.compiler import compile_flow, envelope_of
from assent.compiler.declarations import DeclarationKind, compile_sources, kind_of
from assent.compiler.source import Source, located
from assent.definitions.compile_thread import aside
from assent.definitions.definition import EVERYBODY, DefinitionVersion, Publication
from assent.definitions.patches import publish_patches_by, settle_effective
from assent.definitions.publisher import SQL, PublishDenied, Publisher, require_rights
from assent.definitions.sources import contract_in, data_of, declared, envelope_columns, flow_columns
from assent.kernel.indexes import declare_indexes
from assent.model.actor import Actor
from assent.model.contract import Contract, parse_contract
from assent.model.flow import Flow, parse_flow
from assent.model.graph import Envelope
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
        await declare_indexes(connection, found)
        kept = await _same_envelope(connection, envelope)
        if kept is not None:
            return Publication(kept, await publisher.published("effective", found.name), changed=False)
        columns = {"version": found.version, "entity_type": found.name, "name": found.label or found.name}
        kept = await publisher.insert("envelope", found.name, columns | envelope_columns(envelope))
        return Publication(kept, await settle_effective(publisher, found.name), changed=True)


async def _same_envelope(connection: Connection, envelope: Envelope) -> DefinitionVersion | None:
    """Return the envelope as it was kept before; raise `Invalid` where another contract had this version."""
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
    """Return what a flow compiles to; raise `Invalid` with everything that keeps it from being published."""
    workflow = await compile_kept_flow(publisher.connection, flow)
    taken = await publisher.connection.fetchval(
        SQL.find_other_source, publisher.org_id, flow.flow, data_of(flow)
    )
    if taken:
        raise Invalid([_taken(f"flow `{flow.flow}`", flow.version)])
    return workflow


async def compile_kept_flow(connection: Connection, flow: Flow) -> Workflow:
    """Compile a flow against the newest contract of its entity; without one the entity's fields are not checked."""
    row = await connection.fetchrow(SQL.read_envelopes, flow.entity, None) if flow.entity else None
    return (await aside(compile_flow, flow, contract_in(row) if row else None)).unwrap()


def _taken(what: str, version: int) -> Problem:
    message = f"version {version} of {what} is published already, and says something else"
    return Problem("VERSION_TAKEN", message, ("version",), hint="give it a new version")


@dataclass(slots=True)
class PublishedSources:
    """The result of publishing some sources."""

    publications: list[Publication] = field(default_factory=list)
    without_workflow: list[str] = field(default_factory=list)
    """Contracts that say `workflow: none`; nothing is published of them but their indexes."""


async def publish_sources(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    sources: Sequence[Source],
    actor: Actor,
    now: datetime,
    *,
    capabilities: Mapping[str, str] | None = None,
) -> PublishedSources:
    """Publish everything that the sources declare: contracts for everybody, patches and flows for an org.

    Raises `Invalid` with every problem that the sources have, with each other or with what is published; else
    `PublishDenied` with every right that the publisher lacks. `capabilities` are `app.capabilities`.
    """
    work = _Publication(sources)
    publisher = Publisher(connection, org_id, actor, now, capabilities or {})
    async with connection.transaction():
        for source in work.contracts():
            await work.attempt_one(source, publish_contract(connection, _data(source), actor, now))
        for source in work.without_workflow():
            await work.attempt([source], _declare_alone(connection, source, actor, now))
        for patches in work.patches():
            given = [_data(source) for source in patches]
            await work.attempt(patches, publish_patches_by(publisher, given))
        for source in work.of(DeclarationKind.FLOW):
            await work.attempt_one(source, publish_flow_by(publisher, _data(source)))
        if work.problems:
            raise Invalid(dict.fromkeys(work.problems))
        if work.denied is not None:
            raise work.denied
    return work.done


async def _declare_alone(
    connection: Connection, source: Source, actor: Actor, now: datetime
) -> list[Publication]:
    """Keep the indexes of a contract without a workflow; there is nothing else to publish of it."""
    contract = declared(Contract, parse_contract, _data(source))
    await Publisher(connection, EVERYBODY, actor, now).lock_entity_type(contract.name)
    await declare_indexes(connection, contract)
    return []


class _Publication:
    """The sources that can be read, what was published of them, and the problems so far."""

    def __init__(self, sources: Sequence[Source]) -> None:
        undeclared = [source for source in sources if kind_of(source) is None]
        self.problems = [problem for source in sources for problem in source.problems]
        self.problems += compile_sources(undeclared).problems
        self.denied: PublishDenied | None = None
        self.done = PublishedSources()
        self._readable = [source for source in sources if not source.problems]
        self._failed: list[Source] = [source for source in sources if source.problems]

    def of(self, kind: DeclarationKind) -> list[Source]:
        return [source for source in self._readable if kind_of(source) is kind]

    def contracts(self) -> Iterator[Source]:
        """Yield the contracts with a workflow, oldest first."""
        yield from (each for each in self._by_version() if each.value(("workflow",)) != "none")

    def without_workflow(self) -> Iterator[Source]:
        """Yield the contracts that say `workflow: none`, oldest first."""
        for source in self._by_version():
            if source.value(("workflow",)) == "none":
                self.done.without_workflow.append(str(source.value(("contract",))))
                yield source

    def _by_version(self) -> list[Source]:
        found = self.of(DeclarationKind.CONTRACT)
        return sorted(found, key=lambda source: str(source.value(("version",))).rjust(20))

    def patches(self) -> list[list[Source]]:
        """Return the patches of each entity type, unless its contract has problems: they could not be judged."""
        broken = {str(source.value(("contract",))) for source in self._failed}
        groups: dict[str, list[Source]] = {}
        for source in self.of(DeclarationKind.PATCH):
            groups.setdefault(str(source.value(("base", "entity_type"))), []).append(source)
        return [group for entity_type, group in sorted(groups.items()) if entity_type not in broken]

    async def attempt_one(self, source: Source, publishing: Awaitable[Publication]) -> None:
        async def one() -> list[Publication]:
            return [await publishing]

        await self.attempt([source], one())

    async def attempt(self, sources: Sequence[Source], publishing: Awaitable[list[Publication]]) -> None:
        try:
            self.done.publications += await publishing
        except Invalid as invalid:
            self._failed += sources
            for problem in invalid.problems:
                self.problems += _placed(problem, sources)
        except PublishDenied as denied:
            self.denied = denied if self.denied is None else self.denied.with_other(denied)


def _data(source: Source) -> dict[str, Any]:
    assert isinstance(source.data, dict), "a source that declares something is an object"
    return source.data


def _placed(problem: Problem, sources: Sequence[Source]) -> list[Problem]:
    """Return problems whose paths begin with the index of their source, where several were published together."""
    index = problem.path[0] if len(sources) > 1 and problem.path else None
    if isinstance(index, int):
        return located([replace(problem, path=problem.path[1:])], sources[index])
    return located([problem], sources[0])
