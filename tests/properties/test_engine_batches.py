"""The same flows and the same inputs give the same steps, whatever the batch, however many workers, and who dies.

Each example is a seed; hypothesis prints the one that fails.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assent.app import App
from assent.definitions import publish_flow
from assent.model.actor import SYSTEM
from assent.model.mutation import Refused, Rejection
from assent.runtime import Runtime
from assent.runtime.errors import StepFailed
from assent.runtime.event_processor import EventProcessor
from assent.store.clock import MovedClock
from assent.worker.duty import WorkerContext
from assent.worker.timers import Timeouts, Timers
from tests.postgres import SETTINGS, START, Databases
from tests.properties.choosing import Seeded
from tests.properties.crashing import Crash, CrashingDatabase
from tests.properties.running_flows import flow
from tests.world import ANN, OPS, ORG, rows, steps_of

pytestmark = pytest.mark.long

INSTANCES: Final = 5
ROUNDS: Final = 6
MODES: Final = ("one by one", "all at once", "two workers", "two that die")


def application(*, raises: bool) -> App:
    """Calls that fail or raise where instance and node say so, always alike."""
    app = App()

    @app.operation("tests.call")
    def call(connection: Any, arguments: Any) -> Any:
        fate = random.Random(f"{arguments['number']} {arguments['node']}").randrange(10)  # noqa: S311
        if fate == 0:
            raise Refused(Rejection("CLOSED", "the shop is closed"))
        if fate == 1 and raises:
            raise RuntimeError("the shop burns")
        return {"fate": fate}

    return app


@dataclass
class BatchWorld:
    """One database with instances of a random flow; workers and people are as the mode says."""

    seed: int
    mode: str
    databases: list[CrashingDatabase]
    clock: MovedClock
    raises: bool
    """Not where workers die: a lost attempt is one attempt less for what fails, and it is given up earlier."""
    ids: list[UUID] = field(default_factory=list)
    chooser: random.Random = field(init=False)
    """What happens to instances: the same in every world of a seed."""
    luck: random.Random = field(init=False)
    """What happens to workers."""

    def __post_init__(self) -> None:
        self.chooser, self.luck = random.Random(self.seed), random.Random(self.seed)  # noqa: S311
        self.runtimes = [application(raises=self.raises).runtime(database) for database in self.databases]

    @property
    def runtime(self) -> Runtime:
        return self.runtimes[0]

    async def live(self) -> None:
        await self._begin()
        for _ in range(ROUNDS):
            for index in range(INSTANCES):
                await self._happen(index)
            await self._work()
            # Failed attempts are due again, and so are some timers.
            self.clock.advance("20m")
            place = WorkerContext(self.databases[0])
            await Timers(place).run_once()
            await Timeouts(place).run_once()
            await self._work()
        for _ in range(6):
            self.clock.advance("10m")
            await self._work()

    async def _begin(self) -> None:
        source = flow(Seeded(self.seed), "generated.flow")
        async with self.databases[0].transaction(None) as connection:
            await publish_flow(connection, ORG, source, SYSTEM, self.clock.now())
        inputs = [{"number": number, "n": self.chooser.randint(0, 4)} for number in range(INSTANCES)]
        self.ids = await self.runtime.org(ORG, ANN).instances.start_many("generated.flow", inputs)

    async def _happen(self, index: int) -> None:
        """Something that does not depend on how far the workers are: an event, an answer, a pause."""
        node, sort = f"n{self.chooser.randrange(12)}", self.chooser.randrange(6)
        if sort <= 1:
            await self.runtime.org(ORG).events.emit(
                f"{node}:{index}", cause=f"{index} {self.clock.now()} {node}"
            )
            return
        with suppress(Refused, StepFailed):
            if sort == 2:
                await self.runtime.org(ORG, OPS).instances.pause(self.ids[index])
            elif sort == 3:
                await self.runtime.org(ORG, OPS).instances.resume(self.ids[index])
            else:
                event = self.chooser.choice(("done", "again"))
                await self.runtime.org(ORG, ANN).instances.advance(self.ids[index], event, step=node)

    async def _work(self) -> None:
        if self.mode in ("one by one", "all at once"):
            limit = 1 if self.mode == "one by one" else 200
            processor = EventProcessor(self.runtime.core)
            while await processor.process_events(limit):
                pass
            return
        limits = [self.luck.randint(1, 4) for _ in self.runtimes]
        await asyncio.gather(*map(self._worker, range(2), limits))
        await self._worker(0, 10)

    async def _worker(self, index: int, limit: int) -> None:
        database, runtime = self.databases[index], self.runtimes[index]
        if self.mode == "two that die":
            database.arm(self.luck.randint(1, 400))
        more = True
        while more:
            with suppress(Crash):
                more = bool(await EventProcessor(runtime.core).process_events(limit))
        database.arm(None)

    async def story(self) -> list[list[tuple[Any, ...]]]:
        """The steps of each instance, in the order in which they took effect."""
        return [[_told(step) for step in await steps_of(self.databases[0], id_)] for id_ in self.ids]

    async def check(self) -> None:
        database = self.databases[0]
        for instance_id in self.ids:
            kept, folded = await self.runtime.org(ORG).operations.fold(instance_id)
            assert kept == folded
        steps = await rows(database, "workflow_step_executions")
        keys = [step["idempotency_key"] for step in steps]
        assert len(set(keys)) == len(keys)
        assert {row["idempotency_key"] for row in await rows(database, "workflow_step_receipts")} == set(keys)
        assert await rows(database, "workflow_batches") == []
        await self._check_queue()

    async def _check_queue(self) -> None:
        """Whatever is not done waits for somebody to look at it, or for a paused instance."""
        database = self.databases[0]
        status = {row["id"]: row["status"] for row in await rows(database, "workflow_instances")}
        for event in await rows(database, "workflow_events_outbox"):
            if event["status"] not in ("completed", "dead"):
                assert status[event["instance_id"]] == "paused", event


def _told(step: dict[str, Any]) -> tuple[Any, ...]:
    # A control step carries the id of its cause, which is another in each world.
    token = "ctl" if step["node_type"] == "control" else step["token_id"]
    output = step["output_json"]
    return (
        step["node_id"],
        token,
        step["entity_version"],
        step["status"],
        output.get("outcome"),
        output.get("n"),
    )


@asynccontextmanager
async def world(
    databases: Databases, template: str, seed: int, mode: str, *, raises: bool
) -> AsyncIterator[BatchWorld]:
    clock = MovedClock(START)
    async with databases.fresh(template) as url:
        opened = [await CrashingDatabase.open(url, settings=SETTINGS, clock=clock) for _ in range(2)]
        for database in opened:
            database.arm(None)
        try:
            yield BatchWorld(seed, mode, opened, clock, raises)
        finally:
            for database in opened:
                await database.close()


@pytest.mark.parametrize("mode", MODES[1:])
@settings(
    max_examples=5,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 10**6))
async def test_steps_do_not_depend_on_who_works(
    databases: Databases, template: str, mode: str, seed: int
) -> None:
    stories = []
    for each in (MODES[0], mode):
        async with world(databases, template, seed, each, raises=mode != MODES[-1]) as there:
            await there.live()
            await there.check()
            stories.append(await there.story())
    assert stories[0] == stories[1]
