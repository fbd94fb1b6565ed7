"""Who approved what, exactly? One row per decision, with the version that it was about. Reads, and never writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.model.approval import Answer, RequestStatus
from assent.model.canonical import canonical_hash
from assent.store.connect import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.approvals", "approvals.sql")


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """The decision of one person, what it was about, and its effect."""

    decision_id: UUID
    approver_id: str
    on_behalf_of: str | None
    answer: Answer
    outcome: str | None
    """An answer of the node's own, where the answer is `returned`."""
    reason: str | None
    decided_at: datetime
    group_name: str | None
    via: str | None
    """How the person, or the person represented, was found."""
    request_id: UUID
    instance_id: UUID
    step_id: UUID
    node_id: str
    node_name: str
    requested_by: str
    asked_at: datetime
    status: RequestStatus
    status_reason: str | None
    """Why the request ended as it did, such as `edited: version 4`."""
    entity_type: str | None
    entity_id: UUID | None
    entity_version: int
    content_hash: str | None
    """Of what people had written at that version, which alone was approved."""
    snapshot: Mapping[str, Any] | None
    snapshot_hash: str | None
    state: str | None
    written_by: str | None
    applied_at: datetime | None
    applied_step_id: UUID | None
    """The step of the gate that the approval let pass."""

    @property
    def is_intact(self) -> bool:
        """Whether the snapshot is the one that its hash was made of."""
        return self.snapshot is None or canonical_hash(self.snapshot) == self.snapshot_hash


async def decisions_of_entity(
    connection: Connection,
    org_id: str,
    entity_id: UUID,
    *,
    after: tuple[datetime, UUID] | None = None,
    limit: int | None = None,
) -> Sequence[DecisionRecord]:
    """All decisions that were ever made about an entity, the oldest first; or a page of them, after one of them."""
    rows = await connection.fetch(
        _SQL.read_evidence, org_id, entity_id, None, *(after or (None, None)), limit
    )
    return [DecisionRecord(**row) for row in rows]


async def decisions_of_request(
    connection: Connection, org_id: str, request_id: UUID
) -> Sequence[DecisionRecord]:
    """The decisions on one request, the oldest first."""
    rows = await connection.fetch(_SQL.read_evidence, org_id, None, request_id, None, None, None)
    return [DecisionRecord(**row) for row in rows]
