"""Members: the users and service accounts of an org. `/api/members`"""

from typing import Annotated
from urllib.parse import quote

from pydantic import Field

from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.people import MemberBody
from assent.http.context import Transaction
from assent.http.fields import NamePath, NameQuery, RequestModel, ShortText
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.replies import Reply, reply_with
from assent.http.routing import Router
from assent.people.members import (
    MemberKind,
)

router = Router(prefix="/api/members", tags=["members"])

Roles = Annotated[list[ShortText], Field(max_length=50, examples=[["clerk"]])]


class NewMemberBody(RequestModel):
    user_id: ShortText = Field(description="The id in tokens.", examples=["dora"])
    name: ShortText = Field(examples=["Dora Diaz"])
    kind: MemberKind = "user"
    email: ShortText | None = Field(None, examples=["dora@example.com"])
    roles: Roles = Field([])
    manager_id: ShortText | None = None


class MemberChanges(RequestModel):
    """Fields that change; a missing field does not change."""

    # By factories, for a default in the document would be sent by programs that were generated from it.
    name: ShortText = Field(default_factory=str, examples=["Dora Diaz"])
    email: ShortText | None = Field(default_factory=lambda: None)
    roles: Roles = Field(default_factory=list)
    manager_id: ShortText | None = Field(default_factory=lambda: None)
    active: bool = Field(default_factory=bool)


@router.query("", scope="members:read", summary="List members, by id")
async def list_members_of_org(
    tx: Transaction,
    role: NameQuery = None,
    active: bool | None = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[MemberBody]]:
    """For all members of the org; also members who have left."""
    page = await tx.reads.members.list(role=role, active=active, cursor=cursor, limit=limit)
    return reply_with_page(page, MemberBody.of)


@router.query("/{user_id}", scope="members:read", errors=(404,), summary="Read a member")
async def show_member(tx: Transaction, user_id: NamePath) -> MemberBody:
    """Also a member who has left; the record of their actions keeps their name."""
    return MemberBody.of(await tx.reads.members.get(user_id))


@router.command(
    "", scope="members:write", rate="entities", status=201, errors=(409,), summary="Create a member"
)
async def create_member_of_org(tx: Transaction, body: NewMemberBody) -> Reply[MemberBody]:
    """For holders of `members:manage`, who give only roles whose capabilities they hold themselves."""
    await tx.lock_grants()
    made = await tx.runtime.members.create(**body.model_dump())
    location = f"/api/members/{quote(made.user_id, safe='')}"
    return reply_with(MemberBody.of(made), 201, headers={"location": location})


@router.command(
    "/{user_id}",
    method="PATCH",
    scope="members:write",
    rate="entities",
    errors=(404, 409),
    summary="Change a member",
)
async def change_member_of_org(tx: Transaction, user_id: NamePath, body: MemberChanges) -> MemberBody:
    """For holders of `members:manage`: only roles whose capabilities they hold, not their own roles or manager."""
    changes = body.model_dump(exclude_unset=True)
    await tx.lock_grants()
    return MemberBody.of(await tx.runtime.members.change(user_id, changes))


@router.command(
    "/{user_id}/deactivate",
    scope="members:write",
    rate="entities",
    errors=(404, 409),
    summary="Deactivate a member",
)
async def deactivate_member(tx: Transaction, user_id: NamePath) -> MemberBody:
    """For holders of `members:manage` and of all that the member holds. Their API keys are revoked too."""
    await tx.lock_grants()
    return MemberBody.of(await tx.runtime.members.deactivate(user_id))
