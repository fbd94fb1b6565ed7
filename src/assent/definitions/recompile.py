"""Compiling again what another compiler compiled (D31): a new version from the same source, and who moves to it.

An instance moves where nodes, edges and joins are what they were: its tokens then stand where they stood. The
move is a control step of the instance, which `repin` has to write. Where the graph differs the instances stay,
and are named.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.compiler import COMPILER_VERSION, compile_effective
from assent.definitions.definition import DefinitionVersion, Pin
from assent.definitions.history import read_definition
from assent.definitions.patches import read_envelope
from assent.definitions.publish import compile_kept_flow
from assent.definitions.publisher import SQL, Publisher, require_rights
from assent.definitions.sources import Columns, declared, effective_columns, flow_columns, patches_in
from assent.model.actor import SYSTEM, Actor
from assent.model.canonical import canonical_json
from assent.model.flow import Flow, parse_flow
from assent.model.problems import Invalid, Problem
from assent.model.workflow import Workflow
from assent.store.database import Connection, Database
from assent.store.rows import Row

INSTANCES_MAX: Final = 500
"""How many instances are handed to `repin` at once."""

_GRAPH: Final = ("start", "nodes", "edges", "joins")


@dataclass(frozen=True, slots=True)
class Move:
    """An instance that goes on under a new definition."""

    instance_id: UUID
    old: Pin
    new: Pin


Repin = Callable[[Sequence[Move]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Recompiled:
    """The result of recompiling one stale definition."""

    old: DefinitionVersion
    new: DefinitionVersion | None
    """None where its source has problems with this compiler; it stays stale then."""
    same_graph: bool = False
    problems: tuple[Problem, ...] = ()
    moved: int = 0
    staying: tuple[tuple[str, UUID], ...] = ()
    """Org and id of the instances that cannot move."""


async def recompile(
    database: Database, repin: Repin, *, actor: Actor = SYSTEM, instances_max: int = INSTANCES_MAX
) -> list[Recompiled]:
    """Compile again what is stale and still needed, and have its instances moved. As the owner, for all orgs.

    Each definition is a transaction, and a run that was cut off is finished by the next.
    """
    async with database.transaction(None) as connection:
        stale = await connection.fetch(SQL.find_stale, COMPILER_VERSION)
    found = []
    for row in stale:
        recompiled = await _recompile_one(database, row["org_id"], row["id"], actor)
        found.append(await _settle_instances(database, recompiled, repin, instances_max))
    return found


async def _recompile_one(database: Database, org_id: str, definition_id: UUID, actor: Actor) -> Recompiled:
    async def work(connection: Connection) -> Recompiled:
        return await recompile_definition(connection, org_id, definition_id, actor, database.clock.now())

    return await database.run(work, org_id=None)


async def recompile_definition(
    connection: Connection, org_id: str, definition_id: UUID, actor: Actor, now: datetime
) -> Recompiled:
    """Make a new version of one definition from its source, in the same status; the old one is archived."""
    publisher = Publisher(connection, org_id, actor, now, reviewed=True)
    async with connection.transaction():
        await publisher.lock_for(await read_definition(connection, org_id, definition_id))
        # Read again: the former holder of the lock may have archived it.
        row = await read_definition(connection, org_id, definition_id)
        old = DefinitionVersion.of(row)
        try:
            workflow, columns = await _compile_again(connection, row)
        except Invalid as invalid:
            return Recompiled(old, None, problems=tuple(invalid.problems))
        await require_rights(publisher, workflow)
        new = await publisher.keep(old.definition_kind, old.key, columns, old.status)
        return Recompiled(old, new, same_graph=_same_graph(row["compiled_json"], workflow))


async def _compile_again(connection: Connection, row: Row) -> tuple[Workflow, Columns]:
    if row["definition_kind"] == "flow":
        flow = declared(Flow, parse_flow, row["source_json"])
        workflow = await compile_kept_flow(connection, flow)
        return workflow, flow_columns(flow, workflow)
    patches = patches_in(row)
    envelope = await read_envelope(connection, row["entity_type"], row["base_ref"]["envelope_version"])
    workflow = compile_effective(envelope, patches).unwrap()
    return workflow, effective_columns(envelope, patches, workflow)


def _same_graph(compiled: Any, workflow: Workflow) -> bool:
    before = {part: compiled.get(part) for part in _GRAPH}
    content = workflow.content()
    return canonical_json(before) == canonical_json({part: content[part] for part in _GRAPH})


async def _settle_instances(
    database: Database, recompiled: Recompiled, repin: Repin, instances_max: int
) -> Recompiled:
    moved, staying = 0, []
    async for rows in _pinned(database, recompiled.old, instances_max):
        if recompiled.new is not None and recompiled.same_graph:
            await repin([_move(row, recompiled.old, recompiled.new) for row in rows])
            moved += len(rows)
        else:
            staying += [(row["org_id"], row["id"]) for row in rows]
    return replace(recompiled, moved=moved, staying=tuple(staying))


def _move(row: Row, old: DefinitionVersion, new: DefinitionVersion) -> Move:
    assert new.compiled_hash is not None
    org_id = row["org_id"]
    before = Pin(org_id, old.id, row["definition_version"], row["definition_hash"])
    return Move(row["id"], before, Pin(org_id, new.id, new.version, new.compiled_hash))


async def _pinned(
    database: Database, old: DefinitionVersion, instances_max: int
) -> AsyncIterator[Sequence[Row]]:
    """Yield the instances of a definition that have not ended, in batches. Goes by id, so that it always ends."""
    last: tuple[str | None, UUID | None] = (None, None)
    while True:
        async with database.transaction(None) as connection:
            rows = await connection.fetch(SQL.find_pinned, old.org_id, old.id, *last, instances_max)
        if not rows:
            return
        yield rows
        last = rows[-1]["org_id"], rows[-1]["id"]
