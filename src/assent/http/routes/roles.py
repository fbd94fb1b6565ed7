"""Roles and their capabilities. `/api/roles`"""

from typing import Annotated

from pydantic import Field, StringConstraints

from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.people import RoleBody
from assent.http.context import Transaction
from assent.http.fields import NAME_LENGTH_MAX, NamePath, RequestModel
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.replies import Reply
from assent.http.routing import Router

router = Router(prefix="/api/roles", tags=["roles"])

CapabilityText = Annotated[
    str,
    StringConstraints(
        max_length=NAME_LENGTH_MAX, pattern=r"^(\*|[A-Za-z0-9_.\-]+(:[A-Za-z0-9_.\-]+)*(:\*)?)$"
    ),
]


class RoleChange(RequestModel):
    capabilities: Annotated[list[CapabilityText], Field(max_length=500)] = Field(
        description="All capabilities of the role from now on.", examples=[["workflows:*", "events:emit"]]
    )


@router.query("", scope="members:read", summary="List roles, by name")
async def list_roles_of_org(
    tx: Transaction, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[RoleBody]]:
    """For holders of `roles:manage`: every role that a member holds or that has a capability."""
    return reply_with_page(await tx.reads.roles.list(cursor=cursor, limit=limit), RoleBody.of)


@router.query("/{role}", scope="members:read", summary="Read a role")
async def show_role(tx: Transaction, role: NamePath) -> RoleBody:
    """For holders of `roles:manage`. An unknown role has no capabilities."""
    return RoleBody.of(await tx.reads.roles.get(role))


@router.command(
    "/{role}",
    method="PUT",
    scope="members:write",
    rate="entities",
    errors=(409,),
    summary="Set the capabilities of a role",
)
async def set_role(tx: Transaction, role: NamePath, body: RoleChange) -> RoleBody:
    """For holders of `roles:manage`, who give and take only what they hold themselves."""
    await tx.lock_grants()
    return RoleBody.of(await tx.runtime.roles.save(role, body.capabilities))
