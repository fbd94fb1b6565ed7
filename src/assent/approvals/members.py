"""The members of an org: listed, taken in, changed, and out of it again. Nobody is deleted: history names them.

Whoever changes members decides who holds which role, so nobody does that for themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, Self

import asyncpg

from assent.model.actor import Actor
from assent.model.mutation import Refused, Rejection
from assent.store.connect import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.approvals", "members.sql")

MANAGE_MEMBERS: Final = "members:manage"
"""The capability to take members in, change them and let them go."""

MemberKind = Literal["user", "service_account"]
_NOT_ONES_OWN: Final = ("roles", "active")


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


async def create_member(connection: Connection, org_id: str, new: NewMember, now: datetime) -> KeptMember:
    """Take somebody in; raises `Refused`."""
    if new.user_id == "system":
        raise Refused(Rejection("RESERVED_NAME", "`system` is the engine itself", ("user_id",)))
    await _check_manager(connection, org_id, new.user_id, new.manager_id)
    given = (new.user_id, new.kind, new.name, new.email, list(new.roles), new.manager_id)
    row = await connection.fetchrow(_SQL.insert_member_if_new, org_id, *given, now)
    if row is None:
        message = f"there is a member {new.user_id} already"
        raise Refused(Rejection("ALREADY_EXISTS", message, ("user_id",), hint="change them instead"))
    return KeptMember.of(row)


async def change_member(  # noqa: PLR0913, PLR0917
    connection: Connection, org_id: str, user_id: str, changes: Mapping[str, Any], by: Actor, now: datetime
) -> KeptMember:
    """Set some of `name`, `email`, `roles`, `manager_id` and `active`; raises `Refused`."""
    found = _found(await connection.fetchrow(_SQL.lock_member, org_id, user_id), user_id)
    changed = replace(found, **changes)
    _check_own(found, changed, by)
    if changed.manager_id != found.manager_id:
        await _check_manager(connection, org_id, user_id, changed.manager_id)
    given = (changed.name, changed.email, list(changed.roles), changed.manager_id, changed.active)
    return _found(await connection.fetchrow(_SQL.update_member, org_id, user_id, *given, now), user_id)


def _check_own(found: KeptMember, changed: KeptMember, by: Actor) -> None:
    own = [name for name in _NOT_ONES_OWN if getattr(found, name) != getattr(changed, name)]
    if own and found.user_id == by.id:
        message = f"nobody changes their own {own[0]}: somebody else with {MANAGE_MEMBERS} may"
        raise Refused(Rejection("SEPARATION_OF_DUTIES", message, (own[0],)))


async def _check_manager(connection: Connection, org_id: str, user_id: str, manager_id: str | None) -> None:
    if manager_id is None:
        return
    if manager_id == user_id:
        raise Refused(Rejection("BAD_VALUE", "nobody manages themselves", ("manager_id",)))
    if await connection.fetchrow(_SQL.read_member, org_id, manager_id) is None:
        raise Refused(Rejection("UNKNOWN_USER", f"{manager_id} is no member of {org_id}", ("manager_id",)))


def _found(row: asyncpg.Record | None, user_id: str) -> KeptMember:
    if row is None:
        raise Refused(Rejection("NOT_FOUND", f"no member {user_id}", ("user_id",)))
    return KeptMember.of(row)
