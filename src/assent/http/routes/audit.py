"""Audit: search the audit log of the org. `/api/audit`"""

from typing import Annotated
from uuid import UUID

from fastapi import Query

from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.operations import AuditEntryBody
from assent.http.context import Transaction
from assent.http.fields import Moment, NameQuery
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.replies import Reply
from assent.http.routing import Router

router = Router(prefix="/api/audit", tags=["audit"])

TimeQuery = Annotated[Moment | None, Query(examples=["2026-03-01T00:00:00Z"])]


@router.query("", scope="audit:read", summary="Search the audit log, newest first")
async def search_audit_log(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    entity_type: NameQuery = None,
    entity_id: UUID | None = None,
    actor: NameQuery = None,
    action: NameQuery = None,
    subject_kind: NameQuery = None,
    subject_id: NameQuery = None,
    channel: NameQuery = None,
    since: TimeQuery = None,
    until: TimeQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[AuditEntryBody]]:
    """For holders of `audit:read`: changes of entities, commands to workflows and administrative changes.

    From `since` to before `until`. Entities that the caller may not read are left out.
    """
    page = await tx.reads.audit.search(
        entity_type=entity_type,
        entity_id=entity_id,
        actor=actor,
        action=action,
        subject_kind=subject_kind,
        subject_id=subject_id,
        channel=channel,
        since=since,
        until=until,
        cursor=cursor,
        limit=limit,
    )
    return reply_with_page(page, AuditEntryBody.of)
