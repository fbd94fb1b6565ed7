"""Tasks: submit background work, read it, end it from outside, cancel it, retry it. `/api/tasks`"""

from typing import Any
from uuid import UUID

from pydantic import Field

from assent.bodies.body import ITEMS_DEFAULT, Data, Page
from assent.bodies.operations import LogLineBody, SubmittedBody, TaskBody, TaskItemBody, TaskTreeBody
from assent.http.context import Transaction
from assent.http.fields import Moment, NameQuery, RequestModel, ShortText
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.replies import Reply, reply_with
from assent.http.routes.readable import reply_if_readable
from assent.http.routing import Router
from assent.model.job import PRIORITY_MAX, RATE_MAX, RESOURCES_OF_TASK_MAX, RateLimit
from assent.model.mutation import Refused, Rejection
from assent.runtime.task_commands import CANCEL_TASKS, END_TASKS, RETRY_TASKS, NewTask
from assent.tasks.context import SUBTASKS_MAX
from assent.tasks.errors import FAILED
from assent.tasks.views import TaskStatus, TaskView, read_task

router = Router(takes_documents=True, prefix="/api/tasks", tags=["tasks"])


class SubmittedRateLimit(RequestModel):
    """At most so many starts of tasks of a key in any period of a length."""

    max: int = Field(ge=1, le=RATE_MAX, examples=[100])
    per: ShortText = Field(examples=["1m"])
    key: ShortText = Field(examples=["crm"])


class SubmitTask(RequestModel):
    """A task to run in the background."""

    type: ShortText = Field(examples=["report.build"])
    input: Data = Field({}, examples=[{"month": "May"}])
    key: ShortText | None = Field(
        None, description="Identifies this task of its type for good: submitted again, it is the same task."
    )
    priority: int | None = Field(
        None, ge=0, le=PRIORITY_MAX, description="Higher runs sooner; the default of its type without it."
    )
    run_at: Moment | None = Field(None, description="Not before; at once without it.")
    delay: ShortText | None = Field(
        None, description="Not before so long after its submission.", examples=["15m"]
    )
    resources: list[ShortText] = Field(
        [], max_length=RESOURCES_OF_TASK_MAX, description="What it uses besides what its type says."
    )
    rate_limit: SubmittedRateLimit | None = Field(
        None, description="How many tasks of a key may start in a period, where its type does not say."
    )

    def task(self) -> NewTask:
        """Return the task to submit; raise `Refused` for a rate limit that cannot be one."""
        limit = self.rate_limit
        given = RateLimit(limit.max, per=limit.per, key=limit.key) if limit is not None else None
        return NewTask(**{**self.model_dump(), "rate_limit": given})


class SubmitBatch(RequestModel):
    """Tasks to run in the background, and one that runs once all of them have ended."""

    tasks: list[SubmitTask] = Field(
        min_length=1,
        max_length=SUBTASKS_MAX,
        examples=[[{"type": "report.build", "input": {"month": "May"}}]],
    )
    then: SubmitTask = Field(
        examples=[{"type": "report.build", "input": {"month": "all"}}],
        description="It finds the others, with what failed, among its subtasks. Its key stands for the whole batch.",
    )


async def find_visible_task(tx: Transaction, task_id: UUID, capability: str) -> TaskView:
    """Return a task of the caller's org and partition; raise `Refused` if the caller lacks a capability."""
    task = await read_task(tx.connection, tx.org_id, task_id, tx.partition_id)
    if task is None:
        raise Refused(Rejection("NOT_FOUND", f"no task {task_id}", ("task_id",)))
    tx.require(capability)
    return task


async def read_visible_task(tx: Transaction, task_id: UUID) -> TaskView:
    """Return a task that the caller may read: with `tasks:read`, and with its instance if a step submitted it."""
    return await tx.reads.tasks.get(task_id)


async def _show(tx: Transaction, task_id: UUID) -> Reply[TaskBody]:
    task = await read_visible_task(tx, task_id)
    return reply_with(TaskBody.of(task), about=(("task", str(task_id)),))


@router.command("", scope="tasks:write", rate="workflows", status=202, summary="Submit a task")
async def submit_task(tx: Transaction, body: SubmitTask) -> SubmittedBody:
    """For holders of `tasks:submit`, or of the capability that the application names for the type.

    A worker runs it; a key that was used before returns the task of that time.
    """
    tx.require(tx.services.app.capability_to_submit(body.type))
    (task,) = await tx.runtime.tasks.submit_many([body.task()])
    return SubmittedBody(id=task.id)


@router.command(
    "/batches", scope="tasks:write", rate="workflows", status=202, summary="Submit a batch of tasks"
)
async def submit_task_batch(tx: Transaction, body: SubmitBatch) -> SubmittedBody:
    """For holders of what each of its types takes. The reply names `then`: it ends last, and cancels the others.

    All or none are submitted; under a key that was used before, none.
    """
    for type in sorted({task.type for task in (*body.tasks, body.then)}):
        tx.require(tx.services.app.capability_to_submit(type))
    batch = await tx.runtime.tasks.submit_batch([task.task() for task in body.tasks], body.then.task())
    return SubmittedBody(id=batch.id)


@router.query("", scope="tasks:read", summary="List tasks, newest first")
async def list_tasks_of_org(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    status: TaskStatus | None = None,
    type: NameQuery = None,
    instance_id: UUID | None = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[TaskItemBody]]:
    """For holders of `tasks:read`: tasks without an instance, and of instances that the caller may read."""
    page = await tx.reads.tasks.list(
        status=status, type=type, instance_id=instance_id, cursor=cursor, limit=limit
    )
    return reply_with_page(page, TaskItemBody.of)


@router.query("/{task_id}", scope="tasks:read", errors=(404,), summary="Read a task")
async def show_task(tx: Transaction, task_id: UUID) -> Reply[TaskBody]:
    """For holders of `tasks:read` who may read its instance, with its input, its output and every attempt."""
    return await _show(tx, task_id)


@router.query("/{task_id}/tree", scope="tasks:read", errors=(404,), summary="Read a task with its subtasks")
async def show_task_tree(tx: Transaction, task_id: UUID) -> TaskTreeBody:
    """For holders of `tasks:read` who may read its instance: the task and all below it, with the status of each."""
    return TaskTreeBody.of(await tx.reads.tasks.tree(task_id))


@router.query("/{task_id}/log", scope="tasks:read", errors=(404,), summary="Read the log of a task")
async def show_task_log(
    tx: Transaction, task_id: UUID, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[LogLineBody]]:
    """For holders of `tasks:read` who may read its instance: the lines that its attempts wrote, in order."""
    page = await tx.reads.tasks.log(task_id, cursor=cursor, limit=limit)
    return reply_with_page(page, LogLineBody.of)


@router.command(
    "/{task_id}/cancel",
    scope="tasks:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Cancel a task",
)
async def cancel_task(tx: Transaction, task_id: UUID) -> Reply[TaskBody]:
    """For holders of `tasks:cancel`. The result of a running task is ignored; a step that waits for it continues."""
    await find_visible_task(tx, task_id, CANCEL_TASKS)
    await tx.runtime.tasks.cancel(task_id)
    return await reply_if_readable(_show(tx, task_id))


class CompleteTask(RequestModel):
    """The output of a task that was completed outside of the workers."""

    output: Any = Field(None, examples=[{"pages": 12}])


class FailTask(RequestModel):
    """Why a task failed outside of the workers."""

    message: ShortText = Field(examples=["the printer is out of paper"])
    code: ShortText = Field(FAILED, examples=["OUT_OF_PAPER"])
    retryable: bool = Field(False, description="Whether a further attempt may help.")


@router.command(
    "/{task_id}/complete",
    scope="tasks:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Complete a task from outside",
)
async def complete_background_task(tx: Transaction, task_id: UUID, body: CompleteTask) -> Reply[TaskBody]:
    """For holders of `tasks:complete`: a task whose function has returned `Background`, or still runs."""
    await find_visible_task(tx, task_id, END_TASKS)
    await tx.runtime.tasks.complete(task_id, body.output)
    return await reply_if_readable(_show(tx, task_id))


@router.command(
    "/{task_id}/fail",
    scope="tasks:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Fail a task from outside",
)
async def fail_background_task(tx: Transaction, task_id: UUID, body: FailTask) -> Reply[TaskBody]:
    """For holders of `tasks:complete`. It is tried again if that may help and attempts are left; else it is dead."""
    await find_visible_task(tx, task_id, END_TASKS)
    await tx.runtime.tasks.fail(task_id, **body.model_dump())
    return await reply_if_readable(_show(tx, task_id))


@router.command(
    "/{task_id}/retry",
    scope="tasks:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Retry a dead task",
)
async def retry_task(tx: Transaction, task_id: UUID) -> Reply[TaskBody]:
    """For holders of `tasks:retry`, with new attempts. A task that a step awaited is retried by its step."""
    task = await find_visible_task(tx, task_id, RETRY_TASKS)
    if task.status != "dead":
        message = f"task {task_id} is {task.status}, and only a dead task can be retried"
        raise Refused(Rejection("TASK_NOT_DEAD", message, ("task_id",)))
    await tx.runtime.tasks.retry(task_id)
    return await reply_if_readable(_show(tx, task_id))
