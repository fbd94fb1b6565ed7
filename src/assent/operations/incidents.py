"""Incidents: what waits for an operator, each with the commands that help. Reads, and never writes.

An incident is an instance that an error paused, or an event, an effect, a result or a task that is dead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.model.ids import Cursor
from assent.operations.queues import COUNTED_MAX
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.operations", "operations.sql")

IncidentKind = Literal["instance", "event", "effect", "result", "task"]

EXAMPLES_MAX: Final = 5
"""How many ids a group of incidents shows."""


@dataclass(frozen=True, slots=True)
class WayOut:
    """A command that helps an incident."""

    name: str
    command: str
    """On the command line."""
    route: str
    """By HTTP, with POST."""


@dataclass(frozen=True, slots=True)
class IncidentGroup:
    """Incidents of one kind with one code, at one node of one definition."""

    kind: IncidentKind
    code: str
    definition: str | None
    node: str | None
    """The name of the node."""
    number: int
    first_at: datetime
    last_at: datetime
    examples: tuple[UUID, ...]
    """The ids of the newest: of instances, or of dead letters."""
    message: str | None
    """The message of the newest."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One instance that an error paused, or one dead letter."""

    id: UUID
    kind: IncidentKind
    code: str
    message: str | None
    since: datetime
    what: str | None
    """The type of an event or a task, the destination of an effect, what was asked where a result came for it."""
    instance_id: UUID | None
    definition: str | None
    definition_version: int | None
    node: str | None
    """The name of the node."""
    ways_out: tuple[WayOut, ...]


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """Which incidents are wanted; a field that is None filters nothing."""

    kind: IncidentKind | None = None
    code: str | None = None
    definition: str | None = None
    node: str | None = None


async def group_rows(connection: Connection, org_id: str, partition_id: str | None) -> list[Row]:
    """Return groups by the ids of nodes; a node has another id in each version of its definition."""
    rows = await connection.fetch(_SQL.group_incidents, org_id, partition_id, EXAMPLES_MAX, COUNTED_MAX)
    return [dict(row) for row in rows]


async def incident_rows(  # noqa: PLR0913, PLR0917
    connection: Connection,
    org_id: str,
    wanted: IncidentFilter,
    nodes: Sequence[str] | None,
    after: Cursor | None,
    limit: int,
    *,
    partition_id: str | None = None,
) -> list[Row]:
    """Return incidents, newest first; `nodes` has every id of the wanted node, or is None."""
    at, incident_id = after or (None, None)
    which = wanted.kind, wanted.code, wanted.definition, nodes
    rows = await connection.fetch(
        _SQL.page_of_incidents, org_id, partition_id, *which, at, incident_id, limit
    )
    return [dict(row) for row in rows]


def merge_groups(groups: Sequence[IncidentGroup]) -> list[IncidentGroup]:
    """Return groups with equal kind, code, definition and node as one, the newest first."""
    merged: dict[tuple[Any, ...], IncidentGroup] = {}
    for group in sorted(groups, key=lambda group: group.last_at, reverse=True):
        key = group.kind, group.code, group.definition, group.node
        known = merged.get(key)
        if known is None:
            merged[key] = group
        else:
            merged[key] = replace(
                known,
                number=known.number + group.number,
                first_at=min(known.first_at, group.first_at),
                examples=(*known.examples, *group.examples)[:EXAMPLES_MAX],
            )
    return list(merged.values())


def ways_out_of(kind: IncidentKind, incident_id: UUID) -> tuple[WayOut, ...]:
    """Return the commands that help an incident of this kind."""
    if kind != "instance":
        letters = f"/api/operations/dead-letters/{incident_id}"
        discard = f"assent dead-letters discard {incident_id} --reason TEXT"
        return (
            WayOut("retry", f"assent dead-letters retry {incident_id}", f"{letters}/retry"),
            WayOut("discard", discard, f"{letters}/discard"),
        )
    commands, routes = "assent instances", f"/api/instances/{incident_id}"
    return (
        WayOut("retry", f"{commands} retry {incident_id}", f"{routes}/retry"),
        WayOut(
            "skip",
            f"{commands} skip {incident_id} STEP EDGE --reason TEXT",
            f"/api/operations/instances/{incident_id}/skip",
        ),
        WayOut(
            "edit_variables",
            f"{commands} edit {incident_id} --data NAME=VALUE --reason TEXT",
            f"/api/operations/instances/{incident_id}/variables",
        ),
        WayOut("cancel", f"{commands} cancel {incident_id} --reason TEXT", f"{routes}/cancel"),
        WayOut(
            "force_fail",
            f"{commands} force-fail {incident_id} --reason TEXT",
            f"/api/operations/instances/{incident_id}/force-fail",
        ),
    )
