"""Roles and what they carry. `/api/roles`"""

from typing import Annotated, Any

from fastapi import Depends, Response
from pydantic import BaseModel, Field, StringConstraints

from assent.http.desk import RequestContext, Transaction
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.signing import Reading, Writing
from assent.http.texts import NAME_LENGTH_MAX, Body, NamePath
from assent.model.cursor import position_of, text_in
from assent.people.roles import MANAGE_ROLES, Role, list_roles, read_role, set_capabilities
from assent.runtime.rights import require_capability
from assent.store.database import Connection

router = Router(prefix="/api/roles", tags=["roles"])

Look = Annotated[RequestContext, Depends(Reading("members:read"))]
Write = Annotated[RequestContext, Depends(Writing("members:write", "entities"))]

CapabilityText = Annotated[
    str,
    StringConstraints(
        max_length=NAME_LENGTH_MAX, pattern=r"^(\*|[A-Za-z0-9_.\-]+(:[A-Za-z0-9_.\-]+)*(:\*)?)$"
    ),
]


class Carried(Body):
    capabilities: Annotated[list[CapabilityText], Field(max_length=500)] = Field(
        description="All that the role carries from now on.", examples=[["workflows:*", "events:emit"]]
    )


class RoleBody(BaseModel):
    """A role, and what it carries."""

    role: str = Field(examples=["operator"])
    capabilities: list[str] = Field(examples=[["workflows:*", "events:emit"]])
    members: int = Field(description="How many active members hold it.")

    @classmethod
    def of(cls, role: Role) -> "RoleBody":
        return cls(role=role.role, capabilities=list(role.capabilities), members=role.members)


@router.get("", response_model=Page[RoleBody], summary="List roles, by name", responses=documented(422))
async def list_roles_of_org(desk: Look, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT) -> Any:
    """For holders of `roles:manage`: every role that somebody holds or that carries something."""
    after = position_of(cursor, text_in)

    async def work(connection: Connection) -> list[Role]:
        require_capability(desk.caller.actor, MANAGE_ROLES)
        return await list_roles(connection, desk.org_id, after, limit + 1)

    return page_of(await desk.read(work), limit, RoleBody.of, lambda role: role.role)


@router.get("/{role}", response_model=RoleBody, summary="Read a role", responses=documented(422))
async def show_role(desk: Look, role: NamePath) -> Any:
    """For holders of `roles:manage`. A role that nobody has heard of carries nothing."""

    async def work(connection: Connection) -> RoleBody:
        require_capability(desk.caller.actor, MANAGE_ROLES)
        return RoleBody.of(await read_role(connection, desk.org_id, role))

    return await desk.read(work)


@router.put(
    "/{role}",
    response_model=RoleBody,
    summary="Say what a role carries",
    responses=documented(400, 409, 413, 422),
)
async def set_role(desk: Write, role: NamePath, body: Carried) -> Response:
    """For holders of `roles:manage`, who give and take only what they hold themselves."""

    async def work(session: Transaction) -> Reply:
        actor = desk.caller.actor
        require_capability(actor, MANAGE_ROLES)
        kept = await set_capabilities(session.connection, desk.org_id, role, body.capabilities, actor)
        return Reply.of(RoleBody.of(kept))

    return await desk.write(work)
