"""Commands to definitions: publish declarations, list their versions, archive them and roll back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from assent.compiler.declarations import DeclarationKind, kind_of
from assent.compiler.source import Source, read_sources
from assent.definitions import DefinitionVersion, Publication, archive, list_versions, rollback
from assent.definitions.publish import PublishedSources, publish_sources
from assent.model.actor import By
from assent.runtime.core import OrgScope
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

    async def list_versions(self, key: str | None = None) -> list[DefinitionVersion]:
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
        return By(self.scope.required_actor, self.scope.core.origin, current_trace())


def _has_contract(sources: Sequence[Source]) -> bool:
    return any(kind_of(source) is DeclarationKind.CONTRACT for source in sources)
