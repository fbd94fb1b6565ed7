"""Tasks as people and programs see them: one with its attempts, and pages of many. Reads, and never writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.jobs.job import JobStatus
from assent.model.actor import Reader, reader_columns
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row
from assent.tasks.notes import TaskProgress, progress_of

TaskStatus = JobStatus

_OF_PROGRESS: Final = ("fraction", "message", "progress_attempt", "progress_at")

_SQL: Final = load_queries("assent.tasks", "tasks.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskItem:
    """A task, as a list has it."""

    id: UUID
    type: str
    status: JobStatus
    priority: int
    attempts: int
    attempts_max: int
    run_at: datetime
    """Not before; after an error, the next try."""
    claimed_at: datetime | None
    """When its last attempt began."""
    ended_at: datetime | None
    key: str | None
    submitted_by: str
    partition_id: str | None
    instance_id: UUID | None
    """Of the step that submitted it."""
    step_id: UUID | None
    awaited: bool
    """Whether that step waits for it."""
    parent_id: UUID | None
    """Of a subtask: the task that waits for it."""
    created_at: datetime
    resources: tuple[str, ...] = ()
    """What its attempts use, and may have to wait for."""
    rate_key: str | None = None
    """What its starts are counted under, where their rate is limited."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of one attempt."""

    attempt: int
    outcome: Literal["done", "blocked", "background", "failed", "lost"]
    output: Any
    code: str | None
    error: str | None
    started_at: datetime
    ended_at: datetime
    error_type: str | None
    """The type of the exception, where one was raised."""
    stack_trace: str | None
    retryable: bool | None
    """Of one that failed: whether a further attempt could help."""
    worker_id: UUID | None
    """The node that made it; None where the task was ended from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView(TaskItem):
    """A task with what went in and what came out."""

    input: Mapping[str, Any]
    progress: TaskProgress | None = None
    """How far its last attempt was, where it said so."""
    tried: tuple[Attempt, ...] = ()

    @property
    def output(self) -> Any:
        """What it returned; None before it is done."""
        return self.tried[-1].output if self.status == "done" else None


TREE_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNode(TaskItem):
    """A task in a tree."""

    depth: int
    """How many tasks of the tree are above it."""


@dataclass(frozen=True, slots=True)
class TaskTree:
    """A task with all that is below it."""

    counts: Mapping[JobStatus, int]
    """How many there are of each status."""
    tasks: tuple[TaskNode, ...]
    """The first of them, each below its parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    status: JobStatus | None = None
    type: str | None = None
    instance_id: UUID | None = None
    partition_id: str | None = None
    reader: Reader | None = None
    """Who reads the list, and sees what they may; without one, everything."""


async def read_task(
    connection: Connection, org_id: str, task_id: UUID, partition_id: str | None = None
) -> TaskView | None:
    row = await connection.fetchrow(_SQL.read_task, org_id, task_id, partition_id)
    if row is None:
        return None
    tried = await connection.fetch(_SQL.list_attempts, org_id, task_id)
    kept = {name: value for name, value in _item(row).items() if name not in _OF_PROGRESS}
    return TaskView(**kept, progress=progress_of(row), tried=tuple(Attempt(*one) for one in tried))


async def list_tasks(
    connection: Connection, org_id: str, wanted: TaskFilter, after: UUID | None, limit: int
) -> list[TaskItem]:
    """Return tasks, the newest first, from one of them on."""
    terms = wanted.status, wanted.type, wanted.instance_id, wanted.partition_id
    rows = await connection.fetch(
        _SQL.list_tasks, org_id, *terms, after, limit, *reader_columns(wanted.reader)
    )
    return [TaskItem(**_item(row)) for row in rows]


async def read_tree(connection: Connection, org_id: str, task_id: UUID) -> TaskTree:
    rows = await connection.fetch(_SQL.read_tree, org_id, task_id, TREE_MAX)
    nodes = [{name: value for name, value in _item(row).items() if name != "counts"} for row in rows]
    return TaskTree(rows[0]["counts"] if rows else {}, tuple(TaskNode(**node) for node in nodes))


def _item(row: Row) -> dict[str, Any]:
    return {**row, "resources": tuple(row["resources"] or ())}
