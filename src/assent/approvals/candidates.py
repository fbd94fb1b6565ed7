"""Candidates: the people that searches find, one query of each kind for all searches; and the turns of a role."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from assent.model.approval import PeopleSearch, Person
from assent.people.delegations import find_away
from assent.people.directory import Directory, Member, OrgRole, OrgUser
from assent.store.connect import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.approvals", "approvals.sql")

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)

Skipped = Mapping[str, str]
OrgCapability = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Candidates:
    """People: all are asked, or one is picked."""

    people: tuple[Person, ...]
    skipped: tuple[Skipped, ...] = ()
    role: str | None = None
    """The role that they have in common, by which turns are kept."""


@dataclass(slots=True)
class Listing:
    """What a directory returned for a set of searches."""

    with_roles: Mapping[OrgRole, Sequence[Member]] = field(default_factory=dict)
    by_id: Mapping[OrgUser, Member] = field(default_factory=dict)
    managers: Mapping[OrgUser, Sequence[Member]] = field(default_factory=dict)
    permitted: Mapping[OrgCapability, Sequence[str]] = field(default_factory=dict)
    """Capability → the roles that carry it."""

    def pools(self, org_id: str, seek: PeopleSearch) -> list[Candidates]:
        match seek.strategy:
            case "users":
                return [self._users(org_id, seek.names)]
            case "manager":
                return [self._manager(org_id, name, seek.levels) for name in seek.names]
            case "permission":
                return [self._role(org_id, role) for role in self._roles_that_may(org_id, seek.names)]
        return [self._role(org_id, role) for role in seek.names]

    def _users(self, org_id: str, names: Iterable[str]) -> Candidates:
        known = [self.by_id.get((org_id, name)) for name in names]
        unknown = [name for name, member in zip(names, known, strict=True) if member is None]
        pool = _pool([member for member in known if member is not None], "user")
        return Candidates(
            pool.people, (*pool.skipped, *({"user_id": name, "why": "unknown"} for name in unknown))
        )

    def _role(self, org_id: str, role: str) -> Candidates:
        pool = _pool(self.with_roles.get((org_id, role), ()), f"role:{role}")
        return Candidates(pool.people, pool.skipped, role)

    def _manager(self, org_id: str, of: str, levels: int) -> Candidates:
        """Return the manager so many levels up, or else the next one above who can be asked."""
        line = self.managers.get((org_id, of), ())[levels - 1 :]
        reached = next((place for place, member in enumerate(line, start=1) if member.active), len(line))
        return _pool(line[:reached], f"manager:{of}")

    def _roles_that_may(self, org_id: str, names: Sequence[str]) -> list[str]:
        capability, *roles = names
        return list(dict.fromkeys((*roles, *self.permitted.get((org_id, capability), ()))))


def _pool(members: Iterable[Member], via: str) -> Candidates:
    members = list(members)
    return Candidates(
        tuple(Person(member.user_id, via, member.email) for member in members if member.active),
        tuple({"user_id": member.user_id, "why": "inactive"} for member in members if not member.active),
    )


async def look_up(
    connection: Connection, directory: Directory, sought: Sequence[tuple[str, PeopleSearch]]
) -> Listing:
    """Return what these searches of orgs need, in one query of each kind."""
    found = Listing()
    if permissions := _names_of(sought, "permission", slice(0, 1)):
        found.permitted = await _find_permitted(connection, permissions)
    roles = _names_of(sought, "roles") | _names_of(sought, "permission", slice(1, None))
    roles |= {(org_id, role) for (org_id, _), carriers in found.permitted.items() for role in carriers}
    if roles:
        found.with_roles = await directory.with_roles(connection, sorted(roles))
    if users := _names_of(sought, "users"):
        found.by_id = await directory.by_id(connection, sorted(users))
    if managed := _names_of(sought, "manager"):
        found.managers = await directory.managers(connection, sorted(managed))
    return found


def _names_of(
    sought: Sequence[tuple[str, PeopleSearch]], strategy: str, part: slice = slice(None)
) -> set[tuple[str, str]]:
    return {(org, name) for org, seek in sought if seek.strategy == strategy for name in seek.names[part]}


async def _find_permitted(
    connection: Connection, capabilities: Iterable[OrgCapability]
) -> dict[OrgCapability, list[str]]:
    asked = [(org_id, name, form) for org_id, name in sorted(capabilities) for form in _forms(name)]
    rows = await connection.fetch(_SQL.find_roles_that_may, *map(list, zip(*asked, strict=True)))
    found: dict[OrgCapability, list[str]] = defaultdict(list)
    for row in rows:
        found[row["org_id"], row["capability"]].append(row["role"])
    return dict(found)


def _forms(capability: str) -> list[str]:
    """Return the grants by which a person has a capability, as `Actor.can` reads them."""
    parts = capability.split(":")
    return [capability, "*", *(":".join((*parts[:end], "*")) for end in range(1, len(parts)))]


class RoleRotation:
    """The last turn of each person of some roles, which are locked until the transaction ends."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._last: dict[OrgRole, dict[str, datetime]] = defaultdict(dict)
        self._taken: dict[tuple[str, str, str], datetime] = {}

    @classmethod
    async def lock(cls, connection: Connection, roles: Collection[OrgRole], now: datetime) -> Self:
        turns = cls(now)
        if roles:
            columns = tuple(map(list, zip(*sorted(roles), strict=True)))
            await connection.execute(_SQL.lock_turns, *columns)
            for row in await connection.fetch(_SQL.read_turns, *columns):
                turns._last[row["org_id"], row["role"]][row["user_id"]] = row["last_at"]
        return turns

    def take(self, org_id: str, role: str, people: Sequence[Person]) -> Person:
        """Return the person whose last turn is the oldest; of equals, the first."""
        last = self._last[org_id, role]
        chosen = min(people, key=lambda person: last.get(person.user_id, _NEVER))
        # Later than every turn before, so that turns of one moment keep their order.
        at = max(self._now, max(last.values(), default=_NEVER) + _TICK)
        last[chosen.user_id] = self._taken[org_id, role, chosen.user_id] = at
        return chosen

    async def keep(self, connection: Connection) -> None:
        if self._taken:
            orgs, roles, users = map(list, zip(*self._taken, strict=True))
            await connection.execute(_SQL.keep_turns, orgs, roles, users, list(self._taken.values()))


class Availability:
    """The people who have not delegated everything."""

    def __init__(self, away: Collection[OrgUser]) -> None:
        self._away = away

    @classmethod
    async def read(cls, connection: Connection, people: Collection[OrgUser], now: datetime) -> Self:
        return cls(await find_away(connection, people, now) if people else frozenset())

    def first(self, org_id: str, people: Sequence[Person]) -> tuple[Person, list[Person]]:
        """Return the first person who is there, and those before. If all are away it is the first: others stand in."""
        passed: list[Person] = []
        for person in people:
            if (org_id, person.user_id) not in self._away:
                return person, passed
            passed.append(person)
        return people[0], []
