"""A request as whoever is asked sees it: what it is about, who is asked, what they have answered. Only reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from assent.approvals.requests import request_from
from assent.model.approval import ApprovalRequest
from assent.store.connect import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.approvals", "details.sql")


@dataclass(frozen=True, slots=True)
class ApprovalDetails:
    """A request, and its entity at the version that it asks about."""

    request: ApprovalRequest
    snapshot: Mapping[str, Any] | None
    state: str | None


async def read_request(connection: Connection, org_id: str, request_id: UUID) -> ApprovalDetails | None:
    row = await connection.fetchrow(_SQL.read_request, org_id, request_id)
    return ApprovalDetails(request_from(row), row["snapshot"], row["snapshot_state"]) if row else None
