"""The history of an entity: its versions, their differences, its audit trail and its approvals. `/api/entities/…`"""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Path
from pydantic import Field

from assent.bodies.body import ITEMS_DEFAULT, Data, Page, ResponseModel
from assent.bodies.instances import DiffBody, VersionBody
from assent.bodies.operations import EntityAuditBody
from assent.http.context import Transaction
from assent.http.fields import NamePath
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.replies import Reply
from assent.http.routing import Router
from assent.model.approval import Answer, RequestStatus

router = Router(prefix="/api/entities/{entity_type}/{entity_id}", tags=["entities"])

VersionNumber = Annotated[int, Path(ge=1, le=999_999_999)]


class DecisionRecordBody(ResponseModel):
    """One decision, the exact content that it was about, and its effect."""

    decision_id: UUID
    approver_id: str = Field(examples=["fin"])
    on_behalf_of: str | None
    answer: Answer
    outcome: str | None
    reason: str | None
    decided_at: datetime
    group_name: str | None
    via: str | None = Field(
        description="The rule that made them an approver.", examples=["role:finance_manager"]
    )
    request_id: UUID
    instance_id: UUID
    step_id: UUID
    node_id: str
    node_name: str
    requested_by: str
    asked_at: datetime
    status: RequestStatus
    status_reason: str | None = Field(examples=["edited: version 4"])
    entity_version: int
    content_hash: str | None
    snapshot: Data | None = Field(description="The content at that version.")
    snapshot_hash: str | None
    is_intact: bool = Field(description="Whether the snapshot still has the hash that was recorded.")
    state: str | None
    written_by: str | None
    applied_at: datetime | None
    applied_step_id: UUID | None = Field(description="The step of the gate that used the approval.")


@router.query(
    "/versions", scope="entities:read", errors=(404,), summary="List the versions of an entity, newest first"
)
async def list_entity_versions(
    tx: Transaction,
    entity_type: NamePath,
    entity_id: UUID,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[VersionBody]]:
    """Newest first, each with its whole content."""
    page = await tx.reads.entities.versions(entity_id, entity_type=entity_type, cursor=cursor, limit=limit)
    return reply_with_page(page, VersionBody.of)


@router.query(
    "/versions/{a}/diff/{b}",
    scope="entities:read",
    errors=(404,),
    summary="Compare two versions of an entity",
)
async def compare_entity_versions(
    tx: Transaction, entity_type: NamePath, entity_id: UUID, a: VersionNumber, b: VersionNumber
) -> DiffBody:
    """Field by field, and the state if it differs; the order of the two is the direction."""
    return DiffBody.of(await tx.reads.entities.compare(entity_id, a, b, entity_type=entity_type))


@router.query(
    "/audit",
    scope="entities:read",
    errors=(404,),
    summary="List the audit entries of an entity, newest first",
)
async def list_entity_audit(
    tx: Transaction,
    entity_type: NamePath,
    entity_id: UUID,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[EntityAuditBody]]:
    """Newest first. Commands to its workflow are in the audit log of the org."""
    page = await tx.reads.entities.audit(entity_id, entity_type=entity_type, cursor=cursor, limit=limit)
    return reply_with_page(page, EntityAuditBody.of)


@router.query(
    "/approvals",
    scope="approvals:read",
    errors=(404,),
    summary="List the decisions about an entity, oldest first",
)
async def list_entity_approvals(
    tx: Transaction,
    entity_type: NamePath,
    entity_id: UUID,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[DecisionRecordBody]]:
    """Each decision with the version, the hash of its content, and on whose behalf."""
    page = await tx.reads.entities.decisions(entity_id, entity_type=entity_type, cursor=cursor, limit=limit)
    return reply_with_page(page, DecisionRecordBody.of)
