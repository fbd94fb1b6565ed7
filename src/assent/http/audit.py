"""Searching the audit log of the org. `/api/audit`"""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query
from pydantic import Field

from assent.audit.search import READ_AUDIT, AuditFilter, search_audit
from assent.http.desk import RequestContext
from assent.http.entity_shapes import AuditBody
from assent.http.moments import Moment
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.permissions import hidden_types
from assent.http.problems import documented
from assent.http.routing import Router
from assent.http.signing import Reading
from assent.http.texts import NameQuery
from assent.model.cursor import id_in, position_of
from assent.runtime.rights import require_capability
from assent.store.database import Connection
from assent.store.rows import Row

router = Router(prefix="/api/audit", tags=["audit"])

Look = Annotated[RequestContext, Depends(Reading("audit:read"))]
TimeQuery = Annotated[Moment | None, Query(examples=["2026-03-01T00:00:00Z"])]


class AuditEntryBody(AuditBody):
    """One thing that somebody did: a version of an entity, a command, or something that is administered."""

    entity_type: str | None = Field(examples=["invoice"])
    entity_id: UUID | None
    from_version: int | None
    to_version: int | None = Field(description="None where it is no version of an entity.")
    from_state: str | None
    to_state: str | None
    subject_kind: str | None = Field(
        description="What it was done to, where that is no entity: `instance`, `member`, `role`, …",
        examples=["instance"],
    )
    subject_id: str | None
    details: dict[str, Any] | None = Field(
        description="What was asked, or what else identifies the subject.", examples=[{"event": "submit"}]
    )


@router.get(
    "",
    response_model=Page[AuditEntryBody],
    summary="Search the audit log, newest first",
    responses=documented(422),
)
async def search_audit_log(  # noqa: PLR0913, PLR0917
    desk: Look,
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
) -> Any:
    """For holders of `audit:read`: changes of entities, commands to workflows, and what was administered.

    From `since` to before `until`. What they may not see is not here either.
    """
    wanted = AuditFilter(
        entity_type=entity_type,
        entity_id=entity_id,
        actor_id=actor,
        action=action,
        subject_kind=subject_kind,
        subject_id=subject_id,
        channel=channel,
        since=since,
        until=until,
        partition_id=desk.caller.partition_id,
        hidden_types=hidden_types(desk),
    )
    after = position_of(cursor, id_in)

    async def work(connection: Connection) -> list[Row]:
        require_capability(desk.caller.actor, READ_AUDIT)
        return await search_audit(connection, desk.org_id, wanted, after, limit + 1)

    return page_of(await desk.read(work), limit, AuditEntryBody.of, lambda row: str(row["id"]))
