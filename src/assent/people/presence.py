"""Who is there now: the directory is asked again when people act on what was asked of them before."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from assent.people.delegations import load_delegations
from assent.people.directory import Directory, MembersDirectory
from assent.store.connect import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.people", "people.sql")

PresenceRow = tuple[str, str, str | None]
"""An org, a person's id and a role of the person; without a role, that the person is active."""


async def find_present(
    connection: Connection, directory: Directory, wanted: Collection[PresenceRow]
) -> frozenset[PresenceRow]:
    """Those of these that hold now: the person is active, and has the role where one is named."""
    if not wanted:
        return frozenset()
    if type(directory) is MembersDirectory:
        # One statement for all of them. A directory that overrides a method of it is asked by its methods.
        orgs, users, roles = map(list, zip(*wanted, strict=True))
        rows = await connection.fetch(_SQL.find_present, orgs, users, roles)
        return frozenset((row["org_id"], row["user_id"], row["role"]) for row in rows)
    with_roles = {presence for presence in wanted if presence[2] is not None}
    by_id = set(wanted) - with_roles
    found = await _with_roles(connection, directory, with_roles) if with_roles else set()
    if by_id:
        people = await directory.by_id(connection, sorted((org_id, user) for org_id, user, _ in by_id))
        found |= {(org_id, user, None) for (org_id, user), member in people.items() if member.active}
    return frozenset(found & set(wanted))


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
