"""The members of an org: listed, added, changed and deactivated; and the capabilities that their roles carry.

No member is deleted: history names them. A role is a name that members hold; there is nothing else to it. A member
gives or takes only what the member holds (`assent.model.policy`), manages others who hold no more, and never changes
their own roles, status or manager. The last active holder of `*` keeps it.
"""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal, Self

import asyncpg

from assent.model.actor import Actor
from assent.model.contract import Contract
from assent.model.mutation import Refused, Rejection
from assent.model.names import refuse_bad_id, require_name
from assent.model.policy import EVERYTHING, refuse_for_oneself, refuse_not_held, refuse_rights_not_held
from assent.store.connection import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.people", "people.sql")

MANAGE_ROLES: Final = "roles:manage"
"""The capability to say what roles carry."""
MANAGE_MEMBERS: Final = "members:manage"
"""The capability to take members in, change them and let them go."""


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
    """Return the capabilities that these roles carry together."""
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


MemberKind = Literal["user", "service_account"]
Contracts = Mapping[str, Contract]

_NOT_ONES_OWN: Final = ("roles", "active", "manager_id")
_NO_CONTRACTS: Final[Contracts] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NewMember:
    user_id: str
    name: str
    kind: MemberKind = "user"
    email: str | None = None
    roles: tuple[str, ...] = ()
    manager_id: str | None = None


@dataclass(frozen=True, slots=True)
class KeptMember:
    """A member as they are on record."""

    user_id: str
    kind: MemberKind
    name: str
    email: str | None
    roles: tuple[str, ...]
    manager_id: str | None
    active: bool
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: asyncpg.Record) -> Self:
        return cls(**{**row, "roles": tuple(row["roles"])})


@dataclass(frozen=True, slots=True)
class MemberFilter:
    """Which members are wanted; what is not said is no matter."""

    role: str | None = None
    active: bool | None = None


async def list_members(
    connection: Connection, org_id: str, wanted: MemberFilter, after: str | None, limit: int
) -> list[KeptMember]:
    rows = await connection.fetch(_SQL.list_members, org_id, wanted.role, wanted.active, after, limit)
    return [KeptMember.of(row) for row in rows]


async def read_member(connection: Connection, org_id: str, user_id: str) -> KeptMember:
    """Return a member, active or not; raise `Refused`."""
    row = await connection.fetchrow(_SQL.read_member, org_id, user_id)
    return _found(row, user_id)


async def create_member(  # noqa: PLR0913, PLR0917
    connection: Connection,
    org_id: str,
    new: NewMember,
    by: Actor,
    now: datetime,
    contracts: Contracts = _NO_CONTRACTS,
) -> KeptMember:
    """Take a member in, with roles that carry only what the giver holds; raises `Refused`."""
    refuse_bad_id(new.user_id)
    await lock_grants(connection, org_id)
    await _check_manager(connection, org_id, new.user_id, new.manager_id, by)
    await _check_roles(connection, org_id, new.kind, new.roles, by, contracts)
    if like := await connection.fetchval(_SQL.find_look_alike, org_id, new.user_id):
        message = f"`{new.user_id}` looks like the member `{like}`"
        raise Refused(
            Rejection("LOOK_ALIKE", message, ("user_id",), hint="choose an id that looks different")
        )
    given = (new.user_id, new.kind, new.name, new.email, list(new.roles), new.manager_id)
    row = await connection.fetchrow(_SQL.insert_member_if_new, org_id, *given, now)
    if row is None:
        message = f"there is a member {new.user_id} already"
        raise Refused(Rejection("ALREADY_EXISTS", message, ("user_id",), hint="change them instead"))
    return KeptMember.of(row)


async def change_member(  # noqa: PLR0913, PLR0917
    connection: Connection,
    org_id: str,
    user_id: str,
    changes: Mapping[str, Any],
    by: Actor,
    now: datetime,
    contracts: Contracts = _NO_CONTRACTS,
) -> KeptMember:
    """Set some of `name`, `email`, `roles`, `manager_id` and `active`; raises `Refused`."""
    await lock_grants(connection, org_id)
    found = _found(await connection.fetchrow(_SQL.lock_member, org_id, user_id), user_id)
    changed = replace(found, **changes)
    for name in _NOT_ONES_OWN:
        if getattr(found, name) != getattr(changed, name):
            refuse_for_oneself(by, user_id, f"changes their own {name}", name)
    await _check_roles(connection, org_id, found.kind, _given_or_taken(found, changed), by, contracts)
    if changed.manager_id != found.manager_id:
        await _check_manager(connection, org_id, user_id, changed.manager_id, by)
    given = (changed.name, changed.email, list(changed.roles), changed.manager_id, changed.active)
    async with keeping_an_administrator(connection, org_id, "active" if "active" in changes else "roles"):
        row = await connection.fetchrow(_SQL.update_member, org_id, user_id, *given, now)
        if found.active and not changed.active:
            await connection.execute(_SQL.revoke_keys_of_member, org_id, user_id, now)
            await connection.execute(_SQL.revoke_sessions_of_member, org_id, user_id, now)
    return _found(row, user_id)


def _given_or_taken(found: KeptMember, changed: KeptMember) -> set[str]:
    """Return the roles that a change gives or takes: all of them where a member leaves or comes back."""
    before, after = set(found.roles), set(changed.roles)
    return before | after if found.active != changed.active else before ^ after


async def _check_roles(  # noqa: PLR0913, PLR0917
    connection: Connection,
    org_id: str,
    kind: MemberKind,
    roles: Collection[str],
    by: Actor,
    contracts: Contracts,
) -> None:
    if not roles:
        return
    refuse_not_held(by, await read_carried(connection, org_id, roles), "roles")
    if kind == "service_account":
        refuse_rights_not_held(by, roles, contracts, "roles")


async def _check_manager(
    connection: Connection, org_id: str, user_id: str, manager_id: str | None, by: Actor
) -> None:
    """Refuse to make members their own managers, or managers by choice in the line above: a manager approves."""
    own = [name for name in (by.id, by.maker_id) if name is not None]
    if await connection.fetchval(_SQL.is_above, org_id, own, user_id):
        message = f"{user_id} is a manager of {by.id}, who may not choose the managers above them"
        raise Refused(Rejection("SEPARATION_OF_DUTIES", message, ("manager_id",)))
    if manager_id is None:
        return
    refuse_for_oneself(by, manager_id, "makes themselves a manager", "manager_id")
    if manager_id == user_id:
        raise Refused(Rejection("BAD_VALUE", "a member cannot manage themselves", ("manager_id",)))
    manager = await connection.fetchrow(_SQL.read_member, org_id, manager_id)
    if manager is None:
        raise Refused(Rejection("UNKNOWN_USER", f"{manager_id} is no member of {org_id}", ("manager_id",)))
    if manager["kind"] != "user":
        # The holder of its key would be the manager.
        message = f"{manager_id} is a service account; a manager is a person"
        raise Refused(Rejection("BAD_VALUE", message, ("manager_id",)))


def _found(row: asyncpg.Record | None, user_id: str) -> KeptMember:
    if row is None:
        raise Refused(Rejection("NOT_FOUND", f"no member {user_id}", ("user_id",)))
    return KeptMember.of(row)
