"""Delegations: who stands in for whom, for what, and how long. `/api/delegations`"""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Response
from pydantic import BaseModel, Field

from assent.http.desk import RequestContext, Transaction
from assent.http.moments import Moment
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.signing import Reading, Writing
from assent.http.texts import Body, NameQuery, ShortText, Text
from assent.model.cursor import id_in, position_of
from assent.model.mutation import Refused, Rejection
from assent.people.delegations import (
    DELEGATE,
    REASON_LENGTH_MAX,
    SCOPE_NAMES_MAX,
    KeptDelegation,
    NewDelegation,
    delegate,
    list_delegations,
    revoke,
)
from assent.runtime.rights import require_capability
from assent.store.database import Connection

router = Router(prefix="/api/delegations", tags=["delegations"])

Look = Annotated[RequestContext, Depends(Reading("approvals:read"))]
Act = Annotated[RequestContext, Depends(Writing("approvals:write", "workflows"))]

Names = Annotated[list[ShortText], Field(max_length=SCOPE_NAMES_MAX)]


class NewDelegationBody(Body):
    """Somebody is to stand in; for everything where nothing is said."""

    to_user: ShortText = Field(examples=["carol"])
    from_user: ShortText | None = Field(None, description="For whom; for oneself without.")
    starts_at: Moment | None = Field(None, description="At once, without.")
    ends_at: Moment | None = Field(None, description="Until it is revoked, without.")
    entity_types: Names = Field([], examples=[["invoice"]])
    workflows: Names = Field([])
    reason: Annotated[Text, Field(max_length=REASON_LENGTH_MAX)] | None = Field(None, examples=["On holiday"])


class DelegationBody(BaseModel):
    """Who stands in for whom."""

    id: UUID
    from_user: str = Field(examples=["bob"])
    to_user: str = Field(examples=["carol"])
    starts_at: datetime
    ends_at: datetime | None
    entity_types: list[str]
    workflows: list[str]
    reason: str | None
    created_by: str
    created_at: datetime
    revoked_at: datetime | None

    @classmethod
    def of(cls, kept: KeptDelegation) -> "DelegationBody":
        return cls(**{name: getattr(kept, name) for name in cls.model_fields})


@router.get(
    "",
    response_model=Page[DelegationBody],
    summary="List delegations, newest first",
    responses=documented(422),
)
async def list_delegations_of_org(  # noqa: PLR0913, PLR0917
    desk: Look,
    user: NameQuery = None,
    all: bool = False,
    open: bool = False,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Any:
    """From and to oneself; another's, or everybody's (`all=true`), for holders of `approvals:delegate`."""
    whose = None if all else user or desk.caller.actor.id
    after = position_of(cursor, id_in)

    async def work(connection: Connection) -> list[KeptDelegation]:
        if whose != desk.caller.actor.id:
            require_capability(desk.caller.actor, DELEGATE)
        now = desk.house.database.clock.now()
        terms: dict[str, Any] = {"open_at": now if open else None, "after": after, "limit": limit + 1}
        return list(await list_delegations(connection, desk.org_id, whose, **terms))

    return page_of(await desk.read(work), limit, DelegationBody.of, lambda kept: str(kept.id))


@router.post(
    "",
    status_code=201,
    response_model=DelegationBody,
    summary="Have somebody stand in",
    responses=documented(400, 404, 413, 422),
)
async def create_delegation(desk: Act, body: NewDelegationBody) -> Response:
    """For oneself; for another, and to a third, with `approvals:delegate`."""
    actor = desk.caller.actor
    wanted = NewDelegation(
        desk.org_id,
        body.from_user or actor.id,
        body.to_user,
        body.starts_at,
        body.ends_at,
        tuple(body.entity_types),
        tuple(body.workflows),
        body.reason,
    )

    async def work(session: Transaction) -> Reply:
        directory, now = session.runtime.core.directory, desk.house.database.clock.now()
        kept = await delegate(session.connection, directory, wanted, actor, now)
        return Reply.of(DelegationBody.of(_accepted(kept)), 201)

    return await desk.write(work)


@router.post(
    "/{delegation_id}/revoke",
    response_model=DelegationBody,
    summary="End a delegation",
    responses=documented(404, 413, 422),
)
async def revoke_delegation(desk: Act, delegation_id: UUID) -> Response:
    """For whoever delegated, or with `approvals:delegate`. One that was revoked before stays as it was."""

    async def work(session: Transaction) -> Reply:
        actor, now = desk.caller.actor, desk.house.database.clock.now()
        return Reply.of(
            DelegationBody.of(
                _accepted(await revoke(session.connection, desk.org_id, delegation_id, actor, now))
            )
        )

    return await desk.write(work)


def _accepted(found: KeptDelegation | Rejection) -> KeptDelegation:
    if isinstance(found, Rejection):
        raise Refused(found)
    return found
