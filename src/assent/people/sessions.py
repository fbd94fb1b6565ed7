"""Sessions of browsers: begun with an API key, kept as a hash, renewed under a new token, revocable, with an end.

A session never allows more than the key that began it, and ends with it. A deactivated member loses all sessions.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from assent.model.actor import Actor
from assent.model.ids import new_id
from assent.model.mutation import Refused, Rejection
from assent.people.api_keys import EVERYTHING, hash_of
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.people", "people.sql")

GRACE: Final = timedelta(seconds=60)
"""How long the token before a renewal is valid, for requests that were on their way."""


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """How long sessions last."""

    idle: timedelta
    """Without a renewal."""
    longest: timedelta


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session that has begun, with the token that its cookie carries."""

    id: UUID
    token: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session with its member, and the rights that the member has now."""

    org_id: str
    id: UUID
    member: Actor
    is_active: bool
    expires_at: datetime
    key_id: UUID | None
    scopes: frozenset[str]
    partition_id: str | None


async def begin_session(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    user_id: str,
    now: datetime,
    terms: SessionTerms,
    *,
    key_id: UUID | None = None,
) -> NewSession:
    """Begin a session of an active member; raise `Refused` for every other."""
    ends_at = now + terms.longest
    new = NewSession(new_id(now), secrets.token_urlsafe(32), min(now + terms.idle, ends_at))
    row = (org_id, new.id, user_id, key_id, hash_of(new.token), now, new.expires_at, ends_at)
    if await connection.fetchval(_SQL.insert_session, *row) is None:
        raise Refused(Rejection("NOT_A_MEMBER", f"{user_id} is no active member of {org_id}"))
    return new


async def find_session(connection: Connection, token: str, now: datetime) -> FoundSession | None:
    """Return the valid session of a token, or None; read as the owner, for the org is not known yet."""
    row = await connection.fetchrow(_SQL.find_session, hash_of(token), now, now - GRACE)
    if row is None:
        return None
    maker_id = row["created_by"] if row["created_by"] != row["user_id"] else None
    held = (frozenset(row["roles"]), frozenset(row["capabilities"]))
    return FoundSession(
        row["org_id"],
        row["id"],
        Actor(row["user_id"], row["kind"], *held, maker_id),
        row["active"],
        row["expires_at"],
        row["key_id"],
        EVERYTHING if row["key_id"] is None else frozenset(row["scopes"]),
        row["partition_id"],
    )


async def revoke_session_of_former_token(connection: Connection, token: str, now: datetime) -> bool:
    """End the session of a token that was replaced a while ago; return whether there was one, as the owner.

    A browser has one cookie and sends the last: the former token is that of a thief, or the thief has renewed it.
    """
    found = await connection.fetchval(_SQL.revoke_session_of_former_token, hash_of(token), now, now - GRACE)
    return found is not None


async def renew_session(  # noqa: PLR0913, PLR0917
    connection: Connection, org_id: str, session_id: UUID, token: str, now: datetime, terms: SessionTerms
) -> NewSession | None:
    """Replace the token of a session; return None if another request has just done so."""
    new = secrets.token_urlsafe(32)
    expires_at = await connection.fetchval(
        _SQL.renew_session_if_current, org_id, session_id, hash_of(token), hash_of(new), now, now + terms.idle
    )
    return NewSession(session_id, new, expires_at) if expires_at is not None else None


async def revoke_session(connection: Connection, org_id: str, session_id: UUID, now: datetime) -> None:
    """End a session; one that has ended stays as it is."""
    await connection.execute(_SQL.revoke_session, org_id, session_id, now)
