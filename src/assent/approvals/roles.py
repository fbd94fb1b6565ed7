"""Roles and the capabilities that they carry. A role is a name that members hold; there is nothing else to it.

Nobody hands out what is not theirs: whoever gives a capability to a role holds it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from assent.model.actor import Actor
from assent.model.mutation import Refused, Rejection
from assent.store.connect import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.approvals", "roles.sql")

MANAGE_ROLES: Final = "roles:manage"
"""The capability to say what roles carry."""


@dataclass(frozen=True, slots=True)
class Role:
    role: str
    capabilities: tuple[str, ...] = ()
    members: int = 0
    """How many hold it, of those who are active."""


async def list_roles(connection: Connection, org_id: str, after: str | None, limit: int) -> list[Role]:
    """Every role that somebody holds or that carries something, by name."""
    return await _roles(connection, org_id, None, after, limit)


async def read_role(connection: Connection, org_id: str, name: str) -> Role:
    """A role; one that nobody has heard of carries nothing."""
    found = await _roles(connection, org_id, name, None, 1)
    return found[0] if found else Role(name)


async def set_capabilities(
    connection: Connection, org_id: str, role: str, capabilities: Collection[str], by: Actor
) -> Role:
    """Have a role carry exactly these; raises `Refused` where somebody gives what they have not."""
    await connection.execute(_SQL.lock_role, org_id, role)
    new = set(capabilities) - set((await read_role(connection, org_id, role)).capabilities)
    if missing := sorted(capability for capability in new if not by.can(capability)):
        message = f"{by.id} cannot give what they do not hold: {', '.join(missing)}"
        raise Refused(Rejection("POLICY_DENIED", message, ("capabilities",)))
    await connection.execute(_SQL.drop_capabilities_but, org_id, role, sorted(capabilities))
    await connection.execute(_SQL.put_capabilities, org_id, role, sorted(new))
    return await read_role(connection, org_id, role)


async def _roles(
    connection: Connection, org_id: str, name: str | None, after: str | None, limit: int
) -> list[Role]:
    rows = await connection.fetch(_SQL.list_roles, org_id, name, after, limit)
    return [Role(row["role"], tuple(row["capabilities"]), row["members"]) for row in rows]
