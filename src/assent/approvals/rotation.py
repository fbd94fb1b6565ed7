"""Picking one of a role: in turn, or the first who is available."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from assent.model.approval import Person
from assent.people.delegations import find_away
from assent.people.directory import OrgRole, OrgUser
from assent.store.connect import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.approvals", "candidates.sql")

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)


class RoleRotation:
    """Whose turn was how long ago, of roles that are locked until the transaction ends."""

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
        """Whoever had no turn for the longest time; of equals, the first."""
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
    """Who has not handed everything to somebody else."""

    def __init__(self, away: Collection[OrgUser]) -> None:
        self._away = away

    @classmethod
    async def read(cls, connection: Connection, people: Collection[OrgUser], now: datetime) -> Self:
        return cls(await find_away(connection, people, now) if people else frozenset())

    def first(self, org_id: str, people: Sequence[Person]) -> tuple[Person, list[Person]]:
        """The first who is there, and whom that passed over. With nobody there it is the first: others stand in."""
        passed: list[Person] = []
        for person in people:
            if (org_id, person.user_id) not in self._away:
                return person, passed
            passed.append(person)
        return people[0], []
