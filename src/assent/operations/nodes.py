"""The fleet: the processes of workers and servers that run, and those that were lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.operations", "operations.sql")

NodeStatus = Literal["alive", "lost"]
NodePosition = tuple[str, UUID]
"""The host and the id of a process."""


@dataclass(frozen=True, slots=True)
class FleetNode:
    """A process of a worker or a server."""

    id: UUID
    """Of a worker: the `worker_id` of its jobs."""
    host: str
    pid: int
    version: str
    """Of Assent."""
    status: NodeStatus
    serves: bool
    """Whether it is an HTTP server."""
    duties: Sequence[str]
    """What it runs in the background."""
    task_types: Sequence[str]
    started_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A process as it says of itself."""

    id: UUID
    host: str
    pid: int
    version: str
    serves: bool
    duties: tuple[str, ...]
    task_types: tuple[str, ...]


async def record_node(
    connection: Connection, node: RunningNode, expected_for: timedelta, lost_kept_for: timedelta
) -> bool:
    """Say that a process runs, as the owner, and forget those that were lost so long ago; return whether it is new."""
    about = node.id, node.host, node.pid, node.version, node.serves, list(node.duties), list(node.task_types)
    is_new: bool = await connection.fetchval(_SQL.record_node, *about, expected_for, lost_kept_for)
    return is_new


async def remove_node(connection: Connection, node_id: UUID) -> None:
    """Say that a process has ended; as the owner."""
    await connection.execute(_SQL.remove_node, node_id)


async def list_nodes(connection: Connection, after: NodePosition | None, limit: int) -> list[FleetNode]:
    """Return the processes of the fleet, by host and id."""
    host, node_id = after or (None, None)
    return [FleetNode(**row) for row in await connection.fetch(_SQL.list_nodes, host, node_id, limit)]
