"""Signed deliveries: where a source is configured so, events and results come with a signature of Standard Webhooks."""

from typing import Annotated

from fastapi import Depends, Header, Request

from assent.http.desk import Desk, House
from assent.http.signing import Writing
from assent.http.texts import NamePath
from assent.runtime.event_sources import Delivery, check_delivery
from assent.store.database import Connection

Tell = Annotated[Desk, Depends(Writing("events:write", "workflows"))]

_SIGNED = "For keys whose events and results are signed (Standard Webhooks)."
IdHeader = Annotated[str | None, Header(alias="webhook-id", max_length=200, description=_SIGNED)]
TimestampHeader = Annotated[str | None, Header(alias="webhook-timestamp", max_length=20, description=_SIGNED)]
SignatureHeader = Annotated[
    str | None, Header(alias="webhook-signature", max_length=2_000, description=_SIGNED)
]


async def signed_delivery(
    request: Request,
    webhook_id: IdHeader = None,
    webhook_timestamp: TimestampHeader = None,
    webhook_signature: SignatureHeader = None,
) -> Delivery:
    """What a request says of its signature; whether it must have one is asked later."""
    return Delivery(webhook_id, webhook_timestamp, webhook_signature, await request.body())


SignedDelivery = Annotated[Delivery, Depends(signed_delivery)]


async def signed_cause(desk: Tell, key: NamePath, delivery: SignedDelivery) -> str | None:
    """What a signed event comes of, so that a delivery that comes twice is told once; none where nothing is signed."""

    async def work(connection: Connection) -> str | None:
        return await check_signature(desk.house, connection, desk.org_id, key, delivery)

    return await desk.house.database.run(work, org_id=None)


async def check_signature(
    house: House, connection: Connection, org_id: str, key: str, delivery: Delivery
) -> str | None:
    """In a transaction of the owner, who alone may read secrets. Raises `Refused` without a good signature."""
    return await check_delivery(connection, org_id, key, delivery, house.database.clock.now())


SignedCause = Annotated[str | None, Depends(signed_cause)]
