"""Fifty workers are killed in the middle of a batch, two at a time: nothing is lost, and nothing happens twice."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from assent.app import App
from assent.runtime import Runtime
from assent.store.database import Database
from tests.processes.application import app as application
from tests.processes.application import calls, keep_calls
from tests.processes.spawn import Child, ChildDied, children, closed_gate, wait_until_blocked
from tests.runtime.flows import ANN, END, ORG, arrows, call, drain, publish, rows

ROUNDS = 25
WORKERS = 2
BATCH = 5
INSTANCES = ROUNDS * WORKERS * BATCH + 50


@pytest.fixture
def app() -> App:
    return application


@pytest.fixture
def runtime(app: App, database: Database) -> Runtime:
    return app.runtime(database)


async def kill_in_the_middle(database: Database, workers: list[Child]) -> None:
    """Have each worker begin a batch, wait until it is inside its transaction, and kill it there."""
    async with closed_gate(database) as observer:
        begun = [asyncio.create_task(worker.ask("process", limit=BATCH)) for worker in workers]
        await wait_until_blocked(observer, len(workers))
        assert [await worker.kill() for worker in workers] == [-9] * len(workers)
        for task in begun:
            with suppress(ChildDied):
                await task


@pytest.mark.timeout(180)
async def test_fifty_killed_workers_lose_nothing_and_repeat_nothing(
    runtime: Runtime, database: Database
) -> None:
    await keep_calls(database)
    marks = {"input": {"what": "workflow.number"}}
    steps = [call("before", "tests.mark", **marks), call("gate", "tests.gate", **marks), END]
    await publish(database, "a.b", steps, arrows("before", "gate", "end"))
    await runtime.start_many(ORG, "a.b", ANN, [{"number": number} for number in range(INSTANCES)])

    for _ in range(ROUNDS):
        async with children(database, WORKERS) as workers:
            await kill_in_the_middle(database, workers)
    assert await calls(database) == []
    assert len(await rows(database, "workflow_batches")) == ROUNDS * WORKERS

    while await drain(runtime) or await runtime.recover_batches():
        pass
    instances = await rows(database, "workflow_instances")
    assert Counter(row["status"] for row in instances) == {"completed": INSTANCES}
    assert Counter(await calls(database)) == {str(number): 2 for number in range(INSTANCES)}
    done = Counter(
        (row["instance_id"], row["node_id"]) for row in await rows(database, "workflow_step_executions")
    )
    assert set(done.values()) == {1}
    assert len(done) == len(await rows(database, "workflow_step_receipts"))
    assert Counter(row["status"] for row in await rows(database, "workflow_events_outbox")) == {
        "completed": INSTANCES
    }
    assert await rows(database, "workflow_batches") == []
