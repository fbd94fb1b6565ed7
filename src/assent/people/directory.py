"""Who there is to ask: the protocol by which an application brings its own people, and the one that reads `members`.

A directory says what it knows, also of people who have left; who of them is asked is not for it to decide.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import asyncpg

from assent.model.actor import Actor, Principal
from assent.store.connection import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.people", "people.sql")

MANAGERS_MAX: Final = 50
"""How far up a line of managers is read."""

OrgRole = tuple[str, str]
"""An org and a role."""
OrgUser = tuple[str, str]
"""An org and a person's id."""
OrgPrincipal = tuple[str, Principal]
"""An org, and a person of it on whose behalf a token moves."""


@dataclass(frozen=True, slots=True)
class Member:
    """A person in a directory."""

    user_id: str
    active: bool = True
    """Whether they can be asked; those who cannot are recorded as skipped."""
    email: str | None = None
    kind: Literal["user", "service_account"] = "user"
    """A service account may be named by an author; it stands in for no person."""


class Directory(Protocol):
    """People of orgs, found in sets: each method is called once for all that a batch of approvals asks.

    It runs inside the transaction that asks, so an answer should be at hand. What is not known is left out.
    """

    async def with_roles(
        self, connection: Connection, wanted: Sequence[OrgRole]
    ) -> Mapping[OrgRole, Sequence[Member]]:
        """Return the people who have each role, active or not, in an order that stays: the first available is by it."""
        ...

    async def by_id(self, connection: Connection, wanted: Sequence[OrgUser]) -> Mapping[OrgUser, Member]:
        """Return people by their ids."""
        ...

    async def actors(self, connection: Connection, wanted: Sequence[OrgPrincipal]) -> Mapping[OrgUser, Actor]:
        """Return the rights that people and service accounts have now; who is inactive or left out has none."""
        ...

    async def managers(
        self, connection: Connection, wanted: Sequence[OrgUser]
    ) -> Mapping[OrgUser, Sequence[Member]]:
        """Return the line of managers above each, the nearest first, active or not. No person is above themselves."""
        ...


class MembersDirectory:
    """The people of `assent.members`. A role is asked of users only: a service account answers no mail."""

    async def with_roles(
        self, connection: Connection, wanted: Sequence[OrgRole]
    ) -> Mapping[OrgRole, Sequence[Member]]:
        return _by_key(await connection.fetch(_SQL.find_people_with_roles, *_columns(wanted)))

    async def by_id(self, connection: Connection, wanted: Sequence[OrgUser]) -> Mapping[OrgUser, Member]:
        rows = await connection.fetch(_SQL.find_people_by_id, *_columns(wanted))
        return {key: members[0] for key, members in _by_key(rows).items()}

    async def actors(self, connection: Connection, wanted: Sequence[OrgPrincipal]) -> Mapping[OrgUser, Actor]:
        rows = await connection.fetch(_SQL.read_actors, [_principal_row(*one) for one in wanted])
        return {(row["org_id"], row["id"]): _actor_from(row) for row in rows}

    async def managers(
        self, connection: Connection, wanted: Sequence[OrgUser]
    ) -> Mapping[OrgUser, Sequence[Member]]:
        return _by_key(await connection.fetch(_SQL.find_managers, *_columns(wanted), MANAGERS_MAX))


def _principal_row(org_id: str, principal: Principal) -> dict[str, Any]:
    return {"org_id": org_id, "id": principal.id, "kind": principal.kind, "roles": principal.roles}


def _actor_from(row: asyncpg.Record) -> Actor:
    return Actor(row["id"], row["kind"], frozenset(row["roles"]), frozenset(row["capabilities"]))


def _columns(wanted: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [org_id for org_id, _ in wanted], [name for _, name in wanted]


def _by_key(rows: Sequence[asyncpg.Record]) -> dict[tuple[str, str], list[Member]]:
    found: dict[tuple[str, str], list[Member]] = defaultdict(list)
    for row in rows:
        member = Member(row["user_id"], row["active"], row["email"], row["kind"])
        found[row["org_id"], row["wanted"]].append(member)
    return dict(found)
