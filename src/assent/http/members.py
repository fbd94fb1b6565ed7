"""Members: who there is in an org, and what they are to it. `/api/members`"""

from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, Response
from pydantic import BaseModel, Field

from assent.http.desk import RequestContext, Transaction
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.signing import Reading, Writing
from assent.http.texts import Body, NamePath, NameQuery, ShortText
from assent.model.cursor import position_of, text_in
from assent.people.members import (
    MANAGE_MEMBERS,
    KeptMember,
    MemberFilter,
    MemberKind,
    NewMember,
    change_member,
    create_member,
    list_members,
    read_member,
)
from assent.runtime.rights import require_capability
from assent.store.database import Connection

router = Router(prefix="/api/members", tags=["members"])

Look = Annotated[RequestContext, Depends(Reading("members:read"))]
Write = Annotated[RequestContext, Depends(Writing("members:write", "entities"))]

Roles = Annotated[list[ShortText], Field(max_length=50, examples=[["clerk"]])]


class NewMemberBody(Body):
    user_id: ShortText = Field(description="As tokens name them.", examples=["dora"])
    name: ShortText = Field(examples=["Dora Diaz"])
    kind: MemberKind = "user"
    email: ShortText | None = Field(None, examples=["dora@example.com"])
    roles: Roles = Field([])
    manager_id: ShortText | None = None


class MemberChanges(Body):
    """What is not there stays as it is."""

    # By factories, for a default in the document would be sent by programs that were generated from it.
    name: ShortText = Field(default_factory=str, examples=["Dora Diaz"])
    email: ShortText | None = Field(default_factory=lambda: None)
    roles: Roles = Field(default_factory=list)
    manager_id: ShortText | None = Field(default_factory=lambda: None)
    active: bool = Field(default_factory=bool)


class MemberBody(BaseModel):
    """A member of the org."""

    user_id: str = Field(examples=["dora"])
    kind: MemberKind
    name: str = Field(examples=["Dora Diaz"])
    email: str | None
    roles: list[str] = Field(examples=[["clerk"]])
    manager_id: str | None
    active: bool = Field(description="Nobody signs in, or is asked, who is not.")
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, member: KeptMember) -> "MemberBody":
        return cls(**{name: getattr(member, name) for name in cls.model_fields})


@router.get(
    "", response_model=Page[MemberBody], summary="List members, by their ids", responses=documented(422)
)
async def list_members_of_org(
    desk: Look,
    role: NameQuery = None,
    active: bool | None = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Any:
    """Everybody of the org sees who there is, also who has left."""
    after = position_of(cursor, text_in)

    async def work(connection: Connection) -> list[KeptMember]:
        return await list_members(connection, desk.org_id, MemberFilter(role, active), after, limit + 1)

    return page_of(await desk.read(work), limit, MemberBody.of, lambda member: member.user_id)


@router.get("/{user_id}", response_model=MemberBody, summary="Read a member", responses=documented(404, 422))
async def show_member(desk: Look, user_id: NamePath) -> Any:
    """Also somebody who has left; what they did keeps their name."""

    async def work(connection: Connection) -> MemberBody:
        return MemberBody.of(await read_member(connection, desk.org_id, user_id))

    return await desk.read(work)


@router.post(
    "",
    status_code=201,
    response_model=MemberBody,
    summary="Take a member in",
    responses=documented(400, 409, 413, 422),
)
async def create_member_of_org(desk: Write, body: NewMemberBody) -> Response:
    """For holders of `members:manage`, who give only roles that carry what they hold themselves."""
    new = NewMember(**body.model_dump(exclude={"roles"}), roles=tuple(dict.fromkeys(body.roles)))

    async def work(session: Transaction) -> Reply:
        require_capability(desk.caller.actor, MANAGE_MEMBERS)
        actor, contracts = desk.caller.actor, desk.house.app.registry.contracts
        made = await create_member(session.connection, desk.org_id, new, actor, _now(desk), contracts)
        return Reply.of(MemberBody.of(made), 201, location=f"/api/members/{quote(made.user_id, safe='')}")

    return await desk.write(work)


@router.patch(
    "/{user_id}",
    response_model=MemberBody,
    summary="Change a member",
    responses=documented(400, 404, 409, 413, 422),
)
async def change_member_of_org(desk: Write, user_id: NamePath, body: MemberChanges) -> Response:
    """For holders of `members:manage`: roles that carry what they hold, and nobody's own roles or manager."""
    changes = body.model_dump(exclude_unset=True)
    if "roles" in changes:
        changes["roles"] = tuple(dict.fromkeys(body.roles))
    return await _change(desk, user_id, changes)


@router.post(
    "/{user_id}/deactivate",
    response_model=MemberBody,
    summary="Let a member go",
    responses=documented(404, 409, 413, 422),
)
async def deactivate_member(desk: Write, user_id: NamePath) -> Response:
    """For holders of `members:manage` and of all that the member holds. Their API keys are revoked with them."""
    return await _change(desk, user_id, {"active": False})


async def _change(desk: RequestContext, user_id: str, changes: dict[str, Any]) -> Response:
    async def work(session: Transaction) -> Reply:
        actor = desk.caller.actor
        require_capability(actor, MANAGE_MEMBERS)
        given = (user_id, changes, actor, _now(desk), desk.house.app.registry.contracts)
        changed = await change_member(session.connection, desk.org_id, *given)
        return Reply.of(MemberBody.of(changed))

    return await desk.write(work)


def _now(desk: RequestContext) -> datetime:
    return desk.house.database.clock.now()
