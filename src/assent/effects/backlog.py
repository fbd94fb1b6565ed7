"""The effects that are still to be sent, one by one. Reads, and never writes."""

from collections.abc import Mapping
from typing import Any, Final

from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.effects", "backlog.sql")


async def list_open_effects(connection: Connection, org_id: str, limit: int) -> list[Mapping[str, Any]]:
    return [dict(row) for row in await connection.fetch(_SQL.list_open_effects, org_id, limit)]
