"""Publishing what files say: contracts, then patches, then flows; all of them, or every problem at its line."""

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from assent.compiler.declarations import DeclarationKind, compile_sources, kind_of
from assent.compiler.source import Source, located
from assent.definitions.definition import Publication
from assent.definitions.patches import publish_patches_by
from assent.definitions.publish import publish_contract, publish_flow_by
from assent.definitions.publisher import PublishDenied, Publisher
from assent.model.actor import Actor
from assent.model.problems import Invalid, Problem
from assent.store.connection import Connection


@dataclass(slots=True)
class PublishedSources:
    """The result of publishing some sources."""

    publications: list[Publication] = field(default_factory=list)
    without_workflow: list[str] = field(default_factory=list)
    """Contracts that say `workflow: none`; there is nothing to publish of them."""


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
        """Those with a workflow, oldest first."""
        found = self.of(DeclarationKind.CONTRACT)
        for source in sorted(found, key=lambda source: str(source.value(("version",))).rjust(20)):
            if source.value(("workflow",)) == "none":
                self.done.without_workflow.append(str(source.value(("contract",))))
            else:
                yield source

    def patches(self) -> list[list[Source]]:
        """The patches of each entity type, unless its contract has problems: they could not be judged."""
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
    """Where several sources were published together, a path begins with the index of its source."""
    index = problem.path[0] if len(sources) > 1 and problem.path else None
    if isinstance(index, int):
        return located([replace(problem, path=problem.path[1:])], sources[index])
    return located([problem], sources[0])
