"""Kill −9 in the middle of a batch, fifty times, with two workers: every instance completes, and no step twice."""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from typing import Any

import psutil
import pytest

from assent.runtime import Runtime
from assent.store.database import Database
from tests.authored import END, arrows, call, script
from tests.processes.application import app, calls, keep_calls
from tests.processes.spawn import ROOT
from tests.world import ANN, ORG, drain, publish_steps, rows

pytestmark = pytest.mark.long

KILLS = 50
WORKERS = 2
INSTANCES = 300
CALLS = ("a", "b", "c")
WAIT_MAX_S = 60


class Workers:
    """Two workers at all times; some of them are killed where they stand still."""

    def __init__(self, zygote: asyncio.subprocess.Process, fated: set[str]) -> None:
        self._zygote = zygote
        self._fated = fated
        self.killed: list[int] = []

    def spawn(self) -> None:
        assert self._zygote.stdin is not None
        self._zygote.stdin.write(b"one more\n")

    async def run(self) -> None:
        """Until all have found that nothing is left to do."""
        for _ in range(WORKERS):
            self.spawn()
        wanted = WORKERS
        while wanted:
            line = await self._line()
            if line["news"] == "done":
                wanted -= 1
            else:
                await self._decide(line["pid"], line["what"])

    async def _decide(self, pid: int, what: str) -> None:
        """Kill at the first halt of whoever is fated; let all others go on."""
        # It says that it halts before it does, and must not be told to go on too early.
        while psutil.Process(pid).status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110
            await asyncio.sleep(0)
        if what not in self._fated:
            os.kill(pid, signal.SIGCONT)
            return
        self._fated.discard(what)
        os.kill(pid, signal.SIGKILL)
        self.killed.append(pid)
        self.spawn()

    async def _line(self) -> dict[str, Any]:
        assert self._zygote.stdout is not None
        async with asyncio.timeout(WAIT_MAX_S):
            found: dict[str, Any] = json.loads(await self._zygote.stdout.readline())
        return found

    async def end(self) -> None:
        """All of them, also those that nobody has heard of yet: they are a group of their own."""
        os.killpg(self._zygote.pid, signal.SIGKILL)
        await self._zygote.communicate()


async def start_workers(database: Database, fated: set[str]) -> Workers:
    zygote = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.processes.zygote", database.url, database.clock.now().isoformat()),
        cwd=ROOT,
        start_new_session=True,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    return Workers(zygote, fated)


async def publish_calling(database: Database) -> None:
    """Three calls, one of them in a branch; each of them may stand still."""
    halting = {
        name: call(name, "tests.halt", input={"what": f"workflow.{name}", "halts": f"workflow.halts_{name}"})
        for name in CALLS
    }
    steps = [
        script("one"),
        halting["a"],
        {"id": "fork", "type": "parallel_split"},
        halting["b"],
        script("beside"),
        {"id": "join", "type": "parallel_join", "mode": "all"},
        halting["c"],
        END,
    ]
    transitions = [*arrows("one", "a", "fork", "b", "join", "c", "end"), *arrows("fork", "beside", "join")]
    await publish_steps(database, "calling", steps, transitions)


def inputs() -> list[dict[str, Any]]:
    """Every sixth instance is one over which a worker is killed, at another call each time."""
    made = []
    for number in range(INSTANCES):
        given: dict[str, Any] = {name: f"{name}{number}" for name in CALLS}
        if number % (INSTANCES // KILLS) == 0:
            given[f"halts_{CALLS[number // (INSTANCES // KILLS) % 3]}"] = True
        made.append(given)
    return made


@pytest.mark.timeout(120)
async def test_fifty_workers_killed_in_the_middle_of_a_batch_lose_nothing_and_repeat_nothing(
    database: Database,
) -> None:
    await keep_calls(database)
    await publish_calling(database)
    runtime: Runtime = app.runtime(database)
    given = inputs()
    fated = {item[name] for item in given for name in CALLS if item.get(f"halts_{name}")}
    ids = await runtime.org(ORG, ANN).instances.start_many("calling", given)
    workers = await start_workers(database, set(fated))
    try:
        await workers.run()
    finally:
        await workers.end()
    assert len(set(workers.killed)) == len(fated) == KILLS
    await drain(runtime)  # the last to die may have left something
    assert await statuses(database) == dict.fromkeys(ids, "completed")
    assert Counter(await calls(database)) == {item[name]: 1 for item in given for name in CALLS}
    await assert_steps_once(database)
    await assert_nothing_is_left(database)


async def statuses(database: Database) -> dict[Any, str]:
    return {row["id"]: row["status"] for row in await rows(database, "workflow_instances")}


async def assert_steps_once(database: Database) -> None:
    steps = await rows(database, "workflow_step_executions")
    assert {step["status"] for step in steps} == {"completed"}
    places = Counter((step["instance_id"], step["node_id"], step["token_id"]) for step in steps)
    assert set(places.values()) == {1}
    assert set(Counter(step["instance_id"] for step in steps).values()) == {10}
    receipts = await rows(database, "workflow_step_receipts")
    assert Counter(r["idempotency_key"] for r in receipts) == Counter(s["idempotency_key"] for s in steps)


async def assert_nothing_is_left(database: Database) -> None:
    events = await rows(database, "workflow_events_outbox")
    assert {row["status"] for row in events} == {"completed"}
    assert await rows(database, "workflow_batches") == []
    assert {row["attempts"] for row in events} == {1}, "a death is charged to events that ran alone only"
