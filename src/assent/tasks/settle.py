"""The end of tasks: settled or cancelled, together with the event for the step that waits."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from assent.jobs import queue
from assent.jobs.job import AttemptResult, Succeeded
from assent.model.graph import Outcome
from assent.model.mutation import Event
from assent.outbox.events import completion_event, emit_events
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.errors import CANCELLED

_SQL: Final = load_queries("assent.tasks", "tasks.sql")

StepOf = tuple[str, UUID, UUID]
"""An org, an instance, and one of its steps."""

TaskResult = AttemptResult[ClaimedTask]


async def settle_if_claimed(
    connection: Connection, worker_id: UUID, results: Sequence[TaskResult]
) -> tuple[list[TaskResult], datetime | None]:
    """Write the outcomes of attempts, and notify the steps that wait.

    Return those of tasks that still were this worker's, and the time, if there was one.
    """
    settled, now = await queue.settle_if_claimed(connection, worker_id, results)
    ended = [result for result in settled if result.claimed.awaited and result.has_ended]
    if ended and now is not None:
        await emit_events(connection, [_completion(result, now) for result in ended], now)
    return settled, now


async def notify_dead(connection: Connection, rescued: Sequence[Row]) -> None:
    """Notify the steps that wait for tasks which are dead because their worker was lost."""
    dead = [row for row in rescued if row["status"] == "dead" and row["awaited"]]
    if dead:
        now = dead[0]["now"]
        events = [failure_event(row, row["code"], row["error"], now) for row in dead]
        await emit_events(connection, events, now)


async def cancel_if_open(connection: Connection, org_id: str, task_id: UUID, why: str) -> bool:
    """Cancel a task, and notify the step that waits for it; return False where it has ended or does not exist."""
    row = await queue.cancel_if_open(connection, org_id, task_id, "task")
    if row is not None and row["awaited"]:
        await emit_events(connection, [failure_event(row, CANCELLED, why, row["now"])], row["now"])
    return row is not None


async def cancel_of_steps(connection: Connection, steps: Sequence[StepOf]) -> None:
    """Cancel tasks that these steps await no more; the steps have ended, and are not notified."""
    if steps:
        await connection.execute(_SQL.cancel_tasks_of_steps, *map(list, zip(*steps, strict=True)))


def _completion(result: TaskResult, now: datetime) -> Event:
    task, outcome = result.claimed, result.outcome
    origin = {name: getattr(task, name) for name in ("org_id", "id", "instance_id", "step_id", "trace_id")}
    if isinstance(outcome, Succeeded):
        return completion_event(origin, Outcome.COMPLETED, outcome.result, now)
    return failure_event(origin, outcome.code, result.error or outcome.message, now)


def failure_event(task: Row, code: str, message: str, now: datetime) -> Event:
    """Return the event by which the step of a task goes on by its error edge."""
    return completion_event(task, Outcome.ERROR, {"code": code, "message": message}, now)
