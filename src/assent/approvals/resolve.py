"""Finding the people that approvals and forms ask, for many of them in a fixed number of statements.

Candidates are the people that searches find, one query of each kind for all searches; then a picker takes all of them,
one in turn, or the first who is there.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Self
from uuid import UUID

from assent.approvals.chains import Chain, load_chains
from assent.model.approval import FoundGroup, FoundPeople, GroupQuery, PeopleSearch, Person
from assent.model.mutation import Rejection
from assent.people.delegations import find_away
from assent.people.directory import Directory, Member, MembersDirectory, OrgRole, OrgUser
from assent.store.connection import Connection, put
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
            await put(connection, _SQL.lock_turns, *columns)
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
            await put(connection, _SQL.keep_turns, orgs, roles, users, list(self._taken.values()))


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


APPROVERS_MAX: Final = 200
"""How many people one request asks at most."""


@dataclass(frozen=True, slots=True)
class PeopleQuery:
    """A search for the people that one approval or form asks."""

    org_id: str
    workflow: str
    """The key of the workflow that asks."""
    subject_id: str
    """The person who started it, whose manager may be asked."""
    groups: tuple[GroupQuery, ...]
    entity_type: str | None = None
    entity_id: UUID | None = None
    originators: frozenset[str] = frozenset()
    """The people who had a part in it besides the subject and the editors, or have a seat of its round: passed over
    when one person of a role is picked, as long as there is another."""
    separates: bool = True
    """Whether originators are passed over; a form may be filled in by any person."""


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """A group to be filled, and its candidates."""

    group: FoundGroup
    seek: PeopleSearch
    pools: tuple[Candidates, ...] = ()

    @property
    def people_max(self) -> int:
        """How many people will be asked at most."""
        picks_all = self.seek.pick == "all"
        return sum(len(pool.people) if picks_all else bool(pool.people) for pool in self.pools)


@dataclass(frozen=True, slots=True)
class Question:
    """A query with the groups to be filled."""

    asked: PeopleQuery
    sought: tuple[OpenGroup, ...]
    chain_id: UUID | None = None
    contributors: frozenset[str] = frozenset()

    @property
    def originators(self) -> frozenset[str]:
        if not self.asked.separates:
            return frozenset()
        return self.asked.originators | self.contributors | {self.asked.subject_id}


@dataclass(frozen=True, slots=True)
class Picker:
    """Picks people from each pool: all of them, one in turn, or the first who is there."""

    turns: RoleRotation
    availability: Availability

    @classmethod
    async def ready(
        cls, connection: Connection, questions: Iterable[Question | Rejection], now: datetime
    ) -> Self:
        roles: set[tuple[str, str]] = set()
        people: set[tuple[str, str]] = set()
        for org_id, sought, pool in _pools_of(questions):
            if sought.seek.pick == "round_robin" and pool.role is not None:
                roles.add((org_id, pool.role))
            elif sought.seek.pick == "first_available":
                people |= {(org_id, person.user_id) for person in pool.people}
        turns = await RoleRotation.lock(connection, roles, now)
        return cls(turns, await Availability.read(connection, people, now))

    def answer(self, question: Question) -> FoundPeople:
        groups = tuple(self._fill(question, sought) for sought in question.sought)
        return FoundPeople(groups, question.contributors, question.chain_id)

    def _fill(self, question: Question, sought: OpenGroup) -> FoundGroup:
        people: dict[str, Person] = {}
        skipped: dict[str, Mapping[str, str]] = {}
        for pool in sought.pools:
            chosen, passed = self._pick(question, sought.seek, pool)
            # Named twice, asked once.
            for person in chosen:
                people.setdefault(person.user_id, person)
            away = ({"user_id": person.user_id, "why": "away"} for person in passed)
            for one in (*pool.skipped, *away):
                skipped.setdefault(one["user_id"], one)
        return replace(sought.group, people=tuple(people.values()), skipped=tuple(skipped.values()))

    def _pick(
        self, question: Question, seek: PeopleSearch, pool: Candidates
    ) -> tuple[Sequence[Person], Sequence[Person]]:
        if seek.pick == "all" or not pool.people:
            return pool.people, ()
        org_id = question.asked.org_id
        others = [person for person in pool.people if person.user_id not in question.originators]
        if seek.pick == "round_robin" and pool.role is not None:
            return [self.turns.take(org_id, pool.role, others or pool.people)], ()
        first, passed = self.availability.first(org_id, others or pool.people)
        return [first], passed


def _pools_of(questions: Iterable[Question | Rejection]) -> Iterable[tuple[str, OpenGroup, Candidates]]:
    for question in questions:
        if isinstance(question, Question):
            for sought in question.sought:
                for pool in sought.pools:
                    yield question.asked.org_id, sought, pool


async def find_people(
    connection: Connection, directory: Directory, asked: Sequence[PeopleQuery], now: datetime
) -> list[FoundPeople | Rejection]:
    """Return the people for each query, in order. A group is empty if no person was found for it."""
    chains = await load_chains(connection, _chains_of(asked))
    questions = [_question(one, chains) for one in asked]
    listing = await look_up(connection, directory, _seeks_of(questions))
    contributors = await _find_contributors(connection, asked)
    questions = [_with_pools(question, listing, contributors) for question in questions]
    picker = await Picker.ready(connection, questions, now)
    source = "members" if type(directory) is MembersDirectory else None
    answers = [
        question if isinstance(question, Rejection) else replace(picker.answer(question), directory=source)
        for question in questions
    ]
    await picker.turns.keep(connection)
    return answers


def _chains_of(asked: Iterable[PeopleQuery]) -> set[tuple[str, str]]:
    return {
        (one.org_id, name)
        for one in asked
        for group in one.groups
        if group.seek.strategy == "chain"
        for name in group.seek.names
    }


def _question(asked: PeopleQuery, chains: Mapping[tuple[str, str], Chain]) -> Question | Rejection:
    sought: list[OpenGroup] = []
    chain_id = None
    for group in asked.groups:
        if group.seek.strategy != "chain":
            sought.append(OpenGroup(FoundGroup(group.name, (), group.mode, group.quorum), group.seek))
            continue
        name = group.seek.names[0]
        chain = chains.get((asked.org_id, name))
        if refusal := _unusable(chain, name, asked.entity_type):
            return refusal
        assert chain is not None
        chain_id = chain.id
        sought += _links(chain, asked.subject_id)
    return Question(asked, tuple(sought), chain_id)


def _unusable(chain: Chain | None, name: str, entity_type: str | None) -> Rejection | None:
    if chain is None:
        message = f"there is no active approval chain `{name}`"
    elif chain.entity_type not in (None, entity_type):
        message = f"approval chain `{name}` is for {chain.entity_type}, not for {entity_type or 'flows'}"
    else:
        return None
    return Rejection("CHAIN_NOT_FOUND", message, hint="keep one under this name, or name another in the node")


def _links(chain: Chain, subject_id: str) -> Iterable[OpenGroup]:
    for position, step in enumerate(chain.steps, start=1):
        group = FoundGroup(step.name, (), step.mode, step.quorum, position, step.due_seconds)
        yield OpenGroup(group, step.seek(subject_id))


def _seeks_of(questions: Iterable[Question | Rejection]) -> list[tuple[str, PeopleSearch]]:
    return [
        (question.asked.org_id, sought.seek)
        for question in questions
        if isinstance(question, Question)
        for sought in question.sought
    ]


async def _find_contributors(
    connection: Connection, asked: Iterable[PeopleQuery]
) -> dict[tuple[str, UUID], frozenset[str]]:
    entities = {(one.org_id, one.entity_id) for one in asked if one.entity_id is not None and one.separates}
    if not entities:
        return {}
    orgs, ids = map(list, zip(*sorted(entities), strict=True))
    rows = await connection.fetch(_SQL.find_contributors, orgs, ids)
    return {(row["org_id"], row["entity_id"]): frozenset(row["people"]) for row in rows}


def _with_pools(
    question: Question | Rejection,
    listing: Listing,
    contributors: Mapping[tuple[str, UUID], frozenset[str]],
) -> Question | Rejection:
    """Return the question with its candidates, or a rejection if there are too many."""
    if isinstance(question, Rejection):
        return question
    asked = question.asked
    filled = [replace(s, pools=tuple(listing.pools(asked.org_id, s.seek))) for s in question.sought]
    if (count := sum(sought.people_max for sought in filled)) > APPROVERS_MAX:
        message = f"{count} people would be asked; {APPROVERS_MAX} are the most"
        return Rejection("TOO_MANY_APPROVERS", message, hint="ask a smaller role, or pick one of it")
    wrote = contributors.get((asked.org_id, asked.entity_id), frozenset()) if asked.entity_id else frozenset()
    return replace(question, sought=tuple(filled), contributors=wrote)
