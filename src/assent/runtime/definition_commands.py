"""Commands to definitions and drafts: publish declarations, read their versions, archive them and roll back."""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from assent.compiler.declarations import CompiledSources, DeclarationKind, kind_of
from assent.compiler.diagram import diagram
from assent.compiler.source import Source, read_sources
from assent.definitions import (
    DefinitionVersion,
    Draft,
    Publication,
    archive,
    change_draft,
    create_draft,
    discard_draft,
    list_versions,
    publish_draft,
    read_draft,
    rollback,
    show_draft,
)
from assent.definitions.compile_thread import aside
from assent.definitions.definition import Kind, Status
from assent.definitions.publish import PublishedSources, publish_sources
from assent.definitions.sources import check_sources, published_contracts
from assent.definitions.views import (
    DefinitionContent,
    DefinitionFilter,
    definition_seen,
    page_of_definitions,
    workflow_in,
)
from assent.model.actor import Actor, By
from assent.model.cursor import ITEMS_DEFAULT, ItemPage, id_in, position_of, require_limit
from assent.model.workflow import Workflow
from assent.runtime.core import OrgScope
from assent.runtime.rights import EDIT, PUBLISH, may_read_definitions, require_capability
from assent.store.database import Connection
from assent.telemetry import current_trace

Declared = str | Path | Mapping[str, Any] | Source
"""A YAML file, a folder of YAML files, the content of such a file, or a source that was read already."""


def read_declared(declared: Declared) -> list[Source]:
    """Return the sources that a declaration consists of."""
    if isinstance(declared, Source):
        return [declared]
    if isinstance(declared, Mapping):
        return [Source("<given>", dict(declared))]
    path = Path(declared)
    files = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
    return [source for file in files for source in read_sources(file.read_bytes(), str(file))]


@dataclass(frozen=True, slots=True)
class DefinitionCommands:
    """Commands to the definitions of an org. Instances that are running keep the version that they started with."""

    scope: OrgScope

    async def publish(self, *declared: Declared) -> PublishedSources:
        """Publish contracts for every org, patches and flows for this one; all of them, or none.

        Raise `Invalid` with every problem of the declarations, or `PublishDenied` with every right that is missing.
        """
        sources = [source for each in declared for source in read_declared(each)]
        scope = self.scope

        async def work(connection: Connection) -> PublishedSources:
            return await publish_sources(
                connection,
                scope.org_id,
                sources,
                scope.required_actor,
                scope.database.clock.now(),
                capabilities=scope.core.capabilities,
            )

        # A contract belongs to no org, so the transaction that publishes one is not confined to an org.
        org_id = None if _has_contract(sources) else scope.org_id
        return await scope.database.run(work, org_id=org_id, by=self._by())

    async def check(self, *declared: Declared) -> CompiledSources:
        """Return every problem of declarations, and what the rest compiles to; nothing is stored.

        Published contracts need not be given.
        """
        sources = [source for each in declared for source in read_declared(each)]

        async def query(connection: Connection) -> builtins.list[Source]:
            return await published_contracts(connection, sources)

        contracts = await self.scope.read(query)
        return await aside(check_sources, sources, contracts)

    async def list(  # noqa: PLR0913
        self,
        *,
        kind: Kind | None = None,
        key: str | None = None,
        status: Status | None = None,
        entity_type: str | None = None,
        own: bool = False,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[DefinitionVersion]:
        """Return a page of versions, newest first: the org's own and those of all orgs, which `own` leaves out."""
        scope = self.scope
        after = position_of(cursor, id_in)
        require_limit(limit)
        filters = DefinitionFilter(kind, key, status, entity_type, own)

        async def query(connection: Connection) -> ItemPage[DefinitionVersion]:
            found = await page_of_definitions(connection, scope.org_id, filters, after, limit + 1)
            return ItemPage.of(found, limit, lambda version: str(version.id))

        return await scope.read(query)

    async def get(self, definition_id: UUID) -> DefinitionContent:
        """Return a version with its source; takes a capability to read, edit or publish definitions."""

        async def query(connection: Connection) -> DefinitionContent:
            row = await definition_seen(connection, self.scope.org_id, definition_id)
            may_read_definitions(self.scope.actor_or_system)
            return DefinitionContent.of(row)

        return await self.scope.read(query)

    async def workflows(self, *definition_ids: UUID) -> builtins.list[Workflow]:
        """Return what these versions compiled to, in their order; raise `Refused` where one never was."""

        async def query(connection: Connection) -> builtins.list[Workflow]:
            found = []
            for definition_id in definition_ids:
                row = await definition_seen(connection, self.scope.org_id, definition_id)
                may_read_definitions(self.scope.actor_or_system)
                found.append(workflow_in(row))
            return found

        return await self.scope.read(query)

    async def draw(self, definition_id: UUID) -> str:
        """Return the flowchart of a version in Mermaid."""
        (workflow,) = await self.workflows(definition_id)
        return diagram(workflow)

    async def list_versions(self, key: str | None = None) -> builtins.list[DefinitionVersion]:
        """Return every version that the org may see, or those of one key, newest first within a key."""
        async with self.scope.reading() as connection:
            return await list_versions(connection, self.scope.org_id, key=key)

    async def archive(self, definition_id: UUID) -> DefinitionVersion:
        """Archive a published flow or patch, so that no new instance starts from it; raise `Refused`."""

        async def work(connection: Connection) -> DefinitionVersion:
            return await archive(
                connection,
                self.scope.org_id,
                definition_id,
                self.scope.required_actor,
                self.scope.database.clock.now(),
                capabilities=self.scope.core.capabilities,
            )

        return await self.scope.database.run(work, org_id=self.scope.org_id, by=self._by())

    async def roll_back(self, definition_id: UUID) -> Publication:
        """Publish an archived version again and archive the current one; raise `Refused`."""

        async def work(connection: Connection) -> Publication:
            return await rollback(
                connection,
                self.scope.org_id,
                definition_id,
                self.scope.required_actor,
                self.scope.database.clock.now(),
                capabilities=self.scope.core.capabilities,
            )

        return await self.scope.database.run(work, org_id=self.scope.org_id, by=self._by())

    def _by(self) -> By:
        return by_actor(self.scope)


def by_actor(scope: OrgScope) -> By:
    return By(scope.required_actor, scope.core.origin, current_trace())


@dataclass(frozen=True, slots=True)
class DraftCommands:
    """The drafts of an org: flows and patches that are being written, valid or not; they never run."""

    scope: OrgScope

    async def get(self, definition_id: UUID) -> Draft:
        """Return a draft with its problems and its tag; raise `Refused` if there is none."""
        scope = self.scope

        async def query(connection: Connection) -> Draft:
            now = scope.database.clock.now()
            found = await show_draft(connection, scope.org_id, definition_id, now)
            may_read_definitions(scope.actor_or_system)
            return found

        return await scope.read(query)

    async def create(self, source: Mapping[str, Any]) -> Draft:
        """Keep a new draft; takes `definitions:edit`. Raise `Refused` or `Invalid`."""
        scope, actor = self._editor()

        async def work(connection: Connection) -> Draft:
            now = scope.database.clock.now()
            kept = await create_draft(connection, scope.org_id, source, actor, now)
            return await show_draft(connection, scope.org_id, kept.id, now)

        return await scope.database.run(work, org_id=scope.org_id, by=by_actor(scope))

    async def change(
        self, definition_id: UUID, source: Mapping[str, Any], *, tag: str | None = None
    ) -> Draft:
        """Replace a draft, which keeps its name; raise `Refused` if it has another tag by now, or `Invalid`."""
        scope, actor = self._editor()

        async def work(connection: Connection) -> Draft:
            now = scope.database.clock.now()
            await change_draft(connection, scope.org_id, definition_id, source, actor, now, tag=tag)
            return await show_draft(connection, scope.org_id, definition_id, now)

        return await scope.database.run(work, org_id=scope.org_id, by=by_actor(scope))

    async def discard(self, definition_id: UUID) -> DefinitionContent:
        """Discard a draft and return it; raise `Refused` if there is none."""
        scope, _ = self._editor()

        async def work(connection: Connection) -> DefinitionContent:
            row = await read_draft(connection, scope.org_id, definition_id)
            await discard_draft(connection, scope.org_id, definition_id)
            return DefinitionContent.of(row)

        return await scope.database.run(work, org_id=scope.org_id, by=by_actor(scope))

    async def publish(self, definition_id: UUID, *, tag: str | None = None) -> Publication:
        """Publish a draft, which is gone then; takes `definitions:publish` and what its steps use.

        Raise `Refused` if it has another tag than the one that was reviewed, or `Invalid` with all its problems.
        """
        scope = self.scope
        require_capability(scope.required_actor, PUBLISH)

        async def work(connection: Connection) -> Publication:
            return await publish_draft(
                connection,
                scope.org_id,
                definition_id,
                scope.required_actor,
                scope.database.clock.now(),
                capabilities=scope.core.capabilities,
                tag=tag,
            )

        return await scope.database.run(work, org_id=scope.org_id, by=by_actor(scope))

    def _editor(self) -> tuple[OrgScope, Actor]:
        require_capability(self.scope.required_actor, EDIT)
        return self.scope, self.scope.required_actor


def _has_contract(sources: Sequence[Source]) -> bool:
    return any(kind_of(source) is DeclarationKind.CONTRACT for source in sources)
