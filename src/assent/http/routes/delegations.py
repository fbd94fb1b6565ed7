"""Delegations: users who decide in the place of others, with scope and period. `/api/delegations`"""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from assent.bodies.body import ITEMS_DEFAULT, Page, ResponseModel
from assent.http.context import Transaction
from assent.http.fields import Moment, NameQuery, RequestModel, ShortText, Text
from assent.http.paging import CursorQuery, LimitQuery, page_of
from assent.http.replies import Reply
from assent.http.routing import Router
from assent.model.cursor import id_in, position_of
from assent.people.delegations import (
    DELEGATE,
    REASON_LENGTH_MAX,
    SCOPE_NAMES_MAX,
    NewDelegation,
    delegate,
    list_delegations,
    revoke,
)

router = Router(prefix="/api/delegations", tags=["delegations"])

ScopeNames = Annotated[list[ShortText], Field(max_length=SCOPE_NAMES_MAX)]


class NewDelegationBody(RequestModel):
    """A delegation; for everything if neither entity types nor workflows are named."""

    to_user: ShortText = Field(examples=["carol"])
    from_user: ShortText | None = Field(None, description="The delegator; the caller without it.")
    starts_at: Moment | None = Field(None, description="At once without it.")
    ends_at: Moment | None = Field(None, description="Until it is revoked without it.")
    entity_types: ScopeNames = Field([], examples=[["invoice"]])
    workflows: ScopeNames = Field([])
    reason: Annotated[Text, Field(max_length=REASON_LENGTH_MAX)] | None = Field(None, examples=["On holiday"])


class DelegationBody(ResponseModel):
    """A delegation."""

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


@router.query("", scope="approvals:read", summary="List delegations, newest first")
async def list_delegations_of_org(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    user: NameQuery = None,
    all: bool = False,
    open: bool = False,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[DelegationBody]]:
    """From and to the caller; another user's, or all (`all=true`), for holders of `approvals:delegate`."""
    user_id = None if all else user or tx.actor.id
    after = position_of(cursor, id_in)
    if user_id != tx.actor.id:
        tx.require(DELEGATE)
    open_at = tx.now() if open else None
    delegations = await list_delegations(
        tx.connection, tx.org_id, user_id, open_at=open_at, after=after, limit=limit + 1
    )
    return page_of(delegations, limit, DelegationBody.of, lambda delegation: str(delegation.id))


@router.command(
    "", scope="approvals:write", rate="workflows", status=201, errors=(404,), summary="Delegate to a user"
)
async def create_delegation(tx: Transaction, body: NewDelegationBody) -> DelegationBody:
    """For the caller; for another user, and to a third, with `approvals:delegate`."""
    new = NewDelegation(
        tx.org_id,
        body.from_user or tx.actor.id,
        body.to_user,
        body.starts_at,
        body.ends_at,
        tuple(body.entity_types),
        tuple(body.workflows),
        body.reason,
    )
    return DelegationBody.of(await delegate(tx.connection, tx.core.directory, new, tx.actor, tx.now()))


@router.command(
    "/{delegation_id}/revoke",
    scope="approvals:write",
    rate="workflows",
    errors=(404,),
    summary="Revoke a delegation",
)
async def revoke_delegation(tx: Transaction, delegation_id: UUID) -> DelegationBody:
    """For the delegator, or with `approvals:delegate`. One that was revoked before does not change."""
    return DelegationBody.of(await revoke(tx.connection, tx.org_id, delegation_id, tx.actor, tx.now()))
