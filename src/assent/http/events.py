"""Events in: something happened under a key that a workflow may wait for. `/api/events`"""

from typing import Any, Final

from fastapi import Response
from pydantic import BaseModel, Field

from assent.http.deliveries import SignatureHeaders, SignedCause, Tell
from assent.http.desk import Transaction
from assent.http.permissions import may_emit
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.texts import Body, NamePath, ShortText
from assent.runtime.event_sources import require_bound, take_delivery

router = Router(takes_much=True, prefix="/api/events", tags=["events"])


class NewEvent(Body):
    key: ShortText | None = Field(
        None,
        description="The key of the path again; a signed event must say it, and is good for no other.",
        examples=["payment:2026-17"],
    )
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
    dependencies=[SignatureHeaders],
)
async def emit_event(desk: Tell, key: NamePath, signed: SignedCause, body: NewEvent = NO_DATA) -> Response:
    """For holders of `events:emit`. Every open wait on the key is satisfied; else the event is kept for the first.

    A caller of one partition tells the instances of that partition only.
    Where the key is of a source that signs, a delivery is taken once, and for the key that it names.
    """

    async def work(session: Transaction) -> Reply:
        may_emit(desk.caller.actor)
        if signed is not None:
            require_bound(body.key, key)
        # Together: a delivery whose event is refused was not taken, and may come again.
        async with session.connection.transaction():
            new = await _emit(session)
        return Reply.of(EventBody(key=key, new=new), 202)

    async def _emit(session: Transaction) -> bool:
        now = desk.house.database.clock.now()
        if signed is not None and not await take_delivery(session.connection, desk.org_id, signed, now):
            return False
        cause, actor = body.cause or signed, desk.caller.actor
        partition = desk.caller.partition_id
        return await session.runtime.org(desk.org_id, actor, partition_id=partition).events.emit(
            key, body.data, cause=cause
        )

    return await desk.write(work)
