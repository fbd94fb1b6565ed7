"""A task that a worker has claimed, with everything that is needed to run it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from assent.jobs.job import JOB_COLUMNS, ClaimedJob
from assent.jobs.queue import JobRow
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row
from assent.tasks.errors import CANCELLED
from assent.tasks.outcomes import Subtask, TaskError

_SQL: Final = load_queries("assent.tasks", "tasks.sql")


@dataclass(frozen=True, slots=True)
class ClaimedTask(ClaimedJob):
    input: Mapping[str, Any]
    submitted_by: str
    partition_id: str | None
    instance_id: UUID | None
    step_id: UUID | None
    awaited: bool
    trace_id: str | None
    parent_id: UUID | None
    depth: int
    """How many tasks it has above it."""
    is_callback: bool
    """Whether it runs for the tasks of a batch, which are its subtasks."""
    people: Sequence[str] = ()
    """Those whose work it hands on: who submitted it, and who brought what its subtasks have."""
    subtasks: tuple[Subtask, ...] = ()
    """Those that it made last, and for which it was blocked."""

    @property
    def type(self) -> str:
        return self.lane


async def load_tasks(connection: Connection, jobs: Sequence[JobRow]) -> list[ClaimedTask]:
    """Return claimed jobs with what was submitted."""
    if not jobs:
        return []
    rows = await connection.fetch(
        _SQL.read_submissions, [job["org_id"] for job in jobs], [job["id"] for job in jobs]
    )
    tasks = [ClaimedTask(*job[:JOB_COLUMNS], *row) for job, row in zip(jobs, rows, strict=True)]
    if not any(task.attempt > 1 for task in tasks):
        return tasks  # subtasks are made by an attempt
    found, people = await _load_subtasks(connection, [task for task in tasks if task.attempt > 1])
    return [
        replace(task, subtasks=tuple(found[task.id]), people=people[task.id]) if task.id in found else task
        for task in tasks
    ]


async def _load_subtasks(
    connection: Connection, tasks: Sequence[ClaimedTask]
) -> tuple[Mapping[UUID, Sequence[Subtask]], Mapping[UUID, Sequence[str]]]:
    """Return the last subtasks of each of these tasks, of those that have some, and whose work they bring."""
    columns = [task.org_id for task in tasks], [task.id for task in tasks]
    found: dict[UUID, list[Subtask]] = defaultdict(list)
    people: dict[UUID, Sequence[str]] = {}
    for row in await connection.fetch(_SQL.read_subtasks, *columns):
        error = error_of_subtask(row)
        found[row["parent_id"]].append(Subtask(row["id"], row["type"], row["status"], row["output"], error))
        people[row["parent_id"]] = row["people"]
    return found, people


def error_of_subtask(row: Row) -> TaskError | None:
    """Return why a subtask failed: it has if it is dead or was cancelled (D35)."""
    match row["status"]:
        case "cancelled":
            return TaskError(CANCELLED, "it was cancelled", subtask_id=row["id"])
        case "dead":
            kept = row["code"], row["error"], row["error_type"], row["stack_trace"], bool(row["retryable"])
            return TaskError(*kept, subtask_id=row["id"])
        case _:
            return None
