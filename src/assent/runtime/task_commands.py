"""What can be asked of tasks: submit them, cancel them, try them again."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Refused, Rejection
from assent.model.problems import Invalid, Problem
from assent.model.task import PRIORITY_MAX
from assent.store.database import Connection, Database
from assent.tasks.change import cancel_if_open, revive, was_awaited
from assent.tasks.declared import TaskType
from assent.tasks.submit import Submission, submit_tasks
from assent.telemetry import current_trace


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task as it is asked for."""

    type: str
    input: Any = None
    """An object: a mapping, a pydantic model or a dataclass."""
    _: KW_ONLY
    key: str | None = None
    """Stands for this task of its type for good: submitted again, it is the same task, and runs once."""
    priority: int | None = None
    """From 0 to 255, the higher the sooner; without it, as its type says."""
    run_at: datetime | None = None
    """Not before."""


@dataclass
class TaskCommands:
    database: Database
    tasks: Mapping[str, TaskType] = field(init=False)

    async def submit(  # noqa: PLR0913
        self,
        org_id: str,
        type: str,
        input: Any = None,
        *,
        key: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        actor: Actor = SYSTEM,
    ) -> UUID:
        """Submit a task; answers with its id, under a key that was used before with that of then.

        Raises `Invalid` with every problem of the input, and `Refused` where a key was used for another one.
        """
        new = NewTask(type, input, key=key, priority=priority, run_at=run_at)
        (task_id,) = await self.submit_many(org_id, [new], actor=actor)
        return task_id

    async def submit_many(
        self, org_id: str, tasks: Sequence[NewTask], *, actor: Actor = SYSTEM
    ) -> list[UUID]:
        """Submit tasks, all or none, in as many statements as one takes."""
        trace = current_trace()
        submissions = [self._submission(org_id, task, actor, trace) for task in tasks]

        async def work(connection: Connection) -> list[UUID]:
            return await submit_tasks(connection, submissions, self.database.clock.now())

        return await self.database.run(work, org_id=org_id, plans="kept")

    async def cancel_task(self, org_id: str, task_id: UUID, actor: Actor = SYSTEM) -> None:
        """Cancel a task that has not ended. One that runs is broken off where it can be, and comes to nothing."""

        async def work(connection: Connection) -> None:
            why = f"cancelled by {actor.id}"
            if not await cancel_if_open(connection, org_id, task_id, why, self.database.clock.now()):
                message = f"there is no task {task_id} that has not ended"
                raise Refused(Rejection("TASK_HAS_ENDED", message, ("task_id",)))

        await self.database.run(work, org_id=org_id)

    async def retry_task(self, org_id: str, task_id: UUID) -> None:
        """Open a dead task again, with as many attempts as it had."""

        async def work(connection: Connection) -> None:
            awaited = await was_awaited(connection, org_id, task_id)
            if awaited is None:
                raise Refused(Rejection("NOT_FOUND", f"no dead task {task_id}", ("task_id",)))
            if awaited:
                message = f"nobody waits for task {task_id} any more: its step has failed"
                raise Refused(Rejection("TASK_WAS_AWAITED", message, ("task_id",), hint="retry the step"))
            await revive(connection, org_id, self.database.clock.now(), task_id)

        await self.database.run(work, org_id=org_id)

    async def retry_tasks(self, org_id: str, type: str | None = None) -> int:
        """Open every dead task of an org again, or of one type; answers how many there were.

        Those that were awaited stay: their steps are what is tried again.
        """

        async def work(connection: Connection) -> int:
            return await revive(connection, org_id, self.database.clock.now(), type=type)

        return await self.database.run(work, org_id=org_id)

    def _submission(self, org_id: str, task: NewTask, actor: Actor, trace: str | None) -> Submission:
        kind = self.tasks.get(task.type)
        if kind is None:
            raise Refused(Rejection("UNKNOWN_TASK", f"no task `{task.type}` is registered", ("type",)))
        return Submission(
            org_id=org_id,
            type=task.type,
            input=kind.check(task.input),
            key=task.key,
            priority=kind.priority if task.priority is None else _in_range(task.priority),
            run_at=task.run_at,
            attempts_max=kind.attempts_max,
            submitted_by=actor.id,
            trace_id=trace,
        )


def _in_range(priority: int) -> int:
    if not 0 <= priority <= PRIORITY_MAX:
        message = f"a priority from 0 to {PRIORITY_MAX} was expected, found {priority}"
        raise Invalid([Problem("OUT_OF_RANGE", message, ("priority",))])
    return priority
