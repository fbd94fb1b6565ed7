"""Signed deliveries: where a source is configured so, an event comes with a signature of Standard Webhooks."""

from typing import Annotated

from fastapi import Depends, Header

from assent.http.desk import Desk
from assent.http.signing import Writing
from assent.http.texts import NamePath
from assent.runtime.event_sources import Delivery, check_delivery
from assent.store.database import Connection

Tell = Annotated[Desk, Depends(Writing("events:write", "workflows"))]

_SIGNED = "For keys whose events are signed (Standard Webhooks)."
IdHeader = Annotated[str | None, Header(alias="webhook-id", max_length=200, description=_SIGNED)]
TimestampHeader = Annotated[str | None, Header(alias="webhook-timestamp", max_length=20, description=_SIGNED)]
SignatureHeader = Annotated[
    str | None, Header(alias="webhook-signature", max_length=2_000, description=_SIGNED)
]


async def signed_cause(
    desk: Tell,
    key: NamePath,
    webhook_id: IdHeader = None,
    webhook_timestamp: TimestampHeader = None,
    webhook_signature: SignatureHeader = None,
) -> str | None:
    """What a signed event comes of, so that a delivery that comes twice is told once; none where nothing is signed."""
    body = await desk.request.body()
    delivery = Delivery(webhook_id, webhook_timestamp, webhook_signature, body)

    async def work(connection: Connection) -> str | None:
        now = desk.house.database.clock.now()
        return await check_delivery(connection, desk.org_id, key, delivery, now)

    return await desk.house.database.run(work, org_id=None)


SignedCause = Annotated[str | None, Depends(signed_cause)]
