"""The end of attempts: written down by whoever still has the task, together with the answer to the step that waits."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.model.graph import Outcome as StepOutcome
from assent.model.mutation import Event
from assent.outbox.completions import completion_event
from assent.outbox.emit import emit_events
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.outcome import Completed, TaskResult

_SQL: Final = load_queries("assent.tasks", "tasks.sql")


async def hold_if_claimed(connection: Connection, task: ClaimedTask, worker_id: UUID) -> bool:
    """Hold a task until the end of the transaction; false where it is in other hands."""
    held: bool | None = await connection.fetchval(
        _SQL.hold_if_claimed, task.org_id, task.id, task.attempt, worker_id
    )
    return held is True


async def settle_if_claimed(
    connection: Connection, worker_id: UUID, marks: Sequence[TaskResult]
) -> set[UUID]:
    """Write down what became of attempts, and tell the steps that wait; answers of which tasks it was written."""
    # In order: two who settle and cancel the same tasks wait for each other, and never in a circle.
    rows = [_row(mark) for mark in sorted(marks, key=lambda mark: (mark.task.org_id, mark.task.id))]
    settled = await connection.fetch(_SQL.settle_tasks_if_claimed, rows, worker_id)
    written = {row["id"] for row in settled}
    ended = [mark for mark in marks if mark.task.awaited and mark.has_ended and mark.task.id in written]
    if ended:
        now = settled[0]["now"]
        await emit_events(connection, [_answer(mark, now) for mark in ended], now)
    return written


def _row(mark: TaskResult) -> dict[str, Any]:
    task, outcome = mark.task, mark.outcome
    row: dict[str, Any] = {
        "org_id": task.org_id,
        "id": task.id,
        "attempt": task.attempt,
        "status": mark.status,
        "retry_after_s": mark.retry_after.total_seconds() if mark.retry_after is not None else None,
    }
    if isinstance(outcome, Completed):
        return row | {"outcome": "complete", "output": outcome.output}
    return row | {"outcome": "error", "code": outcome.code, "error": outcome.message}


def _answer(mark: TaskResult, now: datetime) -> Event:
    task, outcome = mark.task, mark.outcome
    about = {name: getattr(task, name) for name in ("org_id", "id", "instance_id", "step_id", "trace_id")}
    if isinstance(outcome, Completed):
        return completion_event(about, StepOutcome.COMPLETED, outcome.output, now)
    return failure_event(about, outcome.code, outcome.message, now)


def failure_event(task: Row, code: str, message: str, now: datetime) -> Event:
    return completion_event(task, StepOutcome.ERROR, {"code": code, "message": message}, now)
