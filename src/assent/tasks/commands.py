"""What people and steps do about tasks: cancel them, and try dead ones again."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from assent.outbox.emit import emit_events
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.tasks.outcome import CANCELLED
from assent.tasks.settle import failure_event

_SQL: Final = load_queries("assent.tasks", "tasks.sql")

StepOf = tuple[str, UUID, UUID]
"""An org, an instance, and one of its steps."""


async def cancel_if_open(connection: Connection, org_id: str, task_id: UUID, why: str) -> bool:
    """Cancel a task, and tell the step that waits for it; false where it has ended, or is not there."""
    (row,) = await connection.fetch(_SQL.cancel_task_if_open, org_id, task_id) or (None,)
    if row is not None and row["awaited"]:
        event = failure_event(dict(row), CANCELLED, why, row["now"])
        await emit_events(connection, [event], row["now"])
    return row is not None


async def cancel_of_steps(connection: Connection, steps: Sequence[StepOf]) -> None:
    """Cancel what these steps await no more; they have ended, and hear nothing of it."""
    if steps:
        await connection.execute(_SQL.cancel_tasks_of_steps, *map(list, zip(*steps, strict=True)))


async def was_awaited(connection: Connection, org_id: str, task_id: UUID) -> bool | None:
    """Whether a dead task was awaited; none when there is no such dead task."""
    awaited: bool | None = await connection.fetchval(_SQL.find_dead_task, org_id, task_id)
    return awaited


async def revive(
    connection: Connection, org_id: str, task_id: UUID | None = None, type: str | None = None
) -> int:
    """Open dead tasks again; answers how many there were."""
    revived: int = await connection.fetchval(_SQL.revive_tasks, org_id, task_id, type)
    return revived
