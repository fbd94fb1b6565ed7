"""Background work: submitted, looked at, called off, tried again. `/api/tasks`"""

from dataclasses import replace
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Response

from assent.http import showing
from assent.http.desk import RequestContext, Transaction
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.permissions import reader_for
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.showing import READ_TASKS, UNSEEN, answer, task_seen
from assent.http.signing import Reading, Writing
from assent.http.task_shapes import SubmitTask, SubmittedBody, TaskBody, TaskItemBody
from assent.http.texts import NameQuery
from assent.model.cursor import id_in, position_of
from assent.model.mutation import Refused, Rejection
from assent.runtime.rights import require_capability
from assent.runtime.task_commands import NewTask
from assent.store.database import Connection
from assent.tasks.views import TaskFilter, TaskItem, TaskStatus, list_tasks

router = Router(takes_much=True, prefix="/api/tasks", tags=["tasks"])

Look = Annotated[RequestContext, Depends(Reading("tasks:read"))]
Act = Annotated[RequestContext, Depends(Writing("tasks:write", "workflows"))]

SUBMIT: Final = "tasks:submit"
CANCEL: Final = "tasks:cancel"
RETRY: Final = "tasks:retry"


@router.post(
    "",
    status_code=202,
    response_model=SubmittedBody,
    summary="Submit a task",
    responses=documented(400, 413, 422),
)
async def submit_task(desk: Act, body: SubmitTask) -> Response:
    """For holders of `tasks:submit`, or of what the application names for the type instead.

    A worker runs it; a key that was used before answers with the task of then.
    """

    async def work(session: Transaction) -> Reply:
        actor = desk.caller.actor
        require_capability(actor, desk.house.app.capabilities.get(f"task:{body.type}", SUBMIT))
        new = NewTask(**body.model_dump(), partition_id=desk.caller.partition_id)
        (task_id,) = await session.runtime.org(desk.org_id, actor).tasks.submit_many([new])
        return Reply.of(SubmittedBody(id=task_id), 202)

    return await desk.write(work)


@router.get(
    "", response_model=Page[TaskItemBody], summary="List tasks, newest first", responses=documented(422)
)
async def list_tasks_of_org(  # noqa: PLR0913, PLR0917
    desk: Look,
    status: TaskStatus | None = None,
    type: NameQuery = None,
    instance_id: UUID | None = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Any:
    """For holders of `tasks:read`: those of no instance, and of instances that they may read."""
    after = position_of(cursor, id_in)
    wanted = TaskFilter(
        status=status, type=type, instance_id=instance_id, partition_id=desk.caller.partition_id
    )

    async def work(connection: Connection) -> list[TaskItem]:
        require_capability(desk.caller.actor, READ_TASKS)
        seen = replace(wanted, reader=await reader_for(desk, connection))
        return await list_tasks(connection, desk.org_id, seen, after, limit + 1)

    return page_of(await desk.read(work), limit, TaskItemBody.of, lambda task: str(task.id))


@router.get("/{task_id}", response_model=TaskBody, summary="Show a task", responses=documented(404, 422))
async def show_task(desk: Look, task_id: UUID) -> Response:
    """For holders of `tasks:read` who may read its instance, with what went in, what came out, and every attempt."""

    async def work(connection: Connection) -> Reply:
        return await showing.show_task(desk, connection, task_id)

    return (await desk.read(work)).response()


@router.post(
    "/{task_id}/cancel",
    response_model=TaskBody,
    summary="Call a task off",
    responses=UNSEEN | documented(404, 409, 413, 422),
)
async def cancel_task(desk: Act, task_id: UUID) -> Response:
    """For holders of `tasks:cancel`. One that runs comes to nothing; a step that waits for it hears of it."""

    async def work(session: Transaction) -> Reply:
        await task_seen(desk, session.connection, task_id, CANCEL)
        await session.runtime.org(desk.org_id, desk.caller.actor).tasks.cancel(task_id)
        return await answer(showing.show_task(desk, session.connection, task_id))

    return await desk.write(work)


@router.post(
    "/{task_id}/retry",
    response_model=TaskBody,
    summary="Try a dead task again",
    responses=UNSEEN | documented(404, 409, 413, 422),
)
async def retry_task(desk: Act, task_id: UUID) -> Response:
    """For holders of `tasks:retry`, with as many attempts as it had. One that a step awaited is tried with its step."""

    async def work(session: Transaction) -> Reply:
        found = await task_seen(desk, session.connection, task_id, RETRY)
        if found.status != "dead":
            message = f"task {task_id} is {found.status}, and only a dead one is tried again"
            raise Refused(Rejection("TASK_NOT_DEAD", message, ("task_id",)))
        await session.runtime.org(desk.org_id, desk.caller.actor).tasks.retry(task_id)
        return await answer(showing.show_task(desk, session.connection, task_id))

    return await desk.write(work)
