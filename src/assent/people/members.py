"""The members of an org: listed, added, changed and deactivated. No member is deleted: history names them.

A member manages others who hold no more than the member, and never their own roles, status or manager.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal, Self

import asyncpg

from assent.model.actor import Actor
from assent.model.contract import Contract
from assent.model.mutation import Refused, Rejection
from assent.model.names import refuse_bad_id
from assent.model.policy import refuse_for_oneself, refuse_not_held, refuse_rights_not_held
from assent.people.roles import keeping_an_administrator, lock_grants, read_carried
from assent.store.connect import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.people", "members.sql")

MANAGE_MEMBERS: Final = "members:manage"
"""The capability to take members in, change them and let them go."""

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
    """A member, active or not; raises `Refused`."""
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
    return _found(row, user_id)


def _given_or_taken(found: KeptMember, changed: KeptMember) -> set[str]:
    """The roles that a change gives or takes: all of them where a member leaves or comes back."""
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
    """A manager approves, so no member makes themselves a manager, or chooses one in the line above."""
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
