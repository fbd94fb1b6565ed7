"""Random trees and batches of tasks under failures, kills, expired leases, cancels and limits: what always holds.

Workers are stepped: what they have run and not yet written is held back, so that a lease may expire in between.
"""

import os
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

import pytest

import assent
from assent.app import App
from assent.jobs.job import RetryPolicy, next_state
from assent.store.clock import MovedClock
from assent.store.database import Connection, Database
from assent.tasks.settle import TaskResult, parents_to_resume, resume_parents, settle_if_claimed
from assent.worker.rescue import Unblock
from tests.tasks.spans import most_at_once, spans_by_resource
from tests.workers import TasksWorker, run_until_done
from tests.world import ORG, fetch

ACTIONS = 60
SCANS = ("tests.scan", "tests.bind")
LIMITS = {"scanner": 2, "table": 1}
ENDED = {"done", "cancelled", "dead"}
HISTORY = """
SELECT j.id, j.status, j.attempts, j.attempts_max, j.parent_id, s.parent_attempt, s.input, j.ended_at
  FROM assent.jobs j JOIN assent.task_submissions s USING (org_id, id) WHERE j.org_id = 'acme' ORDER BY j.id
"""


@dataclass
class Forest:
    """Trees of tasks, the workers that run them, and what these have run and not yet written."""

    app: App
    database: Database
    clock: MovedClock
    random: Random
    workers: list[TasksWorker] = field(default_factory=list)
    held: list[tuple[TasksWorker, TaskResult, bool]] = field(default_factory=list)
    """Worker, result, and whether its lease has expired since."""

    def tree(self, depth: int = 0) -> dict[str, Any]:
        width = self.random.choice((0, 0, 1, 2, 4)) if depth < 3 else 0
        parts = [self.tree(depth + 1) for _ in range(width if depth else max(1, width))]
        ends = self.random.choice(("", "", "", "dies", "fails", "handles", "again"))
        return {"parts": parts, "ends": ends, "type": self.random.choice(("tests.tree", *SCANS))}

    async def submit(self) -> None:
        """Submit a tree, or some as a batch with one that runs when they have ended."""
        acme = self.workers[0].runtime.org(ORG)
        trees = [self.tree() for _ in range(self.random.randint(1, 3))]
        tasks = [assent.NewTask(each["type"], each) for each in trees]
        if len(tasks) == 1:
            await acme.tasks.submit_many(tasks)
        else:
            then = {"parts": [], "ends": self.random.choice(("", "handles", "fails"))}
            await acme.tasks.submit_batch(tasks, assent.NewTask("tests.tree", then))

    async def claim(self) -> None:
        worker = self.random.choice(self.workers)
        for task in await worker.claim(self.random.randint(1, 4)):
            outcome = (await worker.duty._attempts.make(task)).outcome
            self.held.append((worker, next_state(task, outcome, RetryPolicy()), False))

    async def settle(self) -> None:
        """Write what one worker holds; now and then it dies before it resumes the parents."""
        if not self.held:
            return
        worker = self.random.choice(self.held)[0]
        ours = [each for each in self.held if each[0] is worker]
        self.held = [each for each in self.held if each[0] is not worker]
        results = [result for _, result, _ in ours]

        async def write(connection: Connection) -> list[TaskResult]:
            return (await settle_if_claimed(connection, worker.duty._jobs.worker_id, results))[0]

        settled = await worker.database.run(write, org_id=None)
        expired = [result for _, result, is_expired in ours if is_expired]
        assert not [one for one in settled if one in expired], "a fenced worker has written"
        if self.random.random() < 0.7:
            async with worker.database.transaction(None) as connection:
                await resume_parents(connection, parents_to_resume(settled))

    async def kill(self) -> None:
        """A worker dies with what it has run."""
        if self.held:
            worker = self.random.choice(self.held)[0]
            self.held = [each for each in self.held if each[0] is not worker]

    async def expire(self) -> None:
        await self.workers[0].sweep()
        self.held = [(worker, result, True) for worker, result, _ in self.held]

    async def cancel(self) -> None:
        rows = [row for row in await fetch(self.database, HISTORY) if row["status"] not in ENDED]
        if rows:
            await self.workers[0].runtime.org(ORG).tasks.cancel(self.random.choice(rows)["id"])

    async def unblock(self) -> None:
        await run_until_done(Unblock(self.workers[0].place))

    async def wait(self) -> None:
        self.clock.advance(timedelta(minutes=1))


def plant(app: App) -> None:
    for name, number in LIMITS.items():
        app.resource(name, max_concurrency=number)

    class Tree:
        async def on_start(
            self, task: assent.TaskContext, parts: list[Any], ends: str, type: str = ""
        ) -> Any:
            for part in parts:
                task.subtask(part["type"], part)
            return assent.Blocked() if parts else self.end(task, ends)

        async def on_resume(self, task: assent.TaskContext, ends: str) -> Any:
            return self.end(task, ends)

        async def on_error(self, task: assent.TaskContext, ends: str, error: assent.TaskError) -> Any:
            assert all(one.status in ENDED for one in task.subtasks)
            if ends == "again":
                task.subtask("tests.tree", {"parts": [], "ends": ""})
                return assent.Blocked()
            if ends == "handles":
                return {"attempt": task.attempt}
            return assent.Failed(error.code, error.message, permanent=True)

        def end(self, task: assent.TaskContext, ends: str) -> Any:
            if ends == "dies":
                raise assent.GiveUp("as it was told")
            if ends == "fails":
                raise TimeoutError("once more")
            assert all(one.status in ENDED for one in task.subtasks)
            return {"attempt": task.attempt}

    app.task("tests.tree", attempts_max=2)(Tree)
    app.task("tests.scan", attempts_max=2, resources=["scanner"])(Tree)
    app.task("tests.bind", attempts_max=2, resources=["scanner", "table"])(Tree)


@pytest.mark.parametrize("seed", range(12))
async def test_trees_end_legally_whatever_happens(
    app: App, database: Database, clock: MovedClock, seed: int
) -> None:
    await grow(app, database, clock, seed)


async def test_trees_of_a_seed_of_this_run_end_legally(
    app: App, database: Database, clock: MovedClock
) -> None:
    """One that fails prints its seed: add it to those above."""
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    await grow(app, database, clock, seed)


async def grow(app: App, database: Database, clock: MovedClock, seed: int) -> None:
    plant(app)
    forest = Forest(app, database, clock, Random(seed))  # noqa: S311
    forest.workers = [TasksWorker(app, database) for _ in range(3)]
    for worker in forest.workers:
        await worker.duty._declare()
    for _ in range(3):
        await forest.submit()
    actions = [forest.claim] * 5 + [forest.settle] * 5 + [forest.wait, forest.unblock] * 2
    actions += [forest.kill, forest.expire, forest.cancel]
    for _ in range(ACTIONS):
        clock.advance(timedelta(milliseconds=1))  # each action has an instant of its own in the history
        await forest.random.choice(actions)()
        await holds_at_every_instant(database)
    for _ in range(400):
        for action in (forest.settle, forest.expire, forest.wait, forest.unblock, forest.claim):
            clock.advance(timedelta(milliseconds=1))
            await action()
        if all(row["status"] in ENDED for row in await fetch(database, HISTORY)) and not forest.held:
            break
    await holds_at_every_instant(database)
    await holds_at_the_end(database)
    for name, spans in (await spans_by_resource(database)).items():
        assert most_at_once(spans) <= LIMITS[name], f"{name}, by the history of all attempts"


async def holds_at_every_instant(database: Database) -> None:
    """A parent with an open subtask is blocked, and no more tasks run with a resource than may."""
    for resource in await fetch(database, "SELECT * FROM assent.list_resources()"):
        assert resource["running"] <= resource["max_concurrency"], resource
    rows = {row["id"]: row for row in await fetch(database, HISTORY)}
    for row in rows.values():
        parent = rows.get(row["parent_id"])
        if parent is not None and row["status"] not in ENDED:
            assert parent["status"] == "blocked", (parent["status"], row["status"])


async def holds_at_the_end(database: Database) -> None:
    rows = {row["id"]: row for row in await fetch(database, HISTORY)}
    assert {row["status"] for row in rows.values()} <= ENDED
    attempts: dict[Any, list[Any]] = {task_id: [] for task_id in rows}
    kept = await fetch(database, "SELECT * FROM assent.job_attempts WHERE org_id = 'acme' ORDER BY attempt")
    for attempt in kept:
        attempts[attempt["job_id"]].append(attempt)
    for task_id, row in rows.items():
        made = {each["parent_attempt"] for each in rows.values() if each["parent_id"] == task_id}
        blocked = [one["attempt"] for one in attempts[task_id] if one["outcome"] == "blocked"]
        done = [one for one in attempts[task_id] if one["outcome"] == "done"]
        assert made <= set(blocked), "subtasks of an attempt that was not written"
        assert len(done) == (row["status"] == "done"), "it goes on once"
        for one in done:
            assert one["attempt"] == row["attempts"] == max(one["attempt"] for one in attempts[task_id])
            assert one["output"] == {"attempt": one["attempt"]}, (
                "what is kept is of the attempt that had the claim"
            )
        budget = row["attempts_max"] - len(blocked)
        counted = [one for one in attempts[task_id] if one["outcome"] in {"failed", "done", "lost"}]
        assert len(counted) <= budget, "no more attempts than it had"
        if row["status"] == "dead":
            assert attempts[task_id][-1]["outcome"] in {"failed", "lost"}
