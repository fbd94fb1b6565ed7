"""Streams of changes: of an instance, of a task, and of the caller's inbox. `…/events`"""

import hashlib
import re
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Header, Response
from fastapi.responses import StreamingResponse

from assent.bodies.instances import InstanceSummary
from assent.bodies.operations import LogLineBody, TaskStateBody
from assent.http.changes import Topic, look_at_inboxes
from assent.http.context import RequestContext, Transaction
from assent.http.event_stream import MEDIA_TYPE, EventStream, StreamState
from assent.http.routes.inbox import count_caller_inbox
from assent.http.routes.instances import read_instance
from assent.http.routing import Router
from assent.tasks.notes import list_log

router = Router(tags=["streams"])

LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        max_length=100,
        description="The `id` of the last event that the client received: it is not sent again.",
        examples=["7"],
    ),
]
_ENDED: Final = ("completed", "failed", "cancelled")
_INSTANCE: Final = 'id: 7\nevent: instance\ndata: {"id": "…", "status": "running", "version": 7}\n\n'
_TASK: Final = (
    'id: 1.12\nevent: log\ndata: {"attempt": 1, "position": 12, "level": "info", "message": "read page 12", …}\n\n'
    'id: 1.12 5c1f…\nevent: task\ndata: {"id": "…", "status": "running", "progress": {"fraction": 0.4, …}, …}\n\n'
)
_TASK_ENDED: Final = ("done", "cancelled", "dead")
_LINE_SEEN: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?: |$)")
LINES_AT_ONCE: Final = 200
"""How many lines of a log are sent together."""
_INBOX: Final = 'id: 5c1f…\nevent: inbox\ndata: {"mine": {"open": 1, "overdue": 0}}\n\n'


def _stream(example: str) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"type": "string"}, "example": example}}
    return {"description": "Server-sent events, until the client disconnects.", "content": content}


_NO_MORE: Final = {"description": "The instance has ended, and the client has the last event."}


async def _instance_state(tx: Transaction, instance_id: UUID) -> StreamState:
    body = InstanceSummary.of(await read_instance(tx, instance_id))
    return StreamState(str(body.version), "instance", body, body.status in _ENDED)


async def _inbox_state(tx: Transaction, topic: Topic) -> StreamState:
    seen = (await look_at_inboxes(tx.connection, [topic], tx.now()))[topic]
    counts = await count_caller_inbox(tx)
    digest = hashlib.sha256(f"{seen} {counts.model_dump_json()}".encode()).hexdigest()[:16]
    return StreamState(digest, "inbox", counts)


@router.query(
    "/api/instances/{instance_id}/events",
    scope="workflows:read",
    errors=(404,),
    responses={200: _stream(_INSTANCE), 204: _NO_MORE},
    response_class=StreamingResponse,
    summary="Stream the changes of an instance",
)
async def stream_instance(
    context: RequestContext, instance_id: UUID, last_event_id: LastEventId = None
) -> Response:
    """Its current state, and again after every change; the stream ends with the instance."""
    read = partial(_instance_state, instance_id=instance_id)
    state = await context.read(read)
    if state.is_last and state.id == last_event_id:
        return Response(status_code=204)
    return EventStream(context, Topic(context.org_id, instance_id), "workflows:read", read, last_event_id)


class TaskStates:
    """The states of a task for one stream: each with the lines of its log since the one before.

    The id of an event says how much of the log the client has, `<attempt>.<line>`, and then what the state was.
    """

    def __init__(self, task_id: UUID, last_event_id: str | None) -> None:
        self._task_id = task_id
        found = _LINE_SEEN.match(last_event_id or "")
        self._after = (int(found[1]), int(found[2])) if found else (0, 0)

    async def __call__(self, tx: Transaction) -> StreamState:
        task = await tx.reads.tasks.get(self._task_id)
        lines = await list_log(tx.connection, tx.org_id, self._task_id, self._after, LINES_AT_ONCE + 1)
        has_more, lines = len(lines) > LINES_AT_ONCE, lines[:LINES_AT_ONCE]
        if lines:
            self._after = (lines[-1].attempt, lines[-1].position)
        body = TaskStateBody.of(task)
        state = hashlib.sha256(body.model_dump_json().encode()).hexdigest()[:12]
        before = [(f"{line.attempt}.{line.position}", "log", LogLineBody.of(line)) for line in lines]
        own_id = f"{self._after[0]}.{self._after[1]} {state}"
        is_last = task.status in _TASK_ENDED
        return StreamState(own_id, "task", body, is_last, before, has_more)


@router.query(
    "/api/tasks/{task_id}/events",
    scope="tasks:read",
    errors=(404,),
    responses={
        200: _stream(_TASK),
        204: {"description": "The task has ended, and the client has the last event."},
    },
    response_class=StreamingResponse,
    summary="Stream the progress and the log of a task",
)
async def stream_task(context: RequestContext, task_id: UUID, last_event_id: LastEventId = None) -> Response:
    """Its current state and the lines of its log, and again after every change; the stream ends with the task."""
    state = await context.read(TaskStates(task_id, last_event_id))
    if state.is_last and state.id == last_event_id:
        return Response(status_code=204)
    topic = Topic(context.org_id, task_id, is_task=True)
    read = TaskStates(task_id, last_event_id)
    return EventStream(context, topic, "tasks:read", read, last_event_id)


@router.query(
    "/api/inbox/events",
    scope="approvals:read",
    responses={200: _stream(_INBOX)},
    response_class=StreamingResponse,
    summary="Stream the changes of the inbox",
)
async def stream_inbox(context: RequestContext, last_event_id: LastEventId = None) -> Response:
    """The current counts, and again whenever an item was added or removed."""
    topic = Topic(context.org_id, context.actor.id, context.partition_id)
    read = partial(_inbox_state, topic=topic)
    return EventStream(context, topic, "approvals:read", read, last_event_id)
