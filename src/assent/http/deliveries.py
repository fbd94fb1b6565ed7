"""Signed deliveries: where a source is configured so, events and results come with a signature of Standard Webhooks.

A signature is of bytes, so it is checked before they are parsed.
"""

from typing import Annotated, Final

from fastapi import Depends, Header, Request

from assent.http.desk import RequestContext, Services
from assent.http.signing import Writing
from assent.http.texts import NAME_LENGTH_MAX, NamePath
from assent.model.mutation import Refused, Rejection
from assent.runtime.event_sources import SignedDelivery, check_delivery
from assent.store.database import Connection

Tell = Annotated[RequestContext, Depends(Writing("events:write", "workflows"))]

_SIGNED = "For keys whose events and results are signed (Standard Webhooks)."
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


async def delivery_of(request: Request) -> SignedDelivery:
    """What a request says of its signature; raises `Refused` for more than that can be."""
    headers = request.headers
    for name, length_max in _LENGTHS_MAX.items():
        if len(headers.get(name, "")) > length_max:
            message = f"expected at most {length_max} characters"
            raise Refused(Rejection("TOO_LONG", message, ("header", name)))
    said = (headers.get("webhook-id"), headers.get("webhook-timestamp"), headers.get("webhook-signature"))
    return SignedDelivery(*said, await request.body())


async def documented_headers(
    webhook_id: IdHeader = None,
    webhook_timestamp: TimestampHeader = None,
    webhook_signature: SignatureHeader = None,
) -> None:
    """What `delivery_of` reads, for the document of the API."""


SignatureHeaders = Depends(documented_headers)


class SignedCauses:
    """What a signed event comes of, so that a delivery that comes twice is told once; none where nothing is signed."""

    async def verify(self, request: Request) -> None:
        house: Services = request.app.state.house
        org_id, key = request.state.caller.org_id, request.path_params["key"]
        request.state.cause = None
        if len(key) > NAME_LENGTH_MAX or "\x00" in key:
            return  # the route refuses it by its shape
        delivery = await delivery_of(request)

        async def work(connection: Connection) -> str | None:
            return await check_signature(house, connection, org_id, key, delivery)

        request.state.cause = await house.database.run(work, org_id=None)

    async def __call__(self, request: Request, desk: Tell, key: NamePath) -> str | None:
        cause: str | None = request.state.cause
        return cause


async def check_signature(
    house: Services, connection: Connection, org_id: str, key: str, delivery: SignedDelivery
) -> str | None:
    """In a transaction of the owner, who alone may read secrets. Raises `Refused` without a good signature."""
    return await check_delivery(connection, org_id, key, delivery, house.database.clock.now())


SignedCause = Annotated[str | None, Depends(SignedCauses())]
