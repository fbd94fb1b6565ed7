"""Tasks that a limit holds back, as one worker claims them: by the resources that they use, and by their rate.

A claim locks the limits that it counts, counts in a later statement, and claims no more than there is room for; the
locks last until it has committed. So no two claims count the same room, whatever else happens: whatever ends only
makes room. A limit that another claim holds is passed over, and no task without a limit is read, counted or locked.
"""

import time
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from assent.jobs.job import JobKey, job_columns
from assent.jobs.queue import LANES_MAX, JobQueue, JobRow
from assent.model.job import Throttle
from assent.store.connection import put
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.jobs", "throttles.sql")

LOOK_EVERY_S: Final = 1.0
"""How often a worker looks for throttled tasks that it has not heard of."""
BUSY_RETRY_S: Final = 0.02
"""How long a limit is left alone for which another claim was being made."""
NO_PLACE: Final = (UUID(int=0), "", "", -1)

Resources = Mapping[str, int | None]
"""How many tasks may run with each resource, by its name; None for any number."""

Rate = tuple[str, str, int, timedelta]
"""An org, a key, and how many may start in a period."""


@dataclass(frozen=True, slots=True)
class ThrottledPlace:
    """Where tasks wait that the same limits hold back."""

    throttle: UUID
    org_id: str
    lane: str
    priority: int
    resources: tuple[str, ...]
    rate: Rate | None
    due: int
    """How many are due, up to a number."""


@dataclass
class Room:
    """How many more tasks may run under the limits whose locks are held; None for any number."""

    resources: dict[str, int | None]
    rates: dict[Rate, int]

    def allows(self, place: ThrottledPlace) -> bool:
        """Return whether one more task of a place may begin."""
        rooms = [self.resources.get(name, 0) for name in place.resources]
        if place.rate is not None:
            rooms.append(self.rates.get(place.rate, 0))
        return all(room is None or room > 0 for room in rooms)

    def take(self, place: ThrottledPlace) -> None:
        """Count one more task of a place."""
        for name in place.resources:
            room = self.resources[name]
            self.resources[name] = None if room is None else room - 1
        if place.rate is not None:
            # Rates of one key, with different numbers, count the same starts.
            for rate in self.rates:
                self.rates[rate] -= rate[:2] == place.rate[:2]


@dataclass
class ThrottledQueue:
    """The throttled tasks that one worker can run, and how far it has come around them."""

    queue: JobQueue
    reachable: Collection[str] = frozenset()
    """The resources that the worker can reach; tasks that use others are left to other workers."""
    again_in_s: float | None = None
    """After a claim: how long it is until a further one may find something, as far as it is known."""
    _after: tuple[UUID, str, str, int] = NO_PLACE
    _looked_s: float = 0.0
    has_suspects: bool = False
    """Whether the last claim has seen that a suspect is due."""
    _are_some: bool = True
    _served_s: dict[str, float] = field(default_factory=dict)
    """When each org was served last: where one task may run at a time, orgs take turns."""

    def hear(self) -> None:
        """Note that there may be throttled tasks."""
        self._are_some = True

    async def claim(
        self,
        connection: Connection,
        limit: int,
        *,
        suspects: bool = False,
        one_each: bool = False,
        without: Collection[str] = frozenset(),
    ) -> list[JobRow]:
        """Claim tasks that are due and whose limits have room, of all orgs but these in turns; or one of each."""
        self.again_in_s = None
        now_s = time.monotonic()
        if limit <= 0 or not (self._are_some or now_s - self._looked_s >= LOOK_EVERY_S):
            return []
        places = await self._find(connection, limit, suspects=suspects)
        self._looked_s = now_s
        places = [place for place in places if place.org_id not in without]
        if not places or not (room := await self._lock_and_count(connection, places)):
            return []
        chosen = self._choose(places, room, limit, one_each=one_each)
        if not chosen:
            return []
        columns = zip(
            *((p.throttle, p.org_id, p.lane, p.priority, number) for p, number in chosen.items()), strict=True
        )
        queue = self.queue
        rows = await connection.fetch(
            _SQL.claim_throttled, *map(list, columns), queue.worker_id, suspects, queue.lease_min
        )
        if rows and not rows[0]["is_covered"] and queue.renew_lease is not None:
            await queue.renew_lease(connection)
        return rows

    async def _find(self, connection: Connection, limit: int, *, suspects: bool) -> list[ThrottledPlace]:
        """Return the next places with tasks that are due and that this worker can run."""
        rows = await connection.fetch(_SQL.find_throttled, *self._after, LANES_MAX, limit, suspects)
        last, began_at = rows[-1] if len(rows) == LANES_MAX else None, self._after
        self._after = (
            NO_PLACE if last is None else (last["throttle"], last["org_id"], last["lane"], last["priority"])
        )
        self._are_some = bool(rows) or began_at != NO_PLACE
        self.has_suspects = bool(rows) and rows[0]["has_suspects"]
        lanes = self.queue.lanes
        return [
            _place(row)
            for row in sorted(rows, key=lambda row: (-row["priority"], row["run_at"]))
            if row["due"]
            and (lanes is None or row["lane"] in lanes)
            and all(name in self.reachable for name in row["resources"])
        ]

    async def _lock_and_count(self, connection: Connection, places: Sequence[ThrottledPlace]) -> Room | None:
        """Lock the limits that have room, as far as no other claim holds them, and count what room they have."""
        names = sorted({name for place in places for name in place.resources})
        rates = {place.rate for place in places if place.rate is not None}
        keys = sorted({rate[:2] for rate in rates})
        orgs_of_keys, rate_keys = [key[0] for key in keys], [key[1] for key in keys]
        (held,) = await connection.fetch(_SQL.lock_limits, names, orgs_of_keys, rate_keys)
        held_keys = {tuple(key) for key in held["rates"]}
        if len(held["resources"]) < held["resources_with_room"] or len(held_keys) < len(keys):
            self.again_in_s = BUSY_RETRY_S
        counted = [rate for rate in rates if rate[:2] in held_keys]
        found = await connection.fetch(_SQL.count_resources, held["resources"]) if held["resources"] else []
        room = Room({row["name"]: row["room"] for row in found}, {})
        if counted:
            for row in await connection.fetch(_SQL.count_rates, *map(list, zip(*counted, strict=True))):
                room.rates[counted[row["n"] - 1]] = row["room"]
                if row["room"] <= 0:
                    self.again_in_s = min(self.again_in_s or 3_600.0, max(0.001, row["again_in_s"]))
        return room if room.resources or room.rates else None

    def _choose(
        self, places: Sequence[ThrottledPlace], room: Room, limit: int, *, one_each: bool
    ) -> dict[ThrottledPlace, int]:
        """Return how many tasks of each place are to begin: of every org one before any org's second."""
        chosen: Counter[ThrottledPlace] = Counter()
        by_org: dict[str, list[ThrottledPlace]] = {}
        for place in places:
            by_org.setdefault(place.org_id, []).append(place)
        turns = deque(sorted(by_org, key=lambda org: self._served_s.get(org, 0.0)))
        while turns and chosen.total() < limit:
            org = turns.popleft()
            found = next((p for p in by_org[org] if chosen[p] < p.due and room.allows(p)), None)
            if found is None:
                continue
            room.take(found)
            chosen[found] += 1
            self._served_s[org] = time.monotonic()
            if not one_each:
                turns.append(org)
        self._served_s = {org: at_s for org, at_s in self._served_s.items() if org in by_org}
        return dict(chosen)


def _place(row: Any) -> ThrottledPlace:
    rate = None
    if row["rate_key"] is not None:
        rate = (row["org_id"], row["rate_key"], row["rate_max"], row["rate_period"])
    names = tuple(row["resources"])
    return ThrottledPlace(
        row["throttle"], row["org_id"], row["lane"], row["priority"], names, rate, row["due"]
    )


async def declare_resources(connection: Connection, resources: Resources) -> None:
    """Say what resources the code of this worker declares."""
    await connection.execute(_SQL.declare_resources, list(resources), list(resources.values()))


async def keep_throttles(connection: Connection, throttles: Collection[tuple[str, Throttle]]) -> None:
    """Write the limits of tasks that are submitted, each for its org."""
    rows = [
        {
            "org_id": org_id,
            "id": throttle.id,
            "resources": list(throttle.resources),
            "rate_key": throttle.rate_key,
            "rate_max": throttle.rate_max,
            "rate_period_s": throttle.rate_period.total_seconds() if throttle.rate_period else None,
        }
        for org_id, throttle in set(throttles)
    ]
    if rows:
        await put(connection, _SQL.keep_throttles, rows)


async def throttle_if_claimed(
    connection: Connection, worker_id: UUID, jobs: Sequence[tuple[JobKey, Throttle]]
) -> None:
    """Return tasks to the queue that were claimed in this transaction, under limits from now on."""
    await keep_throttles(connection, [(key[0], throttle) for key, throttle in jobs])
    columns = job_columns(key for key, _ in jobs)
    await connection.execute(
        _SQL.throttle_if_claimed, worker_id, *columns, [throttle.id for _, throttle in jobs]
    )


@dataclass(frozen=True, slots=True)
class ResourceView:
    """A resource, and how much of it is used."""

    name: str
    max_concurrency: int | None
    """How many tasks may run with it, of all orgs; None for any number."""
    running: int
    """How many do, of all orgs."""
    waiting: int
    """How many tasks of the org are due and wait, for it or for another limit."""
    declared_at: datetime


async def list_resources(
    connection: Connection, org_id: str, partition_id: str | None = None, name: str | None = None
) -> list[ResourceView]:
    """Return the resources that workers have declared, or one by its name."""
    rows = await connection.fetch(_SQL.list_resources, org_id, name, partition_id)
    return [ResourceView(*row) for row in rows]
