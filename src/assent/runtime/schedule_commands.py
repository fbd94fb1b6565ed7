"""Commands to schedules: made, changed, paused and run by administrators, listed with their next times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.model.actor import people_of
from assent.model.cursor import ITEMS_DEFAULT, ItemPage, position_of, require_limit, text_in
from assent.model.mutation import Refused, Rejection
from assent.model.nodes.calls import SUBMIT_TASKS
from assent.model.problems import Invalid
from assent.runtime.administration_commands import write_as_actor
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.rights import require_capability
from assent.schedules.schedules import (
    MANAGE_SCHEDULES,
    READ_SCHEDULES,
    SavedSchedule,
    ScheduleSpec,
    check_input,
    delete_schedule,
    input_at,
    list_schedules,
    lock_schedule,
    next_times,
    parse_schedule,
    pause_schedule,
    read_schedule,
    resume_schedule,
    save_schedule,
)
from assent.store.clock import transaction_time
from assent.store.database import Connection
from assent.tasks.submit import Submission, submit_tasks
from assent.tasks.task_type import TaskType
from assent.telemetry import current_trace

NEXT_DEFAULT: Final = 5
NEXT_MAX: Final = 100
"""How many next times one call returns."""


@dataclass(frozen=True, slots=True)
class ScheduleCommands:
    """The schedules of an org. Reading takes `schedules:read`, the others `schedules:manage`."""

    scope: OrgScope

    async def list(self, *, cursor: str | None = None, limit: int = ITEMS_DEFAULT) -> ItemPage[SavedSchedule]:
        """Return a page of the schedules by name, also those that are paused."""
        scope = self.scope
        after = position_of(cursor, text_in)
        require_limit(limit)
        require_capability(scope.actor_or_system, READ_SCHEDULES)

        async def query(connection: Connection) -> ItemPage[SavedSchedule]:
            found = await list_schedules(connection, scope.org_id, scope.partition_id, after, limit + 1)
            return ItemPage.of(found, limit, lambda schedule: schedule.name)

        return await scope.read(query)

    async def get(self, name: str) -> SavedSchedule:
        """Return a schedule; raise `Refused` if there is none."""
        scope = self.scope
        require_capability(scope.actor_or_system, READ_SCHEDULES)
        return await scope.read(
            lambda connection: read_schedule(connection, scope.org_id, name, scope.partition_id)
        )

    async def next(self, name: str, *, count: int = NEXT_DEFAULT) -> Sequence[datetime]:
        """Return the next times of a schedule, also of one that is paused; raise `Refused` if there is none."""
        scope = self.scope
        require_capability(scope.actor_or_system, READ_SCHEDULES)
        if not 1 <= count <= NEXT_MAX:
            message = f"1 to {NEXT_MAX} expected, found {count}"
            raise Refused(Rejection("OUT_OF_RANGE", message, ("count",)))

        async def query(connection: Connection) -> Sequence[datetime]:
            schedule = await read_schedule(connection, scope.org_id, name, scope.partition_id)
            return next_times(schedule, await transaction_time(connection), count)

        return await scope.read(query)

    async def save(self, name: str, schedule: Mapping[str, Any]) -> SavedSchedule:
        """Make a schedule of `task`, `cron`, `zone`, `missed` and `input`, or change the one of this name.

        It takes the right to submit the task too. Raise `Invalid` with every problem, or `Refused` for a schedule that
        an application declares.
        """
        scope, actor = self.scope, self.scope.actor_or_system
        require_capability(actor, MANAGE_SCHEDULES)
        spec = parse_schedule(schedule)
        self._check(spec)

        async def work(connection: Connection) -> SavedSchedule:
            return await save_schedule(connection, scope.org_id, name, spec, scope.partition_id, actor)

        return await write_as_actor(scope, work)

    async def pause(self, name: str) -> SavedSchedule:
        """Pause a schedule: from now on its times start no task."""
        self._require()
        scope = self.scope
        return await write_as_actor(
            scope, lambda connection: pause_schedule(connection, scope.org_id, name, scope.partition_id)
        )

    async def resume(self, name: str) -> SavedSchedule:
        """Let a paused schedule go on from its next time; those that came meanwhile start no task.

        It takes the right to submit the task too.
        """
        self._require()
        scope = self.scope

        async def work(connection: Connection) -> SavedSchedule:
            schedule = await resume_schedule(connection, scope.org_id, name, scope.partition_id)
            self._require_submission(schedule.task_type)
            return schedule

        return await write_as_actor(scope, work)

    async def delete(self, name: str) -> SavedSchedule:
        """Delete a schedule and return it; its tasks stay. Raise `Refused` for one that a worker's code declares."""
        self._require()
        scope = self.scope
        return await write_as_actor(
            scope, lambda connection: delete_schedule(connection, scope.org_id, name, scope.partition_id)
        )

    async def run(self, name: str) -> UUID:
        """Start the task of a schedule at once, beside its times, and return the task's id; also of a paused one.

        It takes the right to submit the task too.
        """
        self._require()
        scope, actor = self.scope, self.scope.actor_or_system

        async def work(transaction: CommandTransaction) -> UUID:
            connection = transaction.connection
            schedule = await lock_schedule(connection, scope.org_id, name, scope.partition_id)
            kind, now = self._task(schedule.task_type), await transaction_time(connection)
            given = input_at(kind, schedule.input, now)
            submission = Submission(
                org_id=scope.org_id,
                type=kind.name,
                input=given,
                throttle=kind.throttle(given),
                priority=kind.priority,
                attempts_max=kind.attempts_max,
                submitted_by=actor.id,
                people=tuple(dict.fromkeys((*schedule.people, *people_of(actor)))),
                partition_id=schedule.partition_id,
                trace_id=current_trace(),
            )
            (task_id,) = await submit_tasks(connection, [submission], now)
            await transaction.note("task", "task.submit", str(task_id), details={"schedule": name})
            return task_id

        return await scope.write(work)

    def _check(self, spec: ScheduleSpec) -> None:
        try:
            check_input(self._task(spec.task), spec.input)
        except Invalid as invalid:
            raise Refused(Rejection.of(invalid.problems)) from None

    def _task(self, task_type: str) -> TaskType:
        """Return the type of a task that the actor may submit."""
        core = self.scope.core
        if (kind := core.task_types.get(task_type)) is None:
            raise Refused(Rejection("UNKNOWN_TASK", f"no task `{task_type}` is registered", ("task",)))
        self._require_submission(task_type)
        return kind

    def _require_submission(self, task_type: str) -> None:
        needed = self.scope.core.capabilities.get(f"task:{task_type}", SUBMIT_TASKS)
        require_capability(self.scope.actor_or_system, needed)

    def _require(self) -> None:
        require_capability(self.scope.actor_or_system, MANAGE_SCHEDULES)
