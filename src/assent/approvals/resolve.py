"""Who is asked: people for all that a wave of approvals seeks, in a fixed number of statements."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from assent.approvals.chains import Chain, load_chains
from assent.approvals.directory import Directory
from assent.approvals.seek import Listing, Pool, look_up
from assent.approvals.turns import Availability, Turns
from assent.model.approval import Found, FoundGroup, Person, Seek, WantedGroup
from assent.model.mutation import Rejection
from assent.store.connect import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.approvals", "seek.sql")

APPROVERS_MAX: Final = 200
"""The people that one request asks."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The people that one approval wants to ask."""

    org_id: str
    workflow: str
    """The key of the workflow that asks."""
    subject_id: str
    """Who started it, whose manager may be wanted."""
    groups: tuple[WantedGroup, ...]
    entity_type: str | None = None
    entity_id: UUID | None = None
    originators: frozenset[str] = frozenset()
    """Who had a part in it besides the subject and those who edited: passed over when one of a role is picked, as
    long as there is another."""


@dataclass(frozen=True, slots=True)
class _Sought:
    """A group to be filled, and with whom."""

    group: FoundGroup
    seek: Seek
    pools: tuple[Pool, ...] = ()

    @property
    def people_max(self) -> int:
        """How many will be asked at most."""
        picks_all = self.seek.pick == "all"
        return sum(len(pool.people) if picks_all else bool(pool.people) for pool in self.pools)


@dataclass(frozen=True, slots=True)
class _Question:
    asked: Asked
    sought: tuple[_Sought, ...]
    chain_id: UUID | None = None
    contributors: frozenset[str] = frozenset()

    @property
    def originators(self) -> frozenset[str]:
        return self.asked.originators | self.contributors | {self.asked.subject_id}


async def find_people(
    connection: Connection, directory: Directory, asked: Sequence[Asked], now: datetime
) -> list[Found | Rejection]:
    """An answer to each, in their order. A group that nobody was found for is empty: what that means, others say."""
    chains = await load_chains(connection, _chains_of(asked))
    questions = [_question(one, chains) for one in asked]
    listing = await look_up(connection, directory, _seeks_of(questions))
    contributors = await _find_contributors(connection, asked)
    questions = [_with_pools(question, listing, contributors) for question in questions]
    picker = await _Picker.ready(connection, questions, now)
    answers = [
        question if isinstance(question, Rejection) else picker.answer(question) for question in questions
    ]
    await picker.turns.keep(connection)
    return answers


def _chains_of(asked: Iterable[Asked]) -> set[tuple[str, str]]:
    return {
        (one.org_id, name)
        for one in asked
        for group in one.groups
        if group.seek.strategy == "chain"
        for name in group.seek.names
    }


def _question(asked: Asked, chains: Mapping[tuple[str, str], Chain]) -> _Question | Rejection:
    sought: list[_Sought] = []
    chain_id = None
    for group in asked.groups:
        if group.seek.strategy != "chain":
            sought.append(_Sought(FoundGroup(group.name, (), group.mode, group.quorum), group.seek))
            continue
        name = group.seek.names[0]
        chain = chains.get((asked.org_id, name))
        if refusal := _unusable(chain, name, asked.entity_type):
            return refusal
        assert chain is not None
        chain_id = chain.id
        sought += _links(chain, asked.subject_id)
    return _Question(asked, tuple(sought), chain_id)


def _unusable(chain: Chain | None, name: str, entity_type: str | None) -> Rejection | None:
    if chain is None:
        message = f"there is no active approval chain `{name}`"
    elif chain.entity_type not in (None, entity_type):
        message = f"approval chain `{name}` is for {chain.entity_type}, not for {entity_type or 'flows'}"
    else:
        return None
    return Rejection("CHAIN_NOT_FOUND", message, hint="keep one under this name, or name another in the node")


def _links(chain: Chain, subject_id: str) -> Iterable[_Sought]:
    for position, step in enumerate(chain.steps, start=1):
        group = FoundGroup(step.name, (), step.mode, step.quorum, position, step.due_seconds)
        yield _Sought(group, step.seek(subject_id))


def _seeks_of(questions: Iterable[_Question | Rejection]) -> list[tuple[str, Seek]]:
    return [
        (question.asked.org_id, sought.seek)
        for question in questions
        if isinstance(question, _Question)
        for sought in question.sought
    ]


async def _find_contributors(
    connection: Connection, asked: Iterable[Asked]
) -> dict[tuple[str, UUID], frozenset[str]]:
    entities = {(one.org_id, one.entity_id) for one in asked if one.entity_id is not None}
    if not entities:
        return {}
    orgs, ids = map(list, zip(*sorted(entities), strict=True))
    rows = await connection.fetch(_SQL.find_contributors, orgs, ids)
    return {(row["org_id"], row["entity_id"]): frozenset(row["people"]) for row in rows}


def _with_pools(
    question: _Question | Rejection,
    listing: Listing,
    contributors: Mapping[tuple[str, UUID], frozenset[str]],
) -> _Question | Rejection:
    """The question with everybody who comes into consideration, or too many of them."""
    if isinstance(question, Rejection):
        return question
    asked = question.asked
    filled = [replace(s, pools=tuple(listing.pools(asked.org_id, s.seek))) for s in question.sought]
    if (count := sum(sought.people_max for sought in filled)) > APPROVERS_MAX:
        message = f"{count} people would be asked; {APPROVERS_MAX} are the most"
        return Rejection("TOO_MANY_APPROVERS", message, hint="ask a smaller role, or pick one of it")
    wrote = contributors.get((asked.org_id, asked.entity_id), frozenset()) if asked.entity_id else frozenset()
    return replace(question, sought=tuple(filled), contributors=wrote)


@dataclass(frozen=True, slots=True)
class _Picker:
    """Chooses of each pool whom to ask, and knows what that takes."""

    turns: Turns
    availability: Availability

    @classmethod
    async def ready(
        cls, connection: Connection, questions: Iterable[_Question | Rejection], now: datetime
    ) -> "_Picker":
        roles: set[tuple[str, str]] = set()
        people: set[tuple[str, str]] = set()
        for org_id, sought, pool in _pools_of(questions):
            if sought.seek.pick == "round_robin" and pool.role is not None:
                roles.add((org_id, pool.role))
            elif sought.seek.pick == "first_available":
                people |= {(org_id, person.user_id) for person in pool.people}
        turns = await Turns.lock(connection, roles, now)
        return cls(turns, await Availability.read(connection, people, now))

    def answer(self, question: _Question) -> Found:
        groups = tuple(self._fill(question, sought) for sought in question.sought)
        return Found(groups, question.contributors, question.chain_id)

    def _fill(self, question: _Question, sought: _Sought) -> FoundGroup:
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

    def _pick(self, question: _Question, seek: Seek, pool: Pool) -> tuple[Sequence[Person], Sequence[Person]]:
        if seek.pick == "all" or not pool.people:
            return pool.people, ()
        org_id = question.asked.org_id
        others = [person for person in pool.people if person.user_id not in question.originators]
        if seek.pick == "round_robin" and pool.role is not None:
            return [self.turns.take(org_id, pool.role, others or pool.people)], ()
        first, passed = self.availability.first(org_id, others or pool.people)
        return [first], passed


def _pools_of(questions: Iterable[_Question | Rejection]) -> Iterable[tuple[str, _Sought, Pool]]:
    for question in questions:
        if isinstance(question, _Question):
            for sought in question.sought:
                for pool in sought.pools:
                    yield question.asked.org_id, sought, pool
