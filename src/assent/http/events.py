"""Events in: something happened under a key that a workflow may wait for. `/api/events`"""

from typing import Any, Final

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from assent.http.deliveries import SignedCause, Tell
from assent.http.desk import Session
from assent.http.permissions import may_emit
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.texts import Body, NamePath, ShortText

router = APIRouter(prefix="/api/events", tags=["events"])


class NewEvent(Body):
    data: Any = Field(None, examples=[{"paid": 120000}])
    cause: ShortText | None = Field(
        None,
        description="What it comes of, such as the sender's own id: one cause is told once.",
        examples=["evt_17"],
    )


NO_DATA: Final = NewEvent()


class EventBody(BaseModel):
    key: str = Field(examples=["payment:2026-17"])
    new: bool = Field(description="False when this cause had told it before; then nothing happens.")


@router.post(
    "/{key}",
    status_code=202,
    response_model=EventBody,
    summary="Tell whoever waits for a key",
    responses=documented(400, 413, 422),
)
async def emit_event(desk: Tell, key: NamePath, signed: SignedCause, body: NewEvent = NO_DATA) -> Response:
    """For holders of `events:emit`. Every open wait on the key is satisfied; else the event is kept for the first."""

    async def work(session: Session) -> Reply:
        may_emit(desk.caller.actor)
        cause, actor = body.cause or signed, desk.caller.actor
        new = await session.runtime.emit(desk.org_id, key, body.data, cause=cause, actor=actor)
        return Reply.of(EventBody(key=key, new=new), 202)

    return await desk.write(work)
