"""Instances as people look for them: by the beginning of an id, and with the names that authors gave to nodes."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from assent.definitions import Definition, Definitions
from assent.runtime.load import pin_of
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.runtime", "runtime.sql")


async def find_instances(
    connection: Connection, org_id: str, first: UUID, last: UUID, limit: int
) -> list[UUID]:
    """The instances whose ids lie between two, both included."""
    rows = await connection.fetch(_SQL.find_instances_between, org_id, first, last, limit)
    return [row["id"] for row in rows]


async def names_of_nodes(
    connection: Connection, definitions: Definitions, instances: Sequence[Row]
) -> Mapping[UUID, list[str]]:
    """Instance → the names of the nodes where it stands; ids, where its definition cannot be loaded."""
    loaded = await definitions.by_id(connection, [pin_of(row) for row in instances])
    names = {
        pin: {node.id: node.name for node in found.workflow.nodes.values()}
        if isinstance(found, Definition)
        else {}
        for pin, found in loaded.items()
    }
    return {
        row["id"]: [names[pin_of(row)].get(node, node) for node in row["current_nodes"]] for row in instances
    }
