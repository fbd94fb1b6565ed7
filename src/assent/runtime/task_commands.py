"""Commands to tasks, and the handle that `@app.task` returns."""

import builtins
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, overload
from uuid import UUID

from pydantic import TypeAdapter, ValidationError, with_config

from assent.jobs.dead_letters import revive, revive_all
from assent.jobs.job import Failed
from assent.model.actor import people_of
from assent.model.cursor import ITEMS_DEFAULT, ItemPage, id_in, line_in, position_of, require_limit
from assent.model.job import PRIORITY_MAX, RateLimit, Throttle, require_rate_limit
from assent.model.mutation import Refused, Rejection
from assent.model.names import require_name
from assent.model.parse import problems_of
from assent.model.problems import Invalid, Problem, clean_error_text, did_you_mean
from assent.model.timing import require_duration
from assent.runtime.blocking import SyncSubmittedTask
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.readers import SeenInstance, may_read_instance, reader_of
from assent.runtime.rights import require_capability
from assent.runtime.submitted_task import SubmittedTask
from assent.runtime.views import find_instance
from assent.store.database import Connection
from assent.tasks.context import SUBTASKS_MAX
from assent.tasks.errors import FAILED
from assent.tasks.notes import LogLine, list_log
from assent.tasks.settle import cancel_if_open, complete_if_under_way, fail_if_under_way
from assent.tasks.submit import Submission, submit_batch, submit_tasks
from assent.tasks.task_type import TaskType, as_kept
from assent.tasks.views import (
    TaskFilter,
    TaskItem,
    TaskStatus,
    TaskTree,
    TaskView,
    list_tasks,
    read_task,
    read_tree,
)
from assent.telemetry import current_trace

if TYPE_CHECKING:
    from assent.runtime.runtime import OrgRuntime
    from assent.runtime.sync_runtime import SyncOrgRuntime

READ_TASKS: Final = "tasks:read"
"""The capability to read tasks."""
CANCEL_TASKS: Final = "tasks:cancel"
RETRY_TASKS: Final = "tasks:retry"
END_TASKS: Final = "tasks:complete"
"""The capability to complete and fail tasks from outside."""

P = ParamSpec("P")
R = TypeVar("R")


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to submit."""

    type: str
    input: Any = None
    """An object: a mapping, a pydantic model or a dataclass."""
    _: KW_ONLY
    key: str | None = None
    """Stands for one task of its type for good: submitted again under the key, it is the same task, and runs once."""
    priority: int | None = None
    """From 0 to 255, the higher the sooner; without it, as its type says."""
    run_at: datetime | None = None
    """Not before."""
    delay: str | timedelta | None = None
    """Not before so long after its submission: `15m`."""
    resources: Sequence[str] = ()
    """What it uses, besides what its type says."""
    rate_limit: RateLimit | None = None
    """How many tasks of its key may start in a period, where its type does not say."""
    partition_id: str | None = None


class TaskHandle(Generic[P, R]):
    """A task that an application declares: call it as the function that it is, or submit it to the workers.

    await archive.submit(runtime.org("acme", ann), number=7)
    """

    __name__: str

    def __init__(self, name: str, function: Callable[P, R], kind: TaskType | None = None) -> None:
        self.name = name
        self.function = function
        self.kind = kind
        # A class's own attributes stay with the class: they would hide those of the handle.
        update_wrapper(self, function, updated=() if isinstance(function, builtins.type) else ("__dict__",))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def configure(  # noqa: PLR0913
        self,
        *,
        key: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        delay: str | timedelta | None = None,
        resources: Sequence[str] = (),
        rate_limit: RateLimit | None = None,
    ) -> "ConfiguredTask":
        """Return the task with options for its next submissions, as `NewTask` has them."""
        options = {"key": key, "priority": priority, "run_at": run_at, "delay": delay}
        return ConfiguredTask(self.name, {**options, "resources": resources, "rate_limit": rate_limit})

    @overload
    def submit(self, org: "OrgRuntime", /, **input: Any) -> Awaitable[SubmittedTask]: ...
    @overload
    def submit(self, org: "SyncOrgRuntime", /, **input: Any) -> SyncSubmittedTask: ...
    def submit(
        self, org: "OrgRuntime | SyncOrgRuntime", /, **input: Any
    ) -> Awaitable[SubmittedTask] | SyncSubmittedTask:
        """Submit the task for an org; inside `runtime.within`, in the caller's transaction."""
        return self.configure().submit(org, **input)


@dataclass(frozen=True, slots=True)
class ConfiguredTask:
    """A task with the options of its submission."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @overload
    def submit(self, org: "OrgRuntime", /, **input: Any) -> Awaitable[SubmittedTask]: ...
    @overload
    def submit(self, org: "SyncOrgRuntime", /, **input: Any) -> SyncSubmittedTask: ...
    def submit(
        self, org: "OrgRuntime | SyncOrgRuntime", /, **input: Any
    ) -> Awaitable[SubmittedTask] | SyncSubmittedTask:
        """Submit the task for an org."""
        return org.tasks.submit(self.name, input, **self.options)


@dataclass(frozen=True, slots=True)
class TaskCommands:
    """Commands to the tasks of an org."""

    scope: OrgScope

    async def submit(  # noqa: PLR0913
        self,
        type: "str | TaskHandle[..., Any]",
        input: Any = None,
        *,
        key: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        delay: str | timedelta | None = None,
        resources: Sequence[str] = (),
        rate_limit: RateLimit | None = None,
    ) -> SubmittedTask:
        """Submit a task by its type, a name or a handle. A key that was used before returns that task.

        Raise `Refused` for an input that does not fit, with every problem of it, and where a key was used for another
        task. With an actor, the audit log names the actor.
        """
        name = type if isinstance(type, str) else type.name
        new = NewTask(
            name,
            input,
            key=key,
            priority=priority,
            run_at=run_at,
            delay=delay,
            resources=resources,
            rate_limit=rate_limit,
        )
        (task,) = await self.submit_many([new])
        return task

    async def submit_many(self, tasks: Sequence[NewTask]) -> builtins.list[SubmittedTask]:
        """Submit tasks, all or none, in as many statements as one takes."""
        scope, trace = self.scope, current_trace()
        submissions = [self._submission(task, trace) for task in tasks]

        async def work(transaction: CommandTransaction) -> builtins.list[UUID]:
            now = scope.database.clock.now()
            ids = await submit_tasks(transaction.connection, submissions, now)
            if scope.actor is not None:
                await transaction.note("task", "task.submit", *map(str, ids))
            return ids

        return [self._submitted(task_id) for task_id in await scope.write(work, plans="kept")]

    async def submit_batch(self, tasks: Sequence[NewTask], then: NewTask) -> SubmittedTask:
        """Submit tasks, and one that runs once all of them have ended, done or not; return that one.

        It finds them in `task.subtasks`, with what failed. Its `key` stands for the whole batch. Cancelling it cancels
        those that have not ended.
        """
        scope, trace = self.scope, current_trace()
        _require_batch(tasks, then)
        callback = replace(self._submission(then, trace), id=scope.new_id(), is_callback=True)
        members = [
            replace(self._submission(task, trace), parent_id=callback.id, parent_attempt=1, depth=1)
            for task in tasks
        ]

        async def work(transaction: CommandTransaction) -> UUID:
            task_id = await submit_batch(
                transaction.connection, callback, members, scope.database.clock.now()
            )
            if scope.actor is not None:
                await transaction.note("task", "task.submit", str(task_id), details={"tasks": len(members)})
            return task_id

        return self._submitted(await scope.write(work, plans="kept"))

    async def tree(self, task_id: UUID) -> TaskTree:
        """Return a task with all that is below it, the first 1,000 of them, for those who may read it."""
        root = await self.get(task_id)

        async def query(connection: Connection) -> TaskTree:
            return await read_tree(connection, self.scope.org_id, root.id)

        return await self.scope.read(query)

    async def handle(self, task_id: UUID) -> SubmittedTask:
        """Return a task that was submitted before, by any process, to await its result.

        Raise `Refused` if it is not there, or not for the actor.
        """
        return self._submitted((await self.get(task_id)).id)

    def _submitted(self, task_id: UUID) -> SubmittedTask:
        scope = self.scope
        # In the caller's transaction, the handle is for the time after its commit.
        if scope.database.is_joined:
            scope = replace(scope, core=scope.core.on(scope.core.ends.database), acting_instance=None)
        return SubmittedTask(task_id, TaskCommands(scope), scope.core.ends)

    async def get(self, task_id: UUID) -> TaskView:
        """Return a task with its input, its output and its attempts.

        Raise `Refused` unless the actor holds `tasks:read` and may read the instance whose step submitted it. Without
        an actor, the system reads.
        """
        scope, actor = self.scope, self.scope.actor_or_system

        async def query(connection: Connection) -> TaskView:
            task = await read_task(connection, scope.org_id, task_id, scope.partition_id)
            if task is None:
                raise Refused(_not_found(task_id))
            require_capability(actor, READ_TASKS)
            if task.instance_id is not None:
                row = await find_instance(connection, scope.org_id, task.instance_id)
                if row is None and actor.kind != "system":
                    raise Refused(_not_found(task_id))  # deleted, and with it who could read it
                if row is not None:
                    await may_read_instance(scope.core, connection, SeenInstance.of(row), actor)
            return task

        return await scope.read(query)

    async def log(
        self, task_id: UUID, *, cursor: str | None = None, limit: int = ITEMS_DEFAULT
    ) -> ItemPage[LogLine]:
        """Return a page of the lines that the attempts at a task wrote, in order; for those who may read the task."""
        after = position_of(cursor, line_in) or (0, 0)
        require_limit(limit)
        await self.get(task_id)

        async def query(connection: Connection) -> ItemPage[LogLine]:
            found = await list_log(connection, self.scope.org_id, task_id, after, limit + 1)
            return ItemPage.of(found, limit, lambda line: (line.attempt, line.position))

        return await self.scope.read(query)

    async def list(
        self,
        *,
        status: TaskStatus | None = None,
        type: str | None = None,
        instance_id: UUID | None = None,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[TaskItem]:
        """Return a page of tasks, newest first: those without an instance, and of instances that the actor may read.

        Raise `Refused` unless the actor holds `tasks:read`.
        """
        scope, actor = self.scope, self.scope.actor_or_system
        after = position_of(cursor, id_in)
        require_limit(limit)
        require_capability(actor, READ_TASKS)

        async def query(connection: Connection) -> ItemPage[TaskItem]:
            filters = TaskFilter(
                status=status,
                type=type,
                instance_id=instance_id,
                partition_id=scope.partition_id,
                reader=await reader_of(scope.core, connection, scope.org_id, actor),
            )
            found = await list_tasks(connection, scope.org_id, filters, after, limit + 1)
            return ItemPage.of(found, limit, lambda task: str(task.id))

        return await scope.read(query)

    async def cancel(self, task_id: UUID) -> None:
        """Cancel a task that has not ended. One that is running is interrupted if possible; its result is dropped.

        Takes the capability `tasks:cancel`.
        """
        scope = self.scope
        require_capability(scope.actor_or_system, CANCEL_TASKS)
        reason = f"cancelled by {scope.actor_or_system.id}"

        async def work(transaction: CommandTransaction) -> None:
            await self._require_visible(transaction.connection, task_id)
            if not await cancel_if_open(transaction.connection, scope.org_id, task_id, reason):
                raise Refused(await self._why_not(transaction.connection, task_id))
            await transaction.note("task", "task.cancel", str(task_id))

        await scope.write(work)

    async def complete(self, task_id: UUID, output: Any = None) -> None:
        """Complete a task from outside: one whose function returned `Background`, or is about to.

        Takes the capability `tasks:complete`. Raise `Refused` if it is not under way, or `Invalid` for an output that
        cannot be kept as JSON.
        """
        require_capability(self.scope.actor_or_system, END_TASKS)
        kept, people = as_kept(output, "output"), people_of(self.scope.actor_or_system)

        async def work(transaction: CommandTransaction) -> None:
            await self._require_visible(transaction.connection, task_id)
            if not await complete_if_under_way(transaction.connection, task_id, kept, people):
                raise Refused(await self._why_not_under_way(transaction.connection, task_id))
            await transaction.note("task", "task.complete", str(task_id))

        await self.scope.write(work)

    async def fail(self, task_id: UUID, message: str, *, code: str = FAILED, retryable: bool = False) -> None:
        """Fail a task from outside, which is tried again if that may help and attempts are left, else dead.

        Takes the capability `tasks:complete`. Raise `Refused` if it is not under way.
        """
        require_capability(self.scope.actor_or_system, END_TASKS)
        require_name(message, "message")
        require_name(code, "code")
        failure = Failed(code, clean_error_text(message), permanent=not retryable)

        async def work(transaction: CommandTransaction) -> None:
            await self._require_visible(transaction.connection, task_id)
            if not await fail_if_under_way(transaction.connection, task_id, failure):
                raise Refused(await self._why_not_under_way(transaction.connection, task_id))
            await transaction.note("task", "task.fail", str(task_id))

        await self.scope.write(work)

    async def retry(self, task_id: UUID) -> None:
        """Retry a dead task with its dead subtasks, each with as many attempts as it had.

        Takes the capability `tasks:retry`. Raise `Refused` for a subtask: its parent is retried instead.
        """
        scope = self.scope
        require_capability(scope.actor_or_system, RETRY_TASKS)

        async def work(transaction: CommandTransaction) -> None:
            await self._require_visible(transaction.connection, task_id)
            await self._require_no_parent(transaction.connection, task_id)
            if await revive(transaction.connection, scope.org_id, task_id, "task") is None:
                raise Refused(Rejection("NOT_FOUND", f"no dead task {task_id}", ("task_id",)))
            await transaction.note("task", "task.retry", str(task_id))

        await scope.write(work)

    async def retry_all(self, type: str | None = None) -> int:
        """Retry every dead task, or those of one type; return how many.

        Takes the capability `tasks:retry`. Tasks for which a step waited stay dead: the step is what is retried.
        """
        scope = self.scope
        require_capability(scope.actor_or_system, RETRY_TASKS)

        async def work(transaction: CommandTransaction) -> int:
            revived = await revive_all(transaction.connection, scope.org_id, "task", type, scope.partition_id)
            if revived:
                await transaction.note("task", "task.retry", type or "*", details={"tasks": revived})
            return revived

        return await scope.write(work)

    async def _require_visible(self, connection: Connection, task_id: UUID) -> None:
        """Raise `Refused` for a task of another partition."""
        org_id, partition_id = self.scope.org_id, self.scope.partition_id
        if partition_id is not None and await read_task(connection, org_id, task_id, partition_id) is None:
            raise Refused(_not_found(task_id))

    async def _require_no_parent(self, connection: Connection, task_id: UUID) -> None:
        task = await read_task(connection, self.scope.org_id, task_id)
        if task is not None and task.parent_id is not None:
            message = f"the failure of subtask {task_id} went to its parent {task.parent_id}"
            hint = "retry the parent: its dead subtasks are retried with it"
            raise Refused(Rejection("TASK_WAS_AWAITED", message, ("task_id",), hint=hint))

    async def _why_not_under_way(self, connection: Connection, task_id: UUID) -> Rejection:
        found = await read_task(connection, self.scope.org_id, task_id)
        if found is None:
            return _not_found(task_id)
        hint = "a task that is tried again goes to the background once more"
        return Rejection("TASK_NOT_UNDER_WAY", f"task {task_id} is {found.status}", ("task_id",), hint=hint)

    async def _why_not(self, connection: Connection, task_id: UUID) -> Rejection:
        found = await read_task(connection, self.scope.org_id, task_id)
        if found is None:
            return _not_found(task_id)
        return Rejection("TASK_HAS_ENDED", f"task {task_id} is {found.status}", ("task_id",))

    def _submission(self, task: NewTask, trace: str | None) -> Submission:
        if task.key is not None:
            require_name(task.key, "key")
        partition_id = task.partition_id if task.partition_id is not None else self.scope.partition_id
        if partition_id is not None:
            require_name(partition_id, "partition_id")
        kind = self.scope.core.task_types.get(task.type)
        if kind is None:
            raise Refused(Rejection("UNKNOWN_TASK", f"no task `{task.type}` is registered", ("type",)))
        try:
            checked = kind.check(task.input)
        except Invalid as invalid:
            raise Refused(Rejection.of(invalid.problems)) from None
        if task.run_at is not None and task.delay is not None:
            raise Refused(Rejection("BAD_VALUE", "a task has a `run_at` or a `delay`, not both", ("delay",)))
        return Submission(
            org_id=self.scope.org_id,
            type=task.type,
            input=checked,
            key=task.key,
            priority=kind.priority if task.priority is None else _in_range(task.priority),
            run_at=task.run_at,
            delay=None if task.delay is None else _length("delay", task.delay),
            throttle=self._throttle(kind, task, checked),
            attempts_max=kind.attempts_max,
            submitted_by=self.scope.actor_or_system.id,
            people=people_of(self.scope.actor_or_system),
            partition_id=partition_id,
            trace_id=trace,
        )

    def _throttle(self, kind: TaskType, task: NewTask, checked: Mapping[str, Any]) -> Throttle | None:
        """Return the limits of a task, of its type and of its submission; raise `Refused` for those that cannot be."""
        limit = task.rate_limit
        if not (kind.is_limited or task.resources or limit):
            return None
        known = self.scope.core.resources
        if unknown := sorted(set(task.resources) - set(known)):
            hint = did_you_mean(unknown[0], known)
            message = f"the application declares no resource `{unknown[0]}`"
            raise Refused(Rejection("UNKNOWN_RESOURCE", message, ("resources",), hint=hint))
        if limit is not None and kind.rate_limit is not None:
            message = (
                f"the rate of `{kind.name}` is limited by its type, and a submission does not change that"
            )
            raise Refused(Rejection("BAD_VALUE", message, ("rate_limit",)))
        try:
            if limit is not None:
                require_rate_limit(limit, on_type=False)
            return kind.throttle(checked, tuple(task.resources), limit)
        except Invalid as invalid:
            raise Refused(Rejection.of(invalid.problems)) from None


@dataclass(frozen=True, slots=True)
class _BatchInput:
    tasks: builtins.list[NewTask]
    then: NewTask


_BATCH: Final = TypeAdapter(_BatchInput)


def read_batch(data: Mapping[str, Any]) -> tuple[builtins.list[NewTask], NewTask]:
    """Return the tasks of a batch, and the one that runs when they have ended, of a file; raise `Invalid`."""
    try:
        found = _BATCH.validate_python(data)
    except ValidationError as error:
        raise Invalid(problems_of(error)) from None
    if any(task.partition_id is not None for task in (*found.tasks, found.then)):
        raise Invalid(
            [Problem("UNKNOWN_KEY", "a task of a file is of the caller's partition", ("partition_id",))]
        )
    return found.tasks, found.then


def _require_batch(tasks: Sequence[NewTask], then: NewTask) -> None:
    """Raise `Refused` for a batch that cannot be one."""
    if not 1 <= len(tasks) <= SUBTASKS_MAX:
        message = f"1 to {SUBTASKS_MAX} tasks of a batch were expected, found {len(tasks)}"
        raise Refused(Rejection("OUT_OF_RANGE", message, ("tasks",)))
    if any(task.key is not None for task in tasks):
        hint = "give the key to `then`: it stands for the whole batch"
        raise Refused(
            Rejection("BAD_VALUE", "a task of a batch has no key of its own", ("tasks",), hint=hint)
        )
    if then.run_at is not None or then.delay is not None:
        raise Refused(
            Rejection("BAD_VALUE", "`then` runs when the batch has ended, at no other time", ("then",))
        )


def _length(name: str, value: str | timedelta) -> timedelta:
    try:
        return require_duration(value)
    except Invalid as invalid:
        raise Refused(Rejection.of([problem.under(name) for problem in invalid.problems])) from None


def _not_found(task_id: UUID) -> Rejection:
    return Rejection("NOT_FOUND", f"no task {task_id}", ("task_id",))


def _in_range(priority: int) -> int:
    if not 0 <= priority <= PRIORITY_MAX:
        message = f"a priority from 0 to {PRIORITY_MAX} was expected, found {priority}"
        raise Refused(Rejection("OUT_OF_RANGE", message, ("priority",)))
    return priority
