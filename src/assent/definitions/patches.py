"""Publishing an org's patches. Those of one entity type are compiled together: they share one envelope.

What an org starts for an entity type is the envelope with its published patches, as one frozen workflow.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from assent.compiler import compile_effective
from assent.definitions.compile_thread import aside
from assent.definitions.definition import EVERYBODY, DefinitionVersion, Publication
from assent.definitions.publisher import SQL, Publisher, require_rights
from assent.definitions.sources import data_of, effective_columns, envelope_in, patch_columns, patches_in
from assent.model.actor import Actor
from assent.model.graph import Envelope
from assent.model.patch import Base, Patch, parse_patch
from assent.model.problems import Invalid, Problem
from assent.model.workflow import Workflow
from assent.store.connection import Connection

PatchData = dict[str, Any]


async def read_envelope(connection: Connection, entity_type: str, version: int | None = None) -> Envelope:
    """Return the envelope of an entity type, the newest unless a version is named; raise `Invalid`."""
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
    """Return the org's published patches for an entity type, by name."""
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


GivenPatch = Patch | Mapping[str, Any]


async def publish_patch(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    patch: GivenPatch,
    actor: Actor,
    now: datetime,
    *,
    capabilities: Mapping[str, str] | None = None,
) -> Publication:
    """Publish an org's patch, and the workflow that it makes of the envelope with the org's other patches."""
    (published,) = await publish_patches(connection, org_id, [patch], actor, now, capabilities=capabilities)
    return published


async def publish_patches(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    patches: Sequence[GivenPatch],
    actor: Actor,
    now: datetime,
    *,
    capabilities: Mapping[str, str] | None = None,
) -> list[Publication]:
    """Publish patches of one entity type at once, where one alone would not fit the others any more.

    Paths of problems lead into the patch; where several are given they begin with the patch's index. `capabilities`
    is what an application says its things take: `app.capabilities`.
    """
    return await publish_patches_by(Publisher(connection, org_id, actor, now, capabilities or {}), patches)


async def publish_patches_by(publisher: Publisher, patches: Sequence[GivenPatch]) -> list[Publication]:
    given = await aside(_declared, patches)
    async with publisher.connection.transaction():
        await publisher.lock_entity_type(given[0].base.entity_type)
        for name in sorted({patch.patch for patch in given}):
            await publisher.lock_patch(name)
        compiled = await check_patches(publisher, given)
        kept = [await publisher.publish("org_patch", patch.patch, patch_columns(patch)) for patch in given]
        effective, is_new = await keep_effective(publisher, *compiled)
        return [Publication(patch, effective, changed or is_new) for patch, changed in kept]


async def check_patches(
    publisher: Publisher, given: Sequence[Patch]
) -> tuple[Envelope, list[PatchData], Workflow]:
    """Return what patches compile to, with the org's others; raise `Invalid` with what keeps them from it."""
    if problems := [problem async for problem in _names_taken(publisher, given)]:
        raise Invalid(problems)
    base, names = given[0].base, {patch.patch for patch in given}
    envelope = await read_envelope(publisher.connection, base.entity_type, base.envelope_version)
    published = await published_patches(publisher, base.entity_type)
    others = [patch for patch in published if patch["patch"] not in names]
    together = [*others, *map(data_of, given)]
    compilation = await aside(compile_effective, envelope, together)
    if compilation.workflow is None:
        raise Invalid(_seen_from_given(compilation.problems, others, len(given)))
    return envelope, together, compilation.workflow


async def rebase_patches(
    connection: Connection, org_id: str, base: Base, actor: Actor, now: datetime
) -> list[Publication]:
    """Move an org's patches of an entity type to another version of its envelope (D31).

    All together, because they are compiled together; raises `Invalid` with what no longer fits.
    """
    publisher = Publisher(connection, org_id, actor, now)
    async with connection.transaction():
        await publisher.lock_entity_type(base.entity_type)
        patches = await published_patches(publisher, base.entity_type)
        moved = [patch | {"base": data_of(base)} for patch in patches]
        return await publish_patches(connection, org_id, moved, actor, now) if moved else []


def _declared(patches: Sequence[GivenPatch]) -> list[Patch]:
    found: list[Patch] = []
    problems: list[Problem] = []
    for index, given in enumerate(patches):
        patch, wrong = (given, []) if isinstance(given, Patch) else parse_patch(given)
        problems += (_indexed(problem, index, len(patches)) for problem in wrong)
        if patch is not None:
            found.append(patch)
    if problems or not found:
        raise Invalid(problems or [Problem("MISSING_KEY", "there is no patch to publish")])
    return found


async def _names_taken(publisher: Publisher, given: Sequence[Patch]) -> AsyncIterator[Problem]:
    for index, patch in enumerate(given):
        published = await publisher.published("org_patch", patch.patch)
        if published is not None and published.entity_type != patch.base.entity_type:
            message = f"patch `{patch.patch}` is published for `{published.entity_type}`"
            hint = "give this one another name, or archive that one"
            yield _indexed(Problem("NAME_TAKEN", message, ("patch",), hint), index, len(given))


def _seen_from_given(
    problems: Sequence[Problem], others: Sequence[PatchData], given_count: int
) -> Iterator[Problem]:
    """Yield problems of a compilation with others: those of the given patches by their place, of the others by name."""
    several = len(others) + given_count > 1
    for problem in problems:
        index = problem.path[0] if several and problem.path else len(others)
        if not isinstance(index, int):
            yield problem
        elif index < len(others):
            hint = "rebase it, archive it, or publish both together"
            message = f"the published patch `{others[index]['patch']}` does not fit: {problem.message}"
            yield Problem(problem.code, message, (), hint)
        else:
            seen = replace(problem, path=problem.path[1:]) if several else problem
            yield _indexed(seen, index - len(others), given_count)


def _indexed(problem: Problem, index: int, count: int) -> Problem:
    return problem.under(index) if count > 1 else problem
