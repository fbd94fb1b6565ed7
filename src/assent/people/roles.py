"""Roles and the capabilities that they carry. A role is a name that members hold; there is nothing else to it.

A member gives or takes only what the member holds (`assent.model.policy`), and the last active holder of `*` keeps it.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from assent.model.actor import Actor
from assent.model.mutation import Refused, Rejection
from assent.model.names import require_name
from assent.model.policy import EVERYTHING, refuse_not_held
from assent.store.connect import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.people", "roles.sql")

MANAGE_ROLES: Final = "roles:manage"
"""The capability to say what roles carry."""


@dataclass(frozen=True, slots=True)
class Role:
    role: str
    capabilities: tuple[str, ...] = ()
    members: int = 0
    """How many hold it, of those who are active."""


async def list_roles(connection: Connection, org_id: str, after: str | None, limit: int) -> list[Role]:
    """Return every role that a member holds or that carries a capability, by name."""
    return await _roles(connection, org_id, None, after, limit)


async def read_role(connection: Connection, org_id: str, name: str) -> Role:
    """Return a role; an unknown one carries nothing."""
    found = await _roles(connection, org_id, name, None, 1)
    return found[0] if found else Role(name)


async def set_capabilities(
    connection: Connection, org_id: str, role: str, capabilities: Collection[str], by: Actor
) -> Role:
    """Have a role carry exactly these; raises `Refused` where the editor gives or takes what they do not hold."""
    require_name(role, "role")
    await lock_grants(connection, org_id)
    carried = set((await read_role(connection, org_id, role)).capabilities)
    wanted = set(capabilities)
    refuse_not_held(by, wanted ^ carried, "capabilities")
    async with keeping_an_administrator(connection, org_id, "capabilities"):
        await connection.execute(_SQL.drop_capabilities_but, org_id, role, sorted(wanted))
        await connection.execute(_SQL.put_capabilities, org_id, role, sorted(wanted - carried))
    return await read_role(connection, org_id, role)


async def read_carried(connection: Connection, org_id: str, roles: Collection[str]) -> frozenset[str]:
    """The capabilities that these roles carry together."""
    rows = await connection.fetch(_SQL.read_carried, org_id, sorted(roles))
    return frozenset(row["capability"] for row in rows)


async def lock_grants(connection: Connection, org_id: str) -> None:
    """Wait until no other transaction of the org gives or takes; what is read after it stays so."""
    await connection.execute(_SQL.lock_grants, org_id)


@asynccontextmanager
async def keeping_an_administrator(connection: Connection, org_id: str, path: str) -> AsyncIterator[None]:
    """Undo what is written inside and raise `Refused` if no member would hold `*` any more.

    Under `lock_grants`. A person who holds `*` is not replaced by a service account, which does not sign in.
    """
    before: int = await connection.fetchval(_SQL.rank_administrators, org_id, EVERYTHING)
    async with connection.transaction():
        yield
        if await connection.fetchval(_SQL.rank_administrators, org_id, EVERYTHING) < before:
            message = f"the last active member who holds `{EVERYTHING}` would lose it"
            hint = f"give another member a role that carries `{EVERYTHING}` first"
            raise Refused(Rejection("LAST_ADMINISTRATOR", message, (path,), hint=hint))


async def _roles(
    connection: Connection, org_id: str, name: str | None, after: str | None, limit: int
) -> list[Role]:
    rows = await connection.fetch(_SQL.list_roles, org_id, name, after, limit)
    return [Role(row["role"], tuple(row["capabilities"]), row["members"]) for row in rows]
