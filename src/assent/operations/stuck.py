"""Instances that are stuck: they run, and yet there is nothing that could ever move them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.operations", "operations.sql")


@dataclass(frozen=True, slots=True)
class StuckInstance:
    """An instance that is stuck."""

    org_id: str
    instance_id: UUID
    workflow_id: str
    entity_type: str | None
    entity_id: UUID | None
    current_nodes: tuple[str, ...]
    still_since: datetime

    @property
    def fields(self) -> dict[str, object]:
        """For a log line."""
        return {
            "org_id": self.org_id,
            "instance_id": str(self.instance_id),
            "workflow_id": self.workflow_id,
            "current_nodes": list(self.current_nodes),
            "still_since": self.still_since.isoformat(),
        }


async def find_stuck(
    connection: Connection,
    org_id: str | None,
    older_than: timedelta,
    limit: int = 100,
    partition_id: str | None = None,
) -> list[StuckInstance]:
    """Running instances, of one org or of all, that have no event to process, no step that waits, and no news."""
    rows = await connection.fetch(_SQL.find_stuck_instances, org_id, older_than, limit, partition_id)
    return [StuckInstance(**dict(row) | {"current_nodes": tuple(row["current_nodes"])}) for row in rows]
