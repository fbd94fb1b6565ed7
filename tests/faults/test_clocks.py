"""Processes whose clock is wrong by hours, or steps back: what is due, leased and claimed is the database's to say.

Each process is a real one, whose machine's clock is moved (`tests/faults/skewed`); the database's time runs as it does
in production.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.upkeep import Partitions
from tests.authored import END, arrows
from tests.plain_sql import WAIT_MAX_S
from tests.postgres import SETTINGS
from tests.processes.application import app, calls, keep_calls
from tests.processes.commands import ROOT, run_worker, worker
from tests.processes.spawn import closed_gate, wait_until_blocked
from tests.receiver import Receiver, receiving
from tests.world import ORG, fetch, publish_steps, rows

pytestmark = pytest.mark.long

SKEWED = {"PYTHONPATH": str(Path(__file__).parent / "skewed")}
FAST = SKEWED | {"SKEW_S": "7200"}
SLOW = SKEWED | {"SKEW_S": "-7200"}
CLOCKS = {"hours ahead": FAST, "hours behind": SLOW}

APP = ("--app", "tests.processes.application:app")
LOCALLY = {"ASSENT_EFFECTS_ALLOW": "127.0.0.0/8"}
PATIENT = {"ASSENT_LOCK_TIMEOUT_MS": "600000", "ASSENT_STATEMENT_TIMEOUT_MS": "600000"}
"""For a task that waits at the gate, however slow the machine is."""
STEPS = [
    {"id": "pause", "type": "wait", "for": "1s"},
    {"id": "tell", "type": "webhook_out", "url": "{workflow.url}", "await": True},
    END,
]

SUBMIT = """
import asyncio, sys
from assent.store.database import Database
from tests.processes.application import app
from tests.world import ANN, ORG

async def main(url, receiver):
    database = await Database.open(url)
    runtime = app.runtime(database)
    await runtime.org(ORG).tasks.submit("tests.run", {"what": "a"})
    await runtime.org(ORG, ANN).instances.start("telling", {"url": receiver})
    await database.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def running(database_url: str) -> AsyncIterator[Database]:
    """A database whose time runs."""
    database = await Database.open(database_url, settings=SETTINGS)
    await keep_calls(database)
    steps = [*STEPS, {"id": "failed", "type": "terminal"}]
    ways = arrows("pause", "tell", "end") + arrows("tell", "failed", event="error")
    await publish_steps(database, "telling", steps, ways)
    # The months of now, so that no worker moves rows into them while another sends.
    await Partitions(WorkerContext(database)).run_once()
    yield database
    await database.close()


async def submit(database: Database, receiver: Receiver, clock: dict[str, str]) -> None:
    """A task and a flow that waits a second and then sends a webhook, by a process with this clock."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SUBMIT, database.url, receiver.url),
        cwd=ROOT,
        env={**os.environ, **clock, "PYTHONPATH": f"{clock.get('PYTHONPATH', '')}:{ROOT}"},
    )
    async with asyncio.timeout(WAIT_MAX_S):
        assert await process.wait() == 0


async def work_until_done(database: Database, clock: dict[str, str], open_tasks: int = 0) -> None:
    """Run a worker with this clock until the flow and all tasks but so many have ended."""
    seen: list[Any] = []
    async with worker(database.url, *APP, **LOCALLY, **clock):
        for _ in range(WAIT_MAX_S * 20):
            instances = await rows(database, "workflow_instances")
            tasks = [row for row in await rows(database, "jobs") if row["kind"] == "task"]
            seen = sorted(row["status"] for row in (*instances, *tasks))
            if seen == ["completed", "done"] + ["queued"] * open_tasks:
                return
            await asyncio.sleep(0.05)
    raise AssertionError(f"not done: {seen}")


def age_s(moment: datetime) -> float:
    return abs((datetime.now(UTC) - moment).total_seconds())


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
async def test_what_a_process_with_a_wrong_clock_submits_is_due_at_once(
    running: Database, clock: dict[str, str]
) -> None:
    """Its task, its timer and its webhook; and nothing of it is dated hours away."""
    with receiving() as receiver:
        await submit(running, receiver, clock)
        (step,) = [
            row for row in await rows(running, "workflow_step_executions") if row["node_id"] == "pause"
        ]
        assert age_s(step["resume_at"]) < 600
        (task,) = await rows(running, "jobs")
        assert age_s(task["run_at"]) < 600
        await work_until_done(running, {})
        assert len(receiver.received) == 1
    assert await calls(running) == ["a"]
    for table in ("workflow_step_executions", "workflow_events_outbox", "task_submissions"):
        assert all(age_s(row["created_at"]) < 600 for row in await rows(running, table)), table


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
async def test_worker_with_a_wrong_clock_does_what_is_due(running: Database, clock: dict[str, str]) -> None:
    with receiving() as receiver:
        await submit(running, receiver, {})
        await (
            app.runtime(running)
            .org(ORG)
            .tasks.submit("tests.run", {"what": "in an hour"}, run_at=datetime.now(UTC) + timedelta(hours=1))
        )
        await work_until_done(running, clock, open_tasks=1)
        assert len(receiver.received) == 1
    assert await calls(running) == ["a"]


async def test_worker_that_is_fast_leaves_the_tasks_of_one_that_lives(running: Database) -> None:
    async with closed_gate(running) as observer:
        await app.runtime(running).org(ORG).tasks.submit("tests.run", {"what": "a", "waits": True})
        async with worker(running.url, *APP, "--only", "tasks", **PATIENT):
            await wait_until_blocked(observer, 1)
            assert (
                await run_worker(running.url, *APP, "--once", "--only", "rescue", "--only", "tasks", **FAST)
            )[0] == 0
            (task,) = await rows(running, "jobs")
            assert (task["status"], task["attempts"]) == ("running", 1)


async def test_worker_whose_clock_steps_back_goes_on_renewing_its_lease(running: Database) -> None:
    stepping: dict[str, Any] = SKEWED | {"STEP_S": "-3600", "STEP_AFTER_S": "1"}
    lease = {"ASSENT_WORKER_LEASE_MS": "2000"}
    async with closed_gate(running) as observer:
        await app.runtime(running).org(ORG).tasks.submit("tests.run", {"what": "a", "waits": True})
        async with worker(running.url, *APP, "--only", "tasks", **PATIENT, **lease, **stepping):
            await wait_until_blocked(observer, 1)
            (first,) = await fetch(running, "SELECT leased_until FROM assent.worker_leases")
            async with asyncio.timeout(WAIT_MAX_S):
                while True:  # two whole leases later
                    (now,) = await fetch(running, "SELECT leased_until FROM assent.worker_leases")
                    if now["leased_until"] - first["leased_until"] > timedelta(seconds=4):
                        break
                    await asyncio.sleep(0.05)
            assert (await run_worker(running.url, *APP, "--once", "--only", "rescue"))[0] == 0
            (task,) = await rows(running, "jobs")
            assert (task["status"], task["attempts"]) == ("running", 1)
