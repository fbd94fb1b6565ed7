"""What can be asked of tasks: submit them, look at them, cancel them, try them again."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from assent.audit.write import AuditEntry, write_entries
from assent.jobs.dead_letters import revive, revive_all
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Refused, Rejection
from assent.model.names import require_name
from assent.model.origin import Origin
from assent.model.problems import Invalid
from assent.model.task import PRIORITY_MAX
from assent.store.commit import CommitProof
from assent.store.database import Connection, Database
from assent.tasks.settle import cancel_if_open
from assent.tasks.submit import Submission, submit_tasks
from assent.tasks.task_type import TaskType
from assent.tasks.views import TaskFilter, TaskItem, TaskView, list_tasks, read_task
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
    partition_id: str | None = None


@dataclass
class TaskCommands:
    database: Database
    tasks: Mapping[str, TaskType] = field(init=False)
    origin: Origin = field(default=Origin(), init=False)

    async def submit(  # noqa: PLR0913
        self,
        org_id: str,
        type: str,
        input: Any = None,
        *,
        key: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        actor: Actor | None = None,
    ) -> UUID:
        """Submit a task; answers with its id, under a key that was used before with that of then.

        Raises `Refused` for an input that will not do, with every problem of it, and where a key was used for another
        one. Where somebody submits it, the audit log says who.
        """
        new = NewTask(type, input, key=key, priority=priority, run_at=run_at)
        (task_id,) = await self.submit_many(org_id, [new], actor=actor)
        return task_id

    async def submit_many(
        self, org_id: str, tasks: Sequence[NewTask], *, actor: Actor | None = None
    ) -> list[UUID]:
        """Submit tasks, all or none, in as many statements as one takes."""
        trace = current_trace()
        submissions = [self._submission(org_id, task, actor or SYSTEM, trace) for task in tasks]
        proof = CommitProof()

        async def work(connection: Connection) -> list[UUID]:
            ids = await submit_tasks(connection, submissions, self.database.clock.now())
            if actor is not None:
                notes = [self._note_of_task(org_id, "submit", str(task_id), actor) for task_id in ids]
                audit_ids = await write_entries(connection, notes, self.database.clock.now())
                proof.audit_id = next(iter(audit_ids), None)
            return ids

        return await self.database.run(work, org_id=org_id, plans="kept", proof=proof)

    async def read_task(self, org_id: str, task_id: UUID, partition_id: str | None = None) -> TaskView:
        """A task with its input, its output and its attempts."""
        async with self.database.transaction(org_id, plans="kept", read_only=True) as connection:
            found = await read_task(connection, org_id, task_id, partition_id)
        if found is None:
            raise Refused(_not_found(task_id))
        return found

    async def list_tasks(
        self,
        org_id: str,
        wanted: TaskFilter | None = None,
        *,
        after: UUID | None = None,
        limit: int = 100,
    ) -> list[TaskItem]:
        """Tasks of an org, newest first; from one on, where that is given."""
        async with self.database.transaction(org_id, read_only=True) as connection:
            return await list_tasks(connection, org_id, wanted or TaskFilter(), after, limit)

    async def cancel_task(self, org_id: str, task_id: UUID, actor: Actor = SYSTEM) -> None:
        """Cancel a task that has not ended. One that runs is broken off where it can be, and comes to nothing."""
        proof = CommitProof()

        async def work(connection: Connection) -> None:
            now = self.database.clock.now()
            if not await cancel_if_open(connection, org_id, task_id, f"cancelled by {actor.id}"):
                raise Refused(await self._why_not(connection, org_id, task_id))
            note = self._note_of_task(org_id, "cancel", str(task_id), actor)
            (proof.audit_id,) = await write_entries(connection, [note], now)

        await self.database.run(work, org_id=org_id, proof=proof)

    async def retry_task(self, org_id: str, task_id: UUID, actor: Actor = SYSTEM) -> None:
        """Open a dead task again, with as many attempts as it had."""
        proof = CommitProof()

        async def work(connection: Connection) -> None:
            if await revive(connection, org_id, task_id, "task") is None:
                raise Refused(Rejection("NOT_FOUND", f"no dead task {task_id}", ("task_id",)))
            now = self.database.clock.now()
            note = self._note_of_task(org_id, "retry", str(task_id), actor)
            (proof.audit_id,) = await write_entries(connection, [note], now)

        await self.database.run(work, org_id=org_id, proof=proof)

    async def retry_tasks(self, org_id: str, type: str | None = None, actor: Actor = SYSTEM) -> int:
        """Open every dead task of an org again, or of one type; answers how many there were.

        Those that were awaited stay: their steps are what is tried again.
        """
        proof = CommitProof()

        async def work(connection: Connection) -> int:
            now = self.database.clock.now()
            revived = await revive_all(connection, org_id, "task", type)
            if revived:
                note = self._note_of_task(org_id, "retry", type or "*", actor, tasks=revived)
                (proof.audit_id,) = await write_entries(connection, [note], now)
            return revived

        return await self.database.run(work, org_id=org_id, proof=proof)

    async def _why_not(self, connection: Connection, org_id: str, task_id: UUID) -> Rejection:
        found = await read_task(connection, org_id, task_id)
        if found is None:
            return _not_found(task_id)
        return Rejection("TASK_HAS_ENDED", f"task {task_id} is {found.status}", ("task_id",))

    def _note_of_task(self, org_id: str, verb: str, which: str, actor: Actor, **details: int) -> AuditEntry:
        """A task by its id, all of a type by its name, or all there are."""
        trace = current_trace()
        return AuditEntry(org_id, actor, f"task.{verb}", "task", which, self.origin, details, trace=trace)

    def _submission(self, org_id: str, task: NewTask, actor: Actor, trace: str | None) -> Submission:
        require_name(org_id, "org_id")
        if task.key is not None:
            require_name(task.key, "key")
        if task.partition_id is not None:
            require_name(task.partition_id, "partition_id")
        kind = self.tasks.get(task.type)
        if kind is None:
            raise Refused(Rejection("UNKNOWN_TASK", f"no task `{task.type}` is registered", ("type",)))
        try:
            checked = kind.check(task.input)
        except Invalid as invalid:
            raise Refused(Rejection.of(invalid.problems)) from None
        return Submission(
            org_id=org_id,
            type=task.type,
            input=checked,
            key=task.key,
            priority=kind.priority if task.priority is None else _in_range(task.priority),
            run_at=task.run_at,
            attempts_max=kind.attempts_max,
            submitted_by=actor.id,
            partition_id=task.partition_id,
            trace_id=trace,
        )


def _not_found(task_id: UUID) -> Rejection:
    return Rejection("NOT_FOUND", f"no task {task_id}", ("task_id",))


def _in_range(priority: int) -> int:
    if not 0 <= priority <= PRIORITY_MAX:
        message = f"a priority from 0 to {PRIORITY_MAX} was expected, found {priority}"
        raise Refused(Rejection("OUT_OF_RANGE", message, ("priority",)))
    return priority
