"""Submitting tasks: many in one statement, inside the caller's transaction, each key once for good."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg

from assent.jobs.throttles import keep_throttles
from assent.model.actor import SYSTEM
from assent.model.ids import new_id
from assent.model.job import PRIORITY, TASK_ATTEMPTS_MAX, Throttle
from assent.model.mutation import Refused, Rejection
from assent.store.connection import put
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.tasks", "tasks.sql")

KEY_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A task to be; its input was checked by its type."""

    org_id: str
    type: str
    input: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    """Stands for this task of its type and partition for good: submitted again, it is the same task."""
    priority: int = PRIORITY
    run_at: datetime | None = None
    """Not before."""
    delay: timedelta | None = None
    """How long after its submission it is to run, by the database's clock."""
    throttle: Throttle | None = None
    attempts_max: int = TASK_ATTEMPTS_MAX
    submitted_by: str = SYSTEM.id
    people: Sequence[str] = ()
    """Those whose work it hands on: none of them approves what follows from it."""
    partition_id: str | None = None
    instance_id: UUID | None = None
    step_id: UUID | None = None
    awaited: bool = False
    trace_id: str | None = None
    id: UUID | None = None
    """Given beforehand to a subtask, which its parent names before it is submitted."""
    parent_id: UUID | None = None
    parent_attempt: int | None = None
    depth: int = 0
    is_callback: bool = False
    """Whether it is blocked from the beginning, and runs when the tasks of its batch have ended."""


async def submit_tasks(
    connection: Connection, submissions: Sequence[Submission], now: datetime
) -> list[UUID]:
    """Submit tasks and return their ids; for a key that was used before, return the id of the earlier task.

    Raise `Refused` if a key was used for another input; then nothing is submitted.
    """
    rows = [_row(submission, now) for submission in submissions]
    known = await _known(connection, [row for row in rows if row["key"] is not None])
    fresh = [row for row in rows if row["id"] not in known]
    if fresh:
        await keep_throttles(connection, [(one.org_id, one.throttle) for one in submissions if one.throttle])
        await put(connection, _SQL.submit_tasks, fresh)
    return [known.get(row["id"], row["id"]) for row in rows]


async def submit_batch(
    connection: Connection, callback: Submission, members: Sequence[Submission], now: datetime
) -> UUID:
    """Submit the tasks of a batch, and the one that runs when they have ended; return its id.

    It is as if its first attempt had made the others, and were blocked by them: what holds for subtasks holds for them.
    Where its key was used before, nothing is submitted.
    """
    (task_id,) = await submit_tasks(connection, [callback], now)
    if task_id == callback.id:
        await submit_tasks(connection, members, now)
    return task_id


async def _known(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> dict[UUID, UUID]:
    """For the rows whose keys are taken: the task that each stands for."""
    if not rows:
        return {}
    named = ("org_id", "type", "partition_id", "key", "id", "input")
    keyed = [{name: row[name] for name in named} for row in rows]
    ours = {row["task_id"] for row in await connection.fetch(_SQL.take_keys, keyed)}
    taken = [row for row in keyed if row["id"] not in ours]
    found = {row["id"]: row for row in await connection.fetch(_SQL.find_keys, taken)} if taken else {}
    for row in taken:
        _require_same(row, found.get(row["id"]))
    return {row["id"]: found[row["id"]]["task_id"] for row in taken}


def _require_same(row: Mapping[str, Any], found: Any) -> None:
    if found is None:
        # A transaction that sees the past cannot see which caller was faster; a second run can.
        raise asyncpg.SerializationError(
            f"key {row['key']!r} was taken by another transaction at this moment"
        )
    if not found["same"]:
        message = (
            f"key `{row['key']}` of {row['type']} was used for another input, by task {found['task_id']}"
        )
        raise Refused(
            Rejection("IDEMPOTENCY_KEY_REUSED", message, ("key",), hint="a new task needs a new key")
        )


def _row(submission: Submission, now: datetime) -> dict[str, Any]:
    _require_short(submission.key)
    return {
        "org_id": submission.org_id,
        "id": submission.id or new_id(now),
        "type": submission.type,
        "input": submission.input,
        "key": submission.key,
        "priority": submission.priority,
        "run_at": submission.run_at,
        "attempts_max": submission.attempts_max,
        "submitted_by": submission.submitted_by,
        "people": list(submission.people),
        "partition_id": submission.partition_id,
        "instance_id": submission.instance_id,
        "step_id": submission.step_id,
        "awaited": submission.awaited,
        "trace_id": submission.trace_id,
        "parent_id": submission.parent_id,
        "parent_attempt": submission.parent_attempt,
        "depth": submission.depth,
        "throttle": submission.throttle.id if submission.throttle is not None else None,
        "is_callback": submission.is_callback,
        "delay_s": submission.delay.total_seconds() if submission.delay is not None else None,
    }


def _require_short(key: str | None) -> None:
    if key is not None and not 0 < len(key) <= KEY_CHARACTERS_MAX:
        message = f"a key of 1 to {KEY_CHARACTERS_MAX} characters was expected, found {len(key)}"
        raise Refused(Rejection("OUT_OF_RANGE", message, ("key",)))
