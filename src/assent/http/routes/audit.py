"""Audit: search the audit log of the org. `/api/audit`"""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from pydantic import Field

from assent.audit.entries import READ_AUDIT, AuditFilter, search_audit
from assent.http.context import Transaction
from assent.http.fields import Moment, NameQuery, ResponseModel
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.replies import Reply
from assent.http.routing import Router
from assent.model.cursor import id_in, position_of
from assent.runtime.rights import hidden_types

router = Router(prefix="/api/audit", tags=["audit"])

TimeQuery = Annotated[Moment | None, Query(examples=["2026-03-01T00:00:00Z"])]


class AuditBody(ResponseModel):
    """An audit entry: actor, action, time, origin and reason."""

    id: UUID
    at: datetime
    actor_id: str
    actor_kind: str
    actor_roles: list[str]
    on_behalf_of: list[str] | None = Field(
        description="The users that the actor acted for, such as the submitter after a timer; null for none.",
        examples=[["ann"]],
    )
    action: str = Field(examples=["invoice.update"])
    changes: dict[str, Any] = Field(description="Field → [before, after].")
    place: str | None
    reason: str | None
    channel: str = Field(examples=["http"])
    instance_id: UUID | None
    trace_id: str | None


class AuditEntryBody(AuditBody):
    """An entry of the org's audit log: a version of an entity, a command, or an administrative change."""

    entity_type: str | None = Field(examples=["invoice"])
    entity_id: UUID | None
    from_version: int | None
    to_version: int | None = Field(description="Null if it is not a version of an entity.")
    from_state: str | None
    to_state: str | None
    subject_kind: str | None = Field(
        description="The kind of its object, if that is not an entity: `instance`, `member`, `role`, …",
        examples=["instance"],
    )
    subject_id: str | None
    details: dict[str, Any] | None = Field(
        description="The input of the command, or more about the object.", examples=[{"event": "submit"}]
    )


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
    filters = AuditFilter(
        entity_type=entity_type,
        entity_id=entity_id,
        actor_id=actor,
        action=action,
        subject_kind=subject_kind,
        subject_id=subject_id,
        channel=channel,
        since=since,
        until=until,
        partition_id=tx.partition_id,
        hidden_types=hidden_types(tx.contracts, tx.actor),
    )
    after = position_of(cursor, id_in)
    tx.require(READ_AUDIT)
    rows = await search_audit(tx.connection, tx.org_id, filters, after, limit + 1)
    return page_of(rows, limit, AuditEntryBody.of, lambda row: str(row["id"]))
