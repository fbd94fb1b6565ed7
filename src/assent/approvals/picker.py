"""Whom of those who come into consideration to ask: all of them, one in turn, or the first who is there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self
from uuid import UUID

from assent.approvals.candidates import Candidates
from assent.approvals.rotation import Availability, RoleRotation
from assent.model.approval import FoundGroup, FoundPeople, GroupQuery, PeopleSearch, Person
from assent.model.mutation import Rejection
from assent.store.connect import Connection


@dataclass(frozen=True, slots=True)
class PeopleQuery:
    """The people that one approval wants to ask."""

    org_id: str
    workflow: str
    """The key of the workflow that asks."""
    subject_id: str
    """Who started it, whose manager may be wanted."""
    groups: tuple[GroupQuery, ...]
    entity_type: str | None = None
    entity_id: UUID | None = None
    originators: frozenset[str] = frozenset()
    """Who had a part in it besides the subject and those who edited, or sits in its round: passed over when one of a
    role is picked, as long as there is another."""
    separates: bool = True
    """Whether they are; for a form everybody is as good as another."""


@dataclass(frozen=True, slots=True)
class Sought:
    """A group to be filled, and with whom."""

    group: FoundGroup
    seek: PeopleSearch
    pools: tuple[Candidates, ...] = ()

    @property
    def people_max(self) -> int:
        """How many will be asked at most."""
        picks_all = self.seek.pick == "all"
        return sum(len(pool.people) if picks_all else bool(pool.people) for pool in self.pools)


@dataclass(frozen=True, slots=True)
class Question:
    asked: PeopleQuery
    sought: tuple[Sought, ...]
    chain_id: UUID | None = None
    contributors: frozenset[str] = frozenset()

    @property
    def originators(self) -> frozenset[str]:
        if not self.asked.separates:
            return frozenset()
        return self.asked.originators | self.contributors | {self.asked.subject_id}


@dataclass(frozen=True, slots=True)
class Picker:
    """Chooses of each pool whom to ask, and knows what that takes."""

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

    def _fill(self, question: Question, sought: Sought) -> FoundGroup:
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


def _pools_of(questions: Iterable[Question | Rejection]) -> Iterable[tuple[str, Sought, Candidates]]:
    for question in questions:
        if isinstance(question, Question):
            for sought in question.sought:
                for pool in sought.pools:
                    yield question.asked.org_id, sought, pool
