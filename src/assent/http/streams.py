"""Changes as they happen: of an instance, and of one's inbox. `…/events`"""

import hashlib
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Header, Response
from fastapi.responses import StreamingResponse

from assent.http.changes import Topic, look_at_inboxes
from assent.http.desk import RequestContext
from assent.http.event_stream import MEDIA_TYPE, EventStream, StreamState
from assent.http.inbox_shapes import InboxCountsBody
from assent.http.problems import documented
from assent.http.routing import Router
from assent.http.showing import instance_for
from assent.http.signing import Reading
from assent.http.workflow_shapes import InstanceSummary
from assent.people.inbox import count_inbox
from assent.store.database import Connection

router = Router(tags=["streams"])

LookAtWorkflows = Annotated[RequestContext, Depends(Reading("workflows:read"))]
LookAtInbox = Annotated[RequestContext, Depends(Reading("approvals:read"))]

LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        max_length=100,
        description="The `id` of the last event that was heard: it is not sent again.",
        examples=["7"],
    ),
]
_ENDED: Final = ("completed", "failed", "cancelled")


def _stream(example: str) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"type": "string"}, "example": example}}
    return {"description": "Server-sent events, until the client goes.", "content": content}


_INSTANCE: Final = 'id: 7\nevent: instance\ndata: {"id": "…", "status": "running", "version": 7}\n\n'
_INBOX: Final = 'id: 5c1f…\nevent: inbox\ndata: {"mine": {"open": 1, "overdue": 0}}\n\n'
_NOTHING_MORE: Final[dict[int | str, dict[str, Any]]] = {
    204: {"description": "It has ended, and the last event was heard: nothing more comes."}
}


@router.get(
    "/ui/workflows/{instance_id}/events",
    response_class=StreamingResponse,
    summary="Hear of changes of an instance",
    responses={200: _stream(_INSTANCE), **_NOTHING_MORE, **documented(404, 422)},
)
async def stream_workflow(
    desk: LookAtWorkflows, instance_id: UUID, last_event_id: LastEventId = None
) -> Response:
    """What it is now, and again whenever it has changed; the stream ends with the instance."""

    async def read(desk: RequestContext) -> StreamState:
        async def work(connection: Connection) -> StreamState:
            row = await instance_for(desk, connection, instance_id)
            shown = InstanceSummary.of(row)
            return StreamState(str(shown.version), "instance", shown, shown.status in _ENDED)

        return await desk.read(work)

    state = await read(desk)
    if state.is_last and state.id == last_event_id:
        return Response(status_code=204)
    return EventStream(desk, Topic(desk.org_id, instance_id), "workflows:read", read, last_event_id)


@router.get(
    "/api/inbox/events",
    response_class=StreamingResponse,
    summary="Hear of changes of one's inbox",
    responses={200: _stream(_INBOX), **documented(422)},
)
async def stream_inbox(desk: LookAtInbox, last_event_id: LastEventId = None) -> Response:
    """How much waits now, and again whenever something has come or gone."""
    topic = Topic(desk.org_id, desk.caller.actor.id, desk.caller.partition_id)

    async def read(desk: RequestContext) -> StreamState:
        async def work(connection: Connection) -> StreamState:
            caller, now = desk.caller, desk.house.database.clock.now()
            partition, directory = caller.partition_id, desk.house.runtime.core.directory
            seen = (await look_at_inboxes(connection, [topic], now))[topic]
            counts = await count_inbox(
                connection, desk.org_id, caller.actor.id, now, partition_id=partition, directory=directory
            )
            shown = InboxCountsBody.of(counts)
            return StreamState(_digest(seen, shown), "inbox", shown)

        return await desk.read(work)

    return EventStream(desk, topic, "approvals:read", read, last_event_id)


def _digest(seen: str, counts: InboxCountsBody) -> str:
    return hashlib.sha256(f"{seen} {counts.model_dump_json()}".encode()).hexdigest()[:16]
