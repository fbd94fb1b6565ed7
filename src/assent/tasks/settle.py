"""The end of tasks: settled or cancelled, together with the event for the step that waits."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.jobs import queue
from assent.jobs.job import AttemptResult, Failed, Succeeded
from assent.model.graph import Outcome
from assent.model.mutation import Event
from assent.outbox.events import completion_event, emit_events
from assent.store.connection import put
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.errors import CANCELLED
from assent.tasks.outcomes import BlockedBySubtasks
from assent.tasks.submit import submit_tasks

_SQL: Final = load_queries("assent.tasks", "tasks.sql")

StepOf = tuple[str, UUID, UUID]
"""An org, an instance, and one of its steps."""

TaskKey = tuple[str, UUID]
"""An org, and a task of it."""

TaskResult = AttemptResult[ClaimedTask]


async def settle_if_claimed(
    connection: Connection, worker_id: UUID, results: Sequence[TaskResult]
) -> tuple[list[TaskResult], datetime | None]:
    """Write the outcomes of attempts, submit the subtasks that they made, and notify the steps that wait.

    Return those of tasks that still were this worker's, and the time, if there was one. Tasks that wait for those which
    have ended are resumed afterwards, by `resume_parents`.
    """
    settled, now = await queue.settle_if_claimed(connection, worker_id, results)
    blocked = [result.outcome for result in settled if isinstance(result.outcome, BlockedBySubtasks)]
    if subtasks := [subtask for outcome in blocked for subtask in outcome.subtasks]:
        assert now is not None
        await submit_tasks(connection, subtasks, now)
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


def parents_to_resume(results: Iterable[TaskResult]) -> set[TaskKey]:
    """Return the tasks that may go on, now that these results are written.

    One that waits once more is among them: its subtasks may have ended before it was blocked.
    """
    ended = {(one.claimed.org_id, one.claimed.parent_id) for one in results if one.has_ended}
    waiting = {(one.claimed.org_id, one.claimed.id) for one in results if one.status == "blocked"}
    return {(org_id, task_id) for org_id, task_id in ended | waiting if task_id is not None}


async def resume_parents(connection: Connection, parents: Collection[TaskKey]) -> int:
    """Return those of these tasks to the queue whose subtasks have all ended; return how many.

    Call it in a transaction that begins after the end of the subtasks was committed.
    """
    if not parents:
        return 0
    resumed: int = await connection.fetchval(
        _SQL.resume_parents, *map(list, zip(*sorted(parents), strict=True))
    )
    return resumed


async def resume_any_parents(connection: Connection, limit: int) -> int:
    """Return so many blocked tasks to the queue whose subtasks have all ended; return how many."""
    resumed: int = await connection.fetchval(_SQL.resume_any_parents, limit)
    return resumed


async def expire_background(connection: Connection, limit: int) -> list[Row]:
    """End the time of so many tasks that were in the background for too long; return them as they are then."""
    expired: list[Row] = [dict(row) for row in await connection.fetch(_SQL.expire_background_tasks, limit)]
    await notify_dead(connection, expired)
    return expired


async def complete_if_under_way(
    connection: Connection, task_id: UUID, output: Any, people: Sequence[str]
) -> bool:
    """Complete a task of the transaction's org with the work of these; return False if it is not under way."""
    return await connection.fetchval(_SQL.complete_task, task_id, output, people) is not None


async def fail_if_under_way(connection: Connection, task_id: UUID, failure: Failed) -> bool:
    """Fail a task of the transaction's org from outside; return False if it is not under way."""
    said = failure.message, failure.code, not failure.permanent
    return await connection.fetchval(_SQL.fail_task, task_id, *said) is not None


async def cancel_if_open(connection: Connection, org_id: str, task_id: UUID, why: str) -> bool:
    """Cancel a task with its subtasks, and notify what waits for it; return False if it has ended or does not exist."""
    row = await connection.fetchrow(_SQL.cancel_task_if_open, org_id, task_id)
    if row is not None and row["awaited"]:
        await emit_events(connection, [failure_event(row, CANCELLED, why, row["now"])], row["now"])
    if row is not None and row["parent_id"] is not None:
        await resume_parents(connection, [(org_id, row["parent_id"])])
    return row is not None


async def cancel_of_steps(connection: Connection, steps: Sequence[StepOf]) -> None:
    """Cancel tasks that these steps await no more; the steps have ended, and are not notified."""
    if steps:
        await put(connection, _SQL.cancel_tasks_of_steps, *map(list, zip(*steps, strict=True)))


def _completion(result: TaskResult, now: datetime) -> Event:
    task, outcome = result.claimed, result.outcome
    origin = {name: getattr(task, name) for name in ("org_id", "id", "instance_id", "step_id", "trace_id")}
    if isinstance(outcome, Succeeded):
        return completion_event(origin, Outcome.COMPLETED, outcome.result, now, task.people)
    return failure_event(origin, outcome.code, result.error or outcome.message, now)


def failure_event(task: Row, code: str, message: str, now: datetime) -> Event:
    """Return the event by which the step of a task goes on by its error edge."""
    return completion_event(task, Outcome.ERROR, {"code": code, "message": message}, now)
