"""Delegations: users who decide in the place of others, with scope and period. `/api/delegations`"""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.people import DelegationBody
from assent.http.context import Transaction
from assent.http.fields import Moment, NameQuery, RequestModel, ShortText, Text
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.replies import Reply
from assent.http.routing import Router
from assent.people.delegations import (
    REASON_LENGTH_MAX,
    SCOPE_NAMES_MAX,
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
    page = await tx.reads.delegations.list(user, everyone=all, only_open=open, cursor=cursor, limit=limit)
    return reply_with_page(page, DelegationBody.of)


@router.command(
    "", scope="approvals:write", rate="workflows", status=201, errors=(404,), summary="Delegate to a user"
)
async def create_delegation(tx: Transaction, body: NewDelegationBody) -> DelegationBody:
    """For the caller; for another user, and to a third, with `approvals:delegate`. The delegate gets a mail."""
    given = body.model_dump()
    return DelegationBody.of(await tx.runtime.delegations.create(given.pop("to_user"), **given))


@router.command(
    "/{delegation_id}/revoke",
    scope="approvals:write",
    rate="workflows",
    errors=(404,),
    summary="Revoke a delegation",
)
async def revoke_delegation(tx: Transaction, delegation_id: UUID) -> DelegationBody:
    """For the delegator, or with `approvals:delegate`. One that was revoked before does not change."""
    return DelegationBody.of(await tx.runtime.delegations.revoke(delegation_id))
