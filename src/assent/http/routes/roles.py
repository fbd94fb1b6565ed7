"""Roles and their capabilities. `/api/roles`"""

from typing import Annotated

from pydantic import Field, StringConstraints

from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.people import RoleBody
from assent.http.context import Transaction
from assent.http.fields import NAME_LENGTH_MAX, NamePath, RequestModel
from assent.http.paging import CursorQuery, LimitQuery, page_of
from assent.http.replies import Reply
from assent.http.routing import Router
from assent.model.cursor import position_of, text_in
from assent.people.members import MANAGE_ROLES, list_roles, read_role, set_capabilities

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
    after = position_of(cursor, text_in)
    tx.require(MANAGE_ROLES)
    roles = await list_roles(tx.connection, tx.org_id, after, limit + 1)
    return page_of(roles, limit, RoleBody.of, lambda role: role.role)


@router.query("/{role}", scope="members:read", summary="Read a role")
async def show_role(tx: Transaction, role: NamePath) -> RoleBody:
    """For holders of `roles:manage`. An unknown role has no capabilities."""
    tx.require(MANAGE_ROLES)
    return RoleBody.of(await read_role(tx.connection, tx.org_id, role))


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
    tx.require(MANAGE_ROLES)
    kept = await set_capabilities(tx.connection, tx.org_id, role, body.capabilities, tx.actor)
    return RoleBody.of(kept)
