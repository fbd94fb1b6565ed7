"""Background work: submitted, looked at, called off, tried again. `/api/tasks`"""

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Response

from assent.http.desk import Desk, Session
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of, position_of
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.signing import Reading, Writing
from assent.http.task_shapes import SubmitTask, SubmittedBody, TaskBody, TaskItemBody
from assent.http.texts import NameQuery
from assent.model.mutation import Refused, Rejection
from assent.runtime.rights import require_capability
from assent.runtime.task_commands import NewTask
from assent.store.database import Connection
from assent.tasks.reading import TaskFilter, TaskItem, TaskStatus, TaskView, list_tasks, read_task

router = APIRouter(prefix="/api/tasks", tags=["tasks"])

Look = Annotated[Desk, Depends(Reading("tasks:read"))]
Act = Annotated[Desk, Depends(Writing("tasks:write", "workflows"))]

SUBMIT: Final = "tasks:submit"
READ: Final = "tasks:read"
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
    """For holders of `tasks:submit`. A worker runs it; a key that was used before answers with the task of then."""

    async def work(session: Session) -> Reply:
        actor = desk.caller.actor
        require_capability(actor, SUBMIT)
        new = NewTask(**body.model_dump(), partition_id=desk.caller.partition_id)
        (task_id,) = await session.runtime.submit_many(desk.org_id, [new], actor=actor)
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
    """For holders of `tasks:read`."""
    after = position_of(cursor, UUID)
    wanted = TaskFilter(
        status=status, type=type, instance_id=instance_id, partition_id=desk.caller.partition_id
    )

    async def work(connection: Connection) -> list[TaskItem]:
        require_capability(desk.caller.actor, READ)
        return await list_tasks(connection, desk.org_id, wanted, after, limit + 1)

    return page_of(await desk.read(work), limit, TaskItemBody.of, lambda task: str(task.id))


@router.get("/{task_id}", response_model=TaskBody, summary="Show a task", responses=documented(404, 422))
async def show_task(desk: Look, task_id: UUID) -> Any:
    """For holders of `tasks:read`, with what went in, what came out, and every attempt."""

    async def work(connection: Connection) -> TaskView:
        return await _found(desk, connection, task_id, READ)

    return TaskBody.of(await desk.read(work))


@router.post(
    "/{task_id}/cancel",
    response_model=TaskBody,
    summary="Call a task off",
    responses=documented(404, 409, 413, 422),
)
async def cancel_task(desk: Act, task_id: UUID) -> Response:
    """For holders of `tasks:cancel`. One that runs comes to nothing; a step that waits for it hears of it."""

    async def work(session: Session) -> Reply:
        await _found(desk, session.connection, task_id, CANCEL)
        await session.runtime.cancel_task(desk.org_id, task_id, desk.caller.actor)
        return Reply.of(TaskBody.of(await _found(desk, session.connection, task_id, CANCEL)))

    return await desk.write(work)


@router.post(
    "/{task_id}/retry",
    response_model=TaskBody,
    summary="Try a dead task again",
    responses=documented(404, 409, 413, 422),
)
async def retry_task(desk: Act, task_id: UUID) -> Response:
    """For holders of `tasks:retry`, with as many attempts as it had. One that a step awaited is tried with its step."""

    async def work(session: Session) -> Reply:
        found = await _found(desk, session.connection, task_id, RETRY)
        if found.status != "dead":
            message = f"task {task_id} is {found.status}, and only a dead one is tried again"
            raise Refused(Rejection("TASK_NOT_DEAD", message, ("task_id",)))
        await session.runtime.retry_task(desk.org_id, task_id, desk.caller.actor)
        return Reply.of(TaskBody.of(await _found(desk, session.connection, task_id, RETRY)))

    return await desk.write(work)


async def _found(desk: Desk, connection: Connection, task_id: UUID, capability: str) -> TaskView:
    """Another org's task is not there, nor is another partition's, whatever the caller may do."""
    found = await read_task(connection, desk.org_id, task_id, desk.caller.partition_id)
    if found is None:
        raise Refused(Rejection("NOT_FOUND", f"no task {task_id}", ("task_id",)))
    require_capability(desk.caller.actor, capability)
    return found
