"""Delegations: kept, revoked, listed, and loaded for people who answer or are searched; and who is there now.

A delegation is about a person's own seats, never about seats that were delegated to them: there are no chains. The
directory is asked again when people act on what was asked of them before.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final, Self
from uuid import UUID

import asyncpg

from assent.model.actor import Actor
from assent.model.approval import Delegation
from assent.model.ids import new_id
from assent.model.mutation import Refused, Rejection
from assent.people.directory import Directory, MembersDirectory, OrgUser
from assent.store.connection import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.people", "people.sql")

DELEGATE: Final = "approvals:delegate"
"""The capability to delegate, and to revoke, for others."""

SCOPE_NAMES_MAX: Final = 100
REASON_LENGTH_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class NewDelegation:
    """A command to have a person stand in."""

    org_id: str
    from_user: str
    to_user: str
    starts_at: datetime | None = None
    """At once by default; a time in the past counts as now."""
    ends_at: datetime | None = None
    """The end; by default it holds until it is revoked."""
    entity_types: tuple[str, ...] = ()
    workflows: tuple[str, ...] = ()
    """What it is about. Everything where both are empty; where both are said, both must fit."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class KeptDelegation:
    """A delegation as it is on record."""

    org_id: str
    id: UUID
    from_user: str
    to_user: str
    starts_at: datetime
    ends_at: datetime | None
    entity_types: tuple[str, ...]
    workflows: tuple[str, ...]
    reason: str | None
    created_by: str
    created_at: datetime
    revoked_at: datetime | None

    @classmethod
    def of(cls, row: asyncpg.Record) -> Self:
        scope = {name: tuple(row[name]) for name in ("entity_types", "workflows")}
        return cls(**{**row, **scope})


async def delegate(
    connection: Connection, directory: Directory, wanted: NewDelegation, by: Actor, now: datetime
) -> KeptDelegation:
    """Keep a delegation; raise `Refused` if it may not be."""
    if rejection := _check(wanted, by, now) or await _check_people(connection, directory, wanted):
        raise Refused(rejection)
    row = await connection.fetchrow(
        _SQL.insert_delegation,
        wanted.org_id,
        new_id(now),
        wanted.from_user,
        wanted.to_user,
        max(wanted.starts_at or now, now),
        wanted.ends_at,
        list(wanted.entity_types),
        list(wanted.workflows),
        wanted.reason,
        by.id,
        now,
    )
    assert row is not None
    return KeptDelegation.of(row)


def _check(wanted: NewDelegation, by: Actor, now: datetime) -> Rejection | None:
    if by.id != wanted.from_user and not by.can(DELEGATE):
        message = f"{by.id} may delegate what is their own; for {wanted.from_user} it takes {DELEGATE}"
        return Rejection("POLICY_DENIED", message, ("actor",))
    if wanted.from_user == wanted.to_user:
        return Rejection("BAD_VALUE", "a member cannot stand in for themselves", ("to_user",))
    if by.id != wanted.from_user and by.is_or_acts_for(wanted.to_user):
        message = f"{by.id} may not make themselves the stand-in of {wanted.from_user}"
        hint = f"{wanted.from_user} can, or another holder of {DELEGATE}"
        return Rejection("SEPARATION_OF_DUTIES", message, ("to_user",), hint=hint)
    return _check_dates(wanted, now) or _check_lengths(wanted)


def _check_dates(wanted: NewDelegation, now: datetime) -> Rejection | None:
    for key in ("starts_at", "ends_at"):
        at: datetime | None = getattr(wanted, key)
        if at is not None and at.tzinfo is None:
            return Rejection("BAD_DATES", f"a time with its zone was expected, found {at}", (key,))
    starts_at = max(wanted.starts_at or now, now)
    if wanted.ends_at is not None and wanted.ends_at <= starts_at:
        message = f"it must end after it starts and after now, {starts_at}; found {wanted.ends_at}"
        return Rejection("BAD_DATES", message, ("ends_at",))
    return None


def _check_lengths(wanted: NewDelegation) -> Rejection | None:
    for key in ("entity_types", "workflows"):
        if (count := len(getattr(wanted, key))) > SCOPE_NAMES_MAX:
            return Rejection(
                "TOO_LONG", f"at most {SCOPE_NAMES_MAX} names were expected, found {count}", (key,)
            )
    if wanted.reason is not None and len(wanted.reason) > REASON_LENGTH_MAX:
        return Rejection("TOO_LONG", f"at most {REASON_LENGTH_MAX} characters were expected", ("reason",))
    return None


async def _check_people(
    connection: Connection, directory: Directory, wanted: NewDelegation
) -> Rejection | None:
    names = [(wanted.org_id, wanted.from_user), (wanted.org_id, wanted.to_user)]
    known = await directory.by_id(connection, names)
    for key, name in zip(("from_user", "to_user"), names, strict=True):
        if name not in known:
            return Rejection("NOT_FOUND", f"there is no {name[1]} here", (key,))
    if not known[names[0]].active:
        return Rejection(
            "INACTIVE", f"{wanted.from_user} is not active: no member can stand in for them", ("from_user",)
        )
    if not known[names[1]].active:
        return Rejection("INACTIVE", f"{wanted.to_user} is not active and cannot stand in", ("to_user",))
    if known[names[1]].kind != "user":
        message = f"{wanted.to_user} is a service account: only people stand in for each other"
        return Rejection("BAD_VALUE", message, ("to_user",))
    return None


async def revoke(
    connection: Connection, org_id: str, delegation_id: UUID, by: Actor, now: datetime
) -> KeptDelegation:
    """End a delegation now; raise `Refused` if the actor may not. One that was revoked before stays as it was."""
    rows = await connection.fetch(
        _SQL.revoke_delegation_if_open, org_id, delegation_id, now, by.id, by.can(DELEGATE)
    )
    rows = rows or await connection.fetch(_SQL.read_delegation, org_id, delegation_id)
    if not rows:
        raise Refused(Rejection("NOT_FOUND", f"there is no delegation {delegation_id}", ("delegation_id",)))
    found = KeptDelegation.of(rows[0])
    if found.revoked_at is None:
        message = f"{by.id} may revoke what they delegated; {found.from_user}'s takes {DELEGATE}"
        raise Refused(Rejection("POLICY_DENIED", message, ("actor",)))
    return found


async def list_delegations(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    user_id: str | None = None,
    *,
    open_at: datetime | None = None,
    after: UUID | None = None,
    limit: int | None = None,
) -> Sequence[KeptDelegation]:
    """Return an org's delegations, the newest first: of or to one person, and those that still hold or will."""
    rows = await connection.fetch(_SQL.list_delegations, org_id, user_id, open_at, after, limit)
    return [KeptDelegation.of(row) for row in rows]


async def load_delegations(
    connection: Connection, people: Sequence[OrgUser], now: datetime
) -> Mapping[OrgUser, tuple[Delegation, ...]]:
    """Return the delegations by which each of these people may act for others now."""
    if not people:
        return {}
    orgs, users = map(list, zip(*people, strict=True))
    found: dict[OrgUser, list[Delegation]] = defaultdict(list)
    for row in await connection.fetch(_SQL.load_delegations, orgs, users, now):
        scope = tuple(row["entity_types"]), tuple(row["workflows"])
        delegation = Delegation(row["id"], row["from_user"], row["to_user"], *scope)
        found[row["org_id"], row["to_user"]].append(delegation)
    return {person: tuple(delegations) for person, delegations in found.items()}


async def find_away(connection: Connection, people: Collection[OrgUser], now: datetime) -> frozenset[OrgUser]:
    """Return those of these people who have delegated everything for now."""
    orgs, users = map(list, zip(*sorted(people), strict=True))
    rows = await connection.fetch(_SQL.find_away, orgs, users, now)
    return frozenset((row["org_id"], row["from_user"]) for row in rows)


PresenceRow = tuple[str, str, str | None]
"""An org, a person's id and a role of the person; without a role, that the person is active."""


KnownMembers = Mapping[tuple[str, str], tuple[str, Collection[str]] | None]
"""Org and user → kind and roles of the member; None for one who is not active."""


async def find_present(
    connection: Connection,
    directory: Directory,
    wanted: Collection[PresenceRow],
    known: KnownMembers = MappingProxyType({}),
) -> frozenset[PresenceRow]:
    """Return those of these that hold now: the person is active, and has the role where one is named.

    Of members who are `known`, only a directory other than `members` is asked.
    """
    if not wanted:
        return frozenset()
    if type(directory) is MembersDirectory:
        at_hand = frozenset(one for one in wanted if one[:2] in known and _holds(known[one[:2]], one[2]))
        wanted = [one for one in wanted if one[:2] not in known]
        if not wanted:
            return at_hand
        # One statement for all of them. A directory that overrides a method of it is asked by its methods.
        orgs, users, roles = map(list, zip(*wanted, strict=True))
        rows = await connection.fetch(_SQL.find_present, orgs, users, roles)
        return at_hand | {(row["org_id"], row["user_id"], row["role"]) for row in rows}
    with_roles = {presence for presence in wanted if presence[2] is not None}
    by_id = set(wanted) - with_roles
    found = await _with_roles(connection, directory, with_roles) if with_roles else set()
    if by_id:
        people = await directory.by_id(connection, sorted((org_id, user) for org_id, user, _ in by_id))
        found |= {(org_id, user, None) for (org_id, user), member in people.items() if member.active}
    return frozenset(found & set(wanted))


def _holds(member: tuple[str, Collection[str]] | None, role: str | None) -> bool:
    """Return whether a member is active and, where a role is named, holds it; a role is held by users only."""
    if member is None:
        return False
    kind, roles = member
    return role is None or (role in roles and kind == "user")


async def _with_roles(
    connection: Connection, directory: Directory, wanted: Iterable[PresenceRow]
) -> set[PresenceRow]:
    roles = sorted({(org_id, role) for org_id, _, role in wanted if role is not None})
    found = await directory.with_roles(connection, roles)
    return {
        (org_id, member.user_id, role)
        for (org_id, role), members in found.items()
        for member in members
        if member.active
    }


@dataclass(frozen=True, slots=True)
class Owner:
    """A person whose seats a reader may fill."""

    user_id: str
    present: bool
    """Whether they are active now."""
    roles: tuple[str, ...] = ()
    """Their roles now, at least those by which they are asked."""


async def find_owners(
    connection: Connection, directory: Directory, org_id: str, reader: str, now: datetime
) -> list[Owner]:
    """Return the people whose seats a reader may fill: the reader, and active people who have delegated to them."""
    if type(directory) is MembersDirectory:
        rows = await connection.fetch(_SQL.find_owners, org_id, reader, now)
        owners = [Owner(row["user_id"], row["present"], tuple(row["roles"])) for row in rows]
    else:
        owners = await _owners_elsewhere(connection, directory, org_id, reader, now)
    is_here = any(owner.present for owner in owners if owner.user_id == reader)
    return [owner for owner in owners if is_here or owner.user_id == reader]


async def _owners_elsewhere(
    connection: Connection, directory: Directory, org_id: str, reader: str, now: datetime
) -> list[Owner]:
    lent = await load_delegations(connection, [(org_id, reader)], now)
    names = sorted({reader, *(delegation.from_user for delegation in lent.get((org_id, reader), ()))})
    rows = await connection.fetch(_SQL.list_roles_of_open_seats, org_id, names)
    asked = [(row["user_id"], row["role"]) for row in rows]
    wanted: set[PresenceRow] = {(org_id, name, None) for name in names}
    wanted |= {(org_id, name, role) for name, role in asked}
    present = await find_present(connection, directory, wanted)
    return [
        Owner(
            name,
            (org_id, name, None) in present,
            tuple(role for other, role in asked if other == name and (org_id, name, role) in present),
        )
        for name in names
    ]
