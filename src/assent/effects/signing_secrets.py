"""The secrets that sign an org's webhooks (Standard Webhooks): listed, rotated, retired; and the headers they make.

A new secret signs beside the one before, until that is retired: receivers change from one to the other in between,
and accept whichever they know. They are read and written in transactions of the owner.
"""

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from standardwebhooks import Webhook

from assent.model.ids import new_id
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.effects", "effects.sql")

SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """A secret that signs the webhooks of an org, without the secret itself."""

    id: UUID
    created_at: datetime
    retired_at: datetime | None


async def list_signing_secrets(
    connection: Connection, org_id: str, after: UUID | None = None, limit: int | None = None
) -> list[SigningSecret]:
    """Return when the signing secrets of an org were made and retired, newest first."""
    rows = await connection.fetch(_SQL.list_signing_secrets, org_id, after, limit)
    return [SigningSecret(**row) for row in rows]


async def rotate_secret(connection: Connection, org_id: str, now: datetime) -> str:
    """Make a new secret for an org, in a transaction of the owner; this is the only time that it is shown."""
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    await connection.execute(_SQL.keep_secret, org_id, new_id(now), secret, now)
    await connection.execute(_SQL.retire_secrets_but_two, org_id, now)
    return secret


async def retire_old_secrets(connection: Connection, org_id: str, now: datetime) -> int:
    """Let only the newest secret sign from now on, and return how many were retired."""
    done = await connection.execute(_SQL.retire_secrets_but_newest, org_id, now)
    return int(done.removeprefix("UPDATE "))


def signature_headers(secrets: Sequence[str], key: str, body: bytes, now: datetime) -> dict[str, str]:
    """Return the headers by which receivers know that a message is the org's, and recent; none without a secret."""
    if not secrets:
        return {}
    signatures = [Webhook(secret).sign(key, now, body.decode()) for secret in secrets]
    return {
        "webhook-id": key,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }
