"""Webhooks: from an effect to a request, with its key and its signature (Standard Webhooks)."""

from datetime import datetime
from typing import Final

import orjson

from assent.effects.alerts import ALERT
from assent.effects.callbacks import Callbacks
from assent.effects.claimed_effect import ClaimedEffect
from assent.effects.named_secrets import fill_headers
from assent.effects.requests import HttpRequest, own_headers, read_url
from assent.effects.signing_secrets import signature_headers
from assent.jobs.job import Failed
from assent.telemetry import is_traceparent

USER_AGENT: Final = "Assent"

REQUEST_HEADER: Final = "assent-request"
CALLBACK_HEADER: Final = "assent-callback"

_OURS_ALONE: Final = (
    CALLBACK_HEADER,
    REQUEST_HEADER,
    "connection",
    "content-length",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
)
"""Headers that no author sets: how the message is carried, and who vouches for it."""


def webhook_request(
    effect: ClaimedEffect, now: datetime, callbacks: Callbacks | None = None
) -> HttpRequest | Failed:
    payload = effect.payload
    url = read_url(payload["url"])
    if isinstance(url, Failed):
        return url
    if ALERT in payload and not effect.secrets:
        message = "an alert is signed, and the org has no signing secret: make one with `assent signing-secrets rotate`"
        return Failed("SECRET_MISSING", message, permanent=True)
    body = None if payload.get("body") is None else orjson.dumps(payload["body"])
    ours = standard_headers(effect) | signature_headers(effect.secrets, effect.key, body or b"", now)
    ours |= _return_path(effect, now, callbacks)
    given = {"content-type": "application/json"} if body is not None else {}
    given |= {name.lower(): value for name, value in payload.get("headers", {}).items()}
    filled = fill_headers(payload.get("secret_headers", {}), effect.named_secrets, url)
    if isinstance(filled, Failed):
        return filled
    given |= {name.lower(): value for name, value in filled.items()}
    return HttpRequest(payload["method"], url, own_headers(given, ours, _OURS_ALONE), body)


def _return_path(effect: ClaimedEffect, now: datetime, callbacks: Callbacks | None) -> dict[str, str]:
    """Return where the results of a request go: its id, and an address that needs no sign-in, where there is one."""
    if effect.request_id is None:
        return {}
    found = {REQUEST_HEADER: str(effect.request_id)}
    if callbacks is not None:
        found[CALLBACK_HEADER] = callbacks.url(effect.org_id, effect.request_id, now)
    return found


def standard_headers(effect: ClaimedEffect) -> dict[str, str]:
    """Return the headers of every request; they ask for no compression: a response could expand without limit."""
    ours = {"user-agent": USER_AGENT, "accept-encoding": "identity", "idempotency-key": effect.key}
    trace = effect.trace_id
    return ours | {"traceparent": trace} if trace and is_traceparent(trace) else ours
