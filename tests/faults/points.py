"""All commit points of an operation, and what is done to each.

The first run of an operation counts its statements through a proxy. Then there is one run for each commit and each kind
of fault, on a database of its own: the link is cut before the commit, or after it; a commit that changes something is
frozen after it as well. What follows such a commit is cut statement by statement: an error there must not become a
failure.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.store.settings import Settings
from tests.faults.proxy import COMMIT, Action, Fault, Moment, Proxy
from tests.faults.tables import TableChange, Tables
from tests.postgres import SETTINGS, START, Databases

R = TypeVar("R")

SHORT: Final = SETTINGS.replace(
    pool_connections_max=5,
    pool_wait_timeout_ms=10_000,
    statement_timeout_ms=2_000,
    statement_slack_ms=200,
    cancel_timeout_ms=200,
    lock_timeout_ms=1_900,
)
"""Deadlines short enough to wait for."""
TRIES: Final = 3
ANSWER_MAX_S: Final = 20.0
"""By when every caller has an answer, whatever happened to the connections."""


class NeverCame(Exception):
    """The statement of a fault was not sent."""


@dataclass(frozen=True)
class Point:
    """One statement of an operation, and what happens to the link on which it comes."""

    statement: str
    nth: int
    moment: Moment
    action: Action

    def __str__(self) -> str:
        return f"{self.action} {self.moment} {self.statement[:40]} {self.nth}"

    def fault(self) -> Fault:
        return Fault(self.statement, self.nth, self.moment, self.action)


def commits_in(order: Sequence[str]) -> list[Point]:
    """A cut after each commit of an operation whose statements came in this order."""
    return [Point(COMMIT, nth, "after", "cut") for nth in range(1, order.count(COMMIT) + 1)]


OF_THE_POOL = frozenset({"read_clock"})
"""Statements that the pool sends by itself, now and then: an operation may meet one, and not meet it again."""


def statements_after(commit: Point, order: Sequence[str]) -> list[Point]:
    """A cut before each statement that follows a commit; other commits have points of their own."""
    place = [index for index, statement in enumerate(order) if statement == COMMIT][commit.nth - 1]
    other = OF_THE_POOL | {COMMIT}
    after = [index for index in range(place + 1, len(order)) if order[index] not in other]
    return [Point(order[index], order[: index + 1].count(order[index]), "before", "cut") for index in after]


@dataclass
class Trial(Generic[R]):
    """One run of an operation: the database that it has, and what became of it."""

    point: Point | None
    url: str
    proxy: Proxy
    database: Database
    before: Tables
    result: R | None = None
    change: TableChange | None = None

    async def look(self) -> TableChange:
        """What the tables say by now."""
        return (await Tables.read(self.url)).since(self.before)


@dataclass(frozen=True)
class Laboratory:
    """Makes a database for each run: copies of one template. Several runs may be under way at once."""

    databases: Databases
    template: str
    settings: Settings = SHORT
    now: datetime = START + timedelta(hours=1)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    _before: list[Tables] = field(default_factory=list)
    """What the template holds, once it was looked at."""

    @asynccontextmanager
    async def trial(self, point: Point | None = None) -> AsyncIterator[Trial[R]]:
        """A database behind a proxy, with an open pool."""
        async with (
            self.copy() as url,
            Proxy.before(url) as proxy,
            opened(proxy.url, self.settings, self.now) as database,
        ):
            if not self._before:
                self._before.append(await Tables.read(url))
            trial: Trial[R] = Trial(point, url, proxy, database, self._before[0])
            proxy.clear()
            try:
                yield trial
            finally:
                proxy.disarm()
                proxy.cut()

    @asynccontextmanager
    async def copy(self) -> AsyncIterator[str]:
        """The URL of a copy of the template, dropped at the end."""
        made = self.databases.fresh(self.template)
        async with self._one_at_a_time:
            url = await made.__aenter__()
        try:
            yield url
        finally:
            async with self._one_at_a_time:
                await made.__aexit__(None, None, None)

    async def run(self, operation: Callable[[Trial[R]], Awaitable[R]], trial: Trial[R]) -> Trial[R]:
        """Carry the operation out, with the fault if there is one; it must have an answer in time."""
        fault = trial.proxy.arm(trial.point.fault()) if trial.point is not None else None
        began_s = time.monotonic()
        async with asyncio.timeout(ANSWER_MAX_S):
            trial.result = await operation(trial)
        took_s = time.monotonic() - began_s
        if took_s >= ANSWER_MAX_S:
            raise TimeoutError(f"expected an answer within {ANSWER_MAX_S} s, it took {took_s:.0f} s")
        if fault is not None and not fault.struck:
            raise NeverCame(str(trial.point))
        trial.proxy.disarm()
        trial.change = await trial.look()
        return trial


@asynccontextmanager
async def opened(url: str, settings: Settings, now: datetime) -> AsyncIterator[Database]:
    """A database, closed at the end."""
    database = await Database.open(url, settings=settings, clock=MovedClock(now))
    try:
        yield database
    finally:
        await database.close()


Disturb = Callable[[Point], Awaitable[tuple[TableChange, str | None]]]
"""Carry an operation out with a fault; what changed, and what is wrong with it."""


async def complaints_of(
    disturb: Disturb, order: Sequence[str], first: int = 1, *, freezes: bool = True
) -> list[str]:
    """What is wrong after a fault at any of the points of an operation whose statements came in this order."""
    after = commits_in(order)[first - 1 :]
    assert after, "expected an operation that commits"
    before = [replace(point, moment="before") for point in after]
    found = await asyncio.gather(*(_explained(disturb, point) for point in (*after, *before)))
    changes = [change for change, _ in found]
    changing = [
        point
        for point, if_done, if_not in zip(after, changes, changes[len(after) :], strict=False)
        if if_not.is_nothing and not if_done.is_nothing
    ]
    more = [replace(point, action="freeze") for point in changing] if freezes else []
    more += statements_after(changing[0], order) if changing else []
    found += await asyncio.gather(*(_explained(disturb, point) for point in more))
    points = [*after, *before, *more]
    return [f"{point}: {wrong}" for point, (_, wrong) in zip(points, found, strict=True) if wrong]


async def _explained(disturb: Disturb, point: Point) -> tuple[TableChange, str | None]:
    """Try again where the fault never came: on a busy machine a deadline may be over before it."""
    for _ in range(TRIES):
        with suppress(NeverCame):
            try:
                return await disturb(point)
            except TimeoutError as error:
                return TableChange({}, {}, frozenset({"unknown"})), str(error) or "no answer in time"
    return TableChange({}, {}, frozenset({"unknown"})), f"never came in {TRIES} tries"
