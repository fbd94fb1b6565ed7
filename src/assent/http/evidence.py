"""Who approved what, exactly. `/api/entities/{entity_type}/{entity_id}/approvals`"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends
from pydantic import BaseModel, Field

from assent.approvals.decision_log import DecisionRecord, decisions_of_entity
from assent.http.desk import RequestContext
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.problems import documented
from assent.http.routing import Router
from assent.http.showing import entity_for
from assent.http.signing import Reading
from assent.http.texts import Data, NamePath
from assent.model.approval import Answer, RequestStatus
from assent.model.cursor import position_of, time_and_id_in
from assent.store.database import Connection

router = Router(prefix="/api/entities/{entity_type}/{entity_id}", tags=["entities"])

Look = Annotated[RequestContext, Depends(Reading("approvals:read"))]


class DecisionRecordBody(BaseModel):
    """What one person answered, about exactly which content, and what became of it."""

    decision_id: UUID
    approver_id: str = Field(examples=["fin"])
    on_behalf_of: str | None
    answer: Answer
    outcome: str | None
    reason: str | None
    decided_at: datetime
    group_name: str | None
    via: str | None = Field(description="How they came to be asked.", examples=["role:finance_manager"])
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
    is_intact: bool = Field(description="Whether the snapshot is the one that its hash was made of.")
    state: str | None
    written_by: str | None
    applied_at: datetime | None
    applied_step_id: UUID | None = Field(description="The step of the gate that it let pass.")

    @classmethod
    def of(cls, evidence: DecisionRecord) -> "DecisionRecordBody":
        return cls(**{name: getattr(evidence, name) for name in cls.model_fields})


@router.get(
    "/approvals",
    response_model=Page[DecisionRecordBody],
    summary="See who approved what of an entity, the oldest first",
    responses=documented(404, 422),
)
async def list_entity_approvals(
    desk: Look,
    entity_type: NamePath,
    entity_id: UUID,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Any:
    """Each decision with the version, its content's hash, and on whose behalf."""
    after = position_of(cursor, time_and_id_in)

    async def work(connection: Connection) -> Sequence[DecisionRecord]:
        await entity_for(desk, connection, entity_type, entity_id)
        return await decisions_of_entity(connection, desk.org_id, entity_id, after=after, limit=limit + 1)

    def place(found: DecisionRecord) -> Any:
        return found.decided_at.isoformat(), str(found.decision_id)

    return page_of(await desk.read(work), limit, DecisionRecordBody.of, place)
