"""What waits to be sent, counted. Reads, and never writes."""

from collections.abc import Mapping
from typing import Any, Final

from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.effects", "queue.sql")


async def count_open_effects(connection: Connection, org_id: str) -> list[Mapping[str, Any]]:
    return [dict(row) for row in await connection.fetch(_SQL.count_open_effects, org_id)]
