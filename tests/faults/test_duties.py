"""Every commit of the worker's duties, with its link cut or frozen: the work ends as if nothing had happened.

Two errands pass an operation, a timer, an awaited call, a task, an outside request with its result, an event and a
webhook. Each stage on their way is run once for each of its commits and each kind of fault, by a worker that goes on
afterwards: every claim, every settle, every batch.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest

from assent.effects.settings import SendingSettings
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import Duty, WorkerContext
from assent.worker.loop import finish, run_duty
from assent.worker.supervisor import DUTIES
from tests.faults.chaos.application import NODES, app, furnish
from tests.faults.chaos.check import QUEUES
from tests.faults.points import ANSWER_MAX_S, SHORT, Laboratory, Point, commits_in
from tests.faults.proxy import Proxy
from tests.postgres import SETTINGS, START, Databases
from tests.receiver import Receiver, receiving
from tests.workers import LOCAL
from tests.world import ANN

pytestmark = pytest.mark.long

ORG = "acme"
ERRANDS = 2
AT_ONCE = 6
ROUNDS_MAX = 60
"""A second each, by the clock of the test: by then no job may stand still."""
SENDING = SendingSettings(LOCAL.replace(backoff_min_ms=100, backoff_max_ms=500))

STAGES = (
    *("events", "timers", "events", "effects", "events", "tasks", "events", "effects", "results", "events"),
    *("events", "effects"),
)
"""Which duty runs after which, as the two errands go on together."""
WAITING_FOR_WORK = {
    "recovered",
    "released",
    "rescue",
    "timers",
    "timeouts",
    "validity",
    "results",
    "events",
    "effects",
    "tasks",
}
"""The duties that errands need; the others keep house, and have nothing to claim."""

_STEPS = """
SELECT i.context_json ->> 'number' AS number, s.node_id
  FROM assent.workflow_instances i
  JOIN assent.workflow_step_executions s ON (s.org_id, s.instance_id) = (i.org_id, i.id)
"""


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
async def furnished(databases: Databases, template: str, receiver: Receiver) -> AsyncIterator[str]:
    async with databases.fresh(template) as url:
        database = await Database.open(url, settings=SETTINGS, clock=MovedClock(START))
        await furnish(database, receiver.url)
        await database.close()
        yield name_of(url)


def name_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


@dataclass
class DutyShop:
    """A worker on a database, and the errands that it has to run."""

    url: str
    clock: MovedClock
    database: Database
    duties: dict[str, Duty]

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, clock: MovedClock, by_way_of: str | None = None
    ) -> AsyncIterator["DutyShop"]:
        """A worker on the database; its links may go another way than ours."""
        database = await Database.open(by_way_of or url, settings=SHORT, clock=clock)
        place = WorkerContext(database, runtime=app.runtime(database), sending=SENDING)
        duties = {kind.name: kind(place) for kind in DUTIES if kind.name in WAITING_FOR_WORK}
        try:
            yield cls(url, clock, database, duties)
        finally:
            for duty in duties.values():
                await finish(duty)
            await database.close()

    async def run(self, name: str) -> None:
        """Run a duty until it has nothing more to do; its errors are logged, and waited out by the next round."""
        for _ in range(10):
            run = await run_duty(self.duties[name], ANSWER_MAX_S)
            if run.error is not None or not run.done.more:
                return

    async def stage(self, index: int) -> None:
        """Run one stage; before the results, they are sent."""
        if STAGES[index] == "timers":
            self.clock.advance("1s")
        if STAGES[index] == "results":
            await self.send_results()
        await self.run(STAGES[index])

    async def go_on(self) -> int:
        """Run all duties round after round until nothing is left to do; return how many rounds it took."""
        for count in range(ROUNDS_MAX):
            if not await self.left():
                return count
            for name in self.duties:
                await self.run(name)
            await self.send_results()
            self.clock.advance("1s")
        return ROUNDS_MAX

    async def send_results(self) -> None:
        """As the outside party does, straight to the database, again and again."""
        async with self._direct() as database:
            runtime = app.runtime(database)
            for request in await self.fetch("SELECT id FROM assent.outside_requests WHERE ended_at IS NULL"):
                items = [{"cargo": f"external://vault/{request['id']}"}]
                await runtime.org(ORG).requests.push_result(request["id"], "k", items)

    async def start(self) -> list[str]:
        """Start the errands, and pay for them."""
        numbers = [uuid4().hex for _ in range(ERRANDS)]
        async with self._direct() as database:
            runtime = app.runtime(database)
            await runtime.org(ORG, ANN).instances.start_many(
                "errand", [{"number": number} for number in numbers]
            )
            for number in numbers:
                await runtime.org(ORG).events.emit(f"paid:{number}", {})
        return numbers

    async def left(self) -> dict[str, int]:
        found = {name: (await self.fetch(sql))[0][0] for name, sql in QUEUES.items()}
        return {name: number for name, number in found.items() if number}

    async def fetch(self, sql: str) -> list[Any]:
        connection: asyncpg.Connection[Any] = await asyncpg.connect(self.url)
        try:
            return list(await connection.fetch(sql))
        finally:
            await connection.close()

    @asynccontextmanager
    async def _direct(self) -> AsyncIterator[Database]:
        database = await Database.open(self.url, settings=SETTINGS, clock=self.clock)
        try:
            yield database
        finally:
            await database.close()


@pytest.mark.parametrize("stage", range(len(STAGES)), ids=[f"{n}-{name}" for n, name in enumerate(STAGES)])
async def test_errands_end_as_if_nothing_had_happened(
    databases: Databases, furnished: str, receiver: Receiver, stage: int
) -> None:
    async with databases.fresh(furnished) as url:
        clock = MovedClock(START)
        async with DutyShop.open(url, clock) as shop:
            numbers = await shop.start()
            for before in range(stage):
                await shop.stage(before)
        order = await _undisturbed(databases, url, clock, stage)
        commits = commits_in(order)
        points = [
            replace(point, moment=moment, action=action)
            for point in commits
            for moment, action in (("before", "cut"), ("after", "cut"), ("after", "freeze"))
        ]
        assert points, "expected a duty that commits"
        laboratory, room = Laboratory(databases, name_of(url)), asyncio.Semaphore(AT_ONCE)

        async def disturb(point: Point) -> list[str]:
            async with room:
                return await _disturbed(laboratory, clock, stage, point, numbers)

        wrong = [line for lines in await asyncio.gather(*map(disturb, points)) for line in lines]
    # All runs begin with the same errands, and keys are derived: whatever happened, a message has one key.
    keys = {(got.path, got.json["number"], got.key) for got in receiver.received}
    sent = Counter((path, number) for path, number, _ in keys if number in numbers)
    wrong += [f"{message} came under {times} keys" for message, times in sent.items() if times > 1]
    assert not wrong, "\n".join(wrong)


async def _undisturbed(databases: Databases, url: str, clock: MovedClock, stage: int) -> list[str]:
    async with (
        databases.fresh(name_of(url)) as copy,
        Proxy.before(copy) as proxy,
        DutyShop.open(copy, MovedClock(clock.now()), proxy.url) as shop,
    ):
        proxy.clear()
        await shop.stage(stage)
        return list(proxy.order)


async def _disturbed(
    laboratory: Laboratory, clock: MovedClock, stage: int, point: Point, numbers: list[str]
) -> list[str]:
    async with (
        laboratory.copy() as copy,
        Proxy.before(copy) as proxy,
        DutyShop.open(copy, MovedClock(clock.now()), proxy.url) as shop,
    ):
        fault = proxy.arm(point.fault())
        await shop.stage(stage)
        struck = fault.struck
        proxy.disarm()
        rounds = await shop.go_on()
        found = [f"{point}: {complaint}" async for complaint in _complaints(shop, rounds, numbers)]
        proxy.cut()
        return found if struck else [*found, f"{point} never came"]


async def _complaints(shop: DutyShop, rounds: int, numbers: list[str]) -> AsyncIterator[str]:
    if rounds >= ROUNDS_MAX:
        yield f"after {ROUNDS_MAX} s there is left {await shop.left()}"
        return
    steps = Counter((row["number"], row["node_id"]) for row in await shop.fetch(_STEPS))
    marks = Counter((row["what"], row["of"]) for row in await shop.fetch("SELECT what, of FROM public.marks"))
    for number in numbers:
        counted = {node: steps[number, node] for node in NODES}
        if set(counted.values()) != {1}:
            yield f"its steps are {counted}"
        if (marks[number, "step"], marks[number, "task"]) != (1, 1):
            yield f"it took effect {marks}"
