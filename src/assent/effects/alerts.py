"""Alerts: webhooks to an org's own receiver about its incidents. They go through the outbox, signed, as all webhooks.

An alert that has no secret to be signed with is not sent, and one that fails is a dead letter that no alert names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.effects.outbox import NewEffect, enqueue
from assent.model.ids import new_id
from assent.model.job import Effect
from assent.store.database import Connection

ALERT: Final = "alert"
"""What the payload of an effect has that is an alert."""
INCIDENTS_MAX: Final = 100
"""How many incidents one alert names; the next one, a minute later, names others."""


@dataclass(frozen=True, slots=True)
class Alert:
    """What is posted to the receiver of an org."""

    org_id: str
    url: str
    type: Literal["incidents", "test"]
    incidents: Sequence[Mapping[str, Any]] = ()


async def send_alerts(connection: Connection, alerts: Sequence[Alert], now: datetime) -> list[UUID]:
    """Enqueue alerts, and return their ids, which the receiver sees in the body."""
    ids = [new_id(now) for _ in alerts]
    wanted = [_effect_of(alert, alert_id, now) for alert, alert_id in zip(alerts, ids, strict=True)]
    await enqueue(connection, wanted, now)
    return ids


def _effect_of(alert: Alert, alert_id: UUID, now: datetime) -> NewEffect:
    body = {
        "id": str(alert_id),
        "type": alert.type,
        "org_id": alert.org_id,
        "at": now.isoformat(),
        "incidents": [dict(one) for one in alert.incidents],
    }
    payload = {"url": alert.url, "method": "POST", "body": body, ALERT: alert.type}
    effect = Effect("webhook", payload, identity={ALERT: str(alert_id)})
    return NewEffect(alert.org_id, None, None, None, ALERT, effect)
