"""Requests as people look for them: by the beginning of an id, or by the instance that asked. Only reads."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from assent.approvals.requests import request_from
from assent.model.approval import ApprovalRequest
from assent.store.connect import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.approvals", "lookup.sql")


async def find_requests(
    connection: Connection, org_id: str, first: UUID, last: UUID, limit: int
) -> list[UUID]:
    """The requests whose ids lie between two, both included."""
    rows = await connection.fetch(_SQL.find_requests_between, org_id, first, last, limit)
    return [row["id"] for row in rows]


async def requests_of_instance(
    connection: Connection, org_id: str, instance_id: UUID, limit: int
) -> Sequence[ApprovalRequest]:
    """What an instance asked people, the newest first."""
    rows = await connection.fetch(_SQL.list_requests_of_instance, org_id, instance_id, limit)
    return [request_from(row) for row in rows]
