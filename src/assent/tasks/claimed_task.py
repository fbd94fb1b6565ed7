"""A task that a worker has claimed, with everything that is needed to run it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from assent.jobs.job import JOB_COLUMNS, ClaimedJob
from assent.jobs.queue import JobRow
from assent.store.database import Connection
from assent.store.queries import load_queries

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
    return [ClaimedTask(*job[:JOB_COLUMNS], *row) for job, row in zip(jobs, rows, strict=True)]
