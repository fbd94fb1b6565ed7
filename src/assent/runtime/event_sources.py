"""Sources of events that sign what they send (Standard Webhooks): kept, rotated, and asked when an event comes in.

A source owns keys by how they begin: an event under such a key is accepted only with its signature, from every caller.
Everything here is done in transactions of the owner: the engine's role has no right to secrets.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import asyncpg
from standardwebhooks import Webhook

from assent.model.mutation import NIL_ID, Refused, Rejection
from assent.model.names import require_name
from assent.store.connection import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

MANAGE_SOURCES: Final = "events:sources"
"""The capability to say whose events must be signed."""

SIGNED_RESULTS: Final = "result:"
"""The prefix of the keys under which sources sign results, before the name: `result:kyc.onboarding.screening`."""
SECRET_BYTES: Final = 32
SECRET_PATTERN: Final = r"^whsec_[A-Za-z0-9+/]{32,88}={0,2}$"  # noqa: S105 - what secrets look like
SIGNED_WITHIN_S: Final = 300
"""How old a signature may be, or how far ahead its clock."""


@dataclass(frozen=True, slots=True)
class EventSource:
    name: str
    key_prefix: str
    created_by: str
    created_at: datetime
    rotated_at: datetime | None
    two_secrets: bool
    """Whether the secret before the newest still holds."""


@dataclass(frozen=True, slots=True)
class SignedDelivery:
    """What a request says of its signature."""

    id: str | None
    timestamp: str | None
    signatures: str | None
    body: bytes


async def list_event_sources(
    connection: Connection, org_id: str, after: str | None, limit: int
) -> list[EventSource]:
    rows = await connection.fetch(_SQL.list_event_sources, org_id, after, limit)
    return [EventSource(**row) for row in rows]


async def create_event_source(  # noqa: PLR0913, PLR0917
    connection: Connection,
    org_id: str,
    name: str,
    key_prefix: str,
    secret: str | None,
    created_by: str,
    now: datetime,
) -> tuple[str, EventSource]:
    """Return a source and its secret, a fresh one unless the sender has given us theirs; raise `Refused`."""
    require_name(name, "name")
    require_name(key_prefix, "key_prefix")
    secret = secret or _new_secret()
    given = (org_id, name, key_prefix, secret, created_by, now)
    row = await connection.fetchrow(_SQL.insert_event_source_if_new, *given)
    if row is None:
        message = f"there is a source {name} already, or one for keys that begin with {key_prefix}"
        raise Refused(Rejection("ALREADY_EXISTS", message, ("name",)))
    return secret, EventSource(**row)


async def rotate_event_secret(
    connection: Connection, org_id: str, name: str, secret: str | None, now: datetime
) -> tuple[str, EventSource]:
    """Return a new secret, beside which the one before holds until it is retired."""
    secret = secret or _new_secret()
    row = await connection.fetchrow(_SQL.rotate_event_secret, org_id, name, secret, now)
    return secret, _found(row, name)


async def retire_former_secret(connection: Connection, org_id: str, name: str) -> EventSource:
    return _found(await connection.fetchrow(_SQL.retire_former_event_secret, org_id, name), name)


async def delete_event_source(connection: Connection, org_id: str, name: str) -> EventSource:
    return _found(await connection.fetchrow(_SQL.delete_event_source, org_id, name), name)


async def check_delivery(
    connection: Connection, org_id: str, key: str, delivery: SignedDelivery, now: datetime
) -> str | None:
    """Return the cause of a signed event; None if its key is of no source. Raise `Refused` without a good signature."""
    row = await connection.fetchrow(_SQL.find_event_source, org_id, key)
    if row is None:
        return None
    if refused := signature_problem(row["secrets"], delivery, now):
        raise Refused(refused)
    return f"{row['name']}:{delivery.id}"


async def require_unsigned(connection: Connection, org_id: str, name: str) -> None:
    """Raise `Refused` where a source signs the results of requests of this name: they come with its signature."""
    key = f"{SIGNED_RESULTS}{name}"
    if await connection.fetch(_SQL.find_signed_keys, [org_id], [key]):
        message = f"results of {name} must be signed by their source"
        raise Refused(Rejection("SIGNATURE_MISSING", message, hint="push them over HTTP, with the signature"))


def require_bound(named: object, meant: object) -> None:
    """Raise `Refused` unless what was signed names what it is taken for; else it is good for all of its source."""
    if named == meant:
        return
    found = "nothing" if named is None else repr(str(named))
    message = f"expected the signed body to name {str(meant)!r}, which it is sent for; it names {found}"
    raise Refused(Rejection("SIGNATURE_REFUSED", message))


async def take_delivery(connection: Connection, org_id: str, cause: str, now: datetime) -> bool:
    """Take a signed delivery, in the transaction of what it brings; false where it was taken before, for any key."""
    receipt = hashlib.sha256(f"delivery\0{cause}".encode()).hexdigest()
    taken = await connection.fetchval(_SQL.take_delivery_if_new, org_id, NIL_ID, receipt, now)
    return taken is not None


def signature_problem(known: Sequence[str], delivery: SignedDelivery, now: datetime) -> Rejection | None:
    """Return why a delivery is not what one of these secrets signed a moment ago."""
    if not (delivery.id and delivery.timestamp and delivery.signatures):
        message = (
            "events under this key are signed: webhook-id, webhook-timestamp and webhook-signature are needed"
        )
        return Rejection("SIGNATURE_MISSING", message)
    if not re.fullmatch(r"[0-9]{1,11}", delivery.timestamp):
        return Rejection("SIGNATURE_REFUSED", "expected webhook-timestamp in seconds since 1970")
    signed_at = datetime.fromtimestamp(int(delivery.timestamp), UTC)
    if abs((now - signed_at).total_seconds()) > SIGNED_WITHIN_S:
        message = f"it was signed more than {SIGNED_WITHIN_S} s ago, or ahead of now"
        return Rejection("SIGNATURE_REFUSED", message)
    expected = [Webhook(secret).sign(delivery.id, signed_at, _text(delivery.body)) for secret in known]
    given = delivery.signatures.split(" ")
    if any(_same(one, other) for one in expected for other in given):
        return None
    return Rejection("SIGNATURE_REFUSED", "the signature is not that of the source")


def _same(expected: str, given: str) -> bool:
    return hmac.compare_digest(expected.encode(), given.encode())


def _text(body: bytes) -> str:
    # The library signs texts. Bytes that are none are read as another text, which was not signed.
    return body.decode(errors="replace")


def _new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def _found(row: asyncpg.Record | None, name: str) -> EventSource:
    if row is None:
        raise Refused(Rejection("NOT_FOUND", f"no source {name}", ("name",)))
    return EventSource(**row)
