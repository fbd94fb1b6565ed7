"""Events: tell the workflows that wait for a key. `/api/events`

Where a source of events is configured, they carry a signature of Standard Webhooks. A signature is of bytes, so it is
checked before the body is parsed.
"""

from typing import Annotated, Any, Final

from fastapi import Depends, Header, Request
from pydantic import Field

from assent.bodies.operations import EventBody
from assent.http.context import Transaction, services_of
from assent.http.fields import NAME_LENGTH_MAX, NamePath, RequestModel, ShortText
from assent.http.routing import Router
from assent.model.mutation import Refused, Rejection
from assent.runtime.event_sources import SignedDelivery, check_delivery, require_bound, take_delivery
from assent.runtime.rights import may_emit

router = Router(takes_documents=True, prefix="/api/events", tags=["events"])

_SIGNED: Final = "For keys whose events and results are signed (Standard Webhooks)."
_LENGTHS_MAX: Final = {"webhook-id": 200, "webhook-timestamp": 20, "webhook-signature": 2_000}
IdHeader = Annotated[
    str | None, Header(alias="webhook-id", max_length=_LENGTHS_MAX["webhook-id"], description=_SIGNED)
]
TimestampHeader = Annotated[
    str | None,
    Header(alias="webhook-timestamp", max_length=_LENGTHS_MAX["webhook-timestamp"], description=_SIGNED),
]
SignatureHeader = Annotated[
    str | None,
    Header(alias="webhook-signature", max_length=_LENGTHS_MAX["webhook-signature"], description=_SIGNED),
]


class NewEvent(RequestModel):
    key: ShortText | None = Field(
        None,
        description="The key of the path again; a signed event must have it, and is valid for no other key.",
        examples=["payment:2026-17"],
    )
    data: Any = Field(None, examples=[{"paid": 120000}])
    cause: ShortText | None = Field(
        None,
        description="The cause of the event, such as the sender's own id: each cause is emitted once.",
        examples=["evt_17"],
    )


NO_DATA: Final = NewEvent()


async def _document_headers(
    webhook_id: IdHeader = None,
    webhook_timestamp: TimestampHeader = None,
    webhook_signature: SignatureHeader = None,
) -> None:
    """Document the headers that `delivery_of` reads."""


SignatureHeaders = Depends(_document_headers)


async def delivery_of(request: Request) -> SignedDelivery:
    """Return the signature of a request with its body; raise `Refused` for a header that is too long."""
    headers = request.headers
    for name, length_max in _LENGTHS_MAX.items():
        if len(headers.get(name, "")) > length_max:
            message = f"expected at most {length_max} characters"
            raise Refused(Rejection("TOO_LONG", message, ("header", name)))
    signed = (headers.get("webhook-id"), headers.get("webhook-timestamp"), headers.get("webhook-signature"))
    return SignedDelivery(*signed, await request.body())


async def verify_event(request: Request) -> None:
    """Check the signature of an event, and leave its cause in the request."""
    services, key = services_of(request), request.path_params["key"]
    request.state.cause = None
    if len(key) > NAME_LENGTH_MAX or "\x00" in key:
        return  # the route refuses it by its shape
    delivery, now = await delivery_of(request), services.database.clock.now()
    # As the owner, who alone may read secrets; the statement names the org.
    async with services.database.glance() as connection:
        org_id = request.state.caller.org_id
        request.state.cause = await check_delivery(connection, org_id, key, delivery, now)


@router.command(
    "/{key}",
    scope="events:write",
    rate="workflows",
    status=202,
    verify=verify_event,
    dependencies=[SignatureHeaders],
    summary="Emit an event",
)
async def emit_event(tx: Transaction, key: NamePath, body: NewEvent = NO_DATA) -> EventBody:
    """For holders of `events:emit`. Every open wait on the key gets it; without one, the first later wait gets it.

    A caller of one partition reaches only the instances of that partition.
    Where the source of the key signs, a delivery counts once, and only for the key that it names.
    """
    may_emit(tx.actor)
    signed: str | None = tx.request.state.cause
    if signed is not None:
        require_bound(body.key, key)
    # In one savepoint: a delivery whose event is refused was not taken, and may come again.
    async with tx.connection.transaction():
        if signed is not None and not await take_delivery(tx.connection, tx.org_id, signed, tx.now()):
            return EventBody(key=key, new=False)
        new = await tx.runtime.events.emit(key, body.data, cause=body.cause or signed)
    return EventBody(key=key, new=new)
