"""API keys: made once and shown once, kept as a hash, each with scopes, revocable, maybe expiring."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from assent.http.scopes import unknown_scopes
from assent.model.actor import Actor
from assent.model.ids import new_id
from assent.model.mutation import Refused, Rejection
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.http", "api_keys.sql")

MARK: Final = "ak_"
"""How every key begins, so that it is told from a token, and found where it should not be."""
PREFIX_LENGTH: Final = 11
LISTED_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is listed."""

    id: UUID
    user_id: str
    name: str
    prefix: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        times = ("created_at", "expires_at", "revoked_at")
        return {
            "id": str(self.id),
            "user": self.user_id,
            "name": self.name,
            "prefix": self.prefix,
            "scopes": list(self.scopes),
            **{time: found.isoformat() if (found := getattr(self, time)) else None for time in times},
        }


@dataclass(frozen=True, slots=True)
class FoundKey:
    """Whose a key is, with the rights that they have now."""

    org_id: str
    id: UUID
    scopes: frozenset[str]
    member: Actor
    is_active: bool


async def create_api_key(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    user_id: str,
    name: str,
    now: datetime,
    *,
    scopes: tuple[str, ...] = ("*",),
    expires_at: datetime | None = None,
) -> tuple[str, ApiKey]:
    """A key for a member, and how it is listed from now on; nobody can show it again."""
    if unknown := unknown_scopes(scopes):
        raise Refused(Rejection("UNKNOWN_SCOPE", f"no such scope: {', '.join(unknown)}", ("scopes",)))
    if expires_at is not None and expires_at <= now:
        raise Refused(
            Rejection("BAD_DATES", "the key would have expired before it was made", ("expires_at",))
        )
    text = MARK + secrets.token_urlsafe(32)
    made = ApiKey(new_id(now), user_id, name, text[:PREFIX_LENGTH], scopes, now, expires_at)
    row = (org_id, made.id, user_id, name, made.prefix, hash_of(text), list(scopes), now, expires_at)
    try:
        await connection.execute(_SQL.insert_api_key, *row)
    except asyncpg.ForeignKeyViolationError:
        raise Refused(Rejection("UNKNOWN_USER", f"{user_id} is no member of {org_id}", ("user",))) from None
    return text, made


async def list_api_keys(connection: Connection, org_id: str) -> list[ApiKey]:
    return [_api_key(row) for row in await connection.fetch(_SQL.list_api_keys, org_id, LISTED_MAX)]


async def page_of_api_keys(
    connection: Connection, org_id: str, user_id: str | None, after: UUID | None, limit: int
) -> list[ApiKey]:
    """The same of one member or of all, a page at a time."""
    rows = await connection.fetch(_SQL.page_of_api_keys, org_id, user_id, after, limit)
    return [_api_key(row) for row in rows]


async def revoke_api_key(
    connection: Connection, org_id: str, key_id: UUID, now: datetime, *, user_id: str | None = None
) -> ApiKey:
    """From now on nobody signs in with it. Where `user_id` is given, only if it is theirs."""
    row = await connection.fetchrow(_SQL.revoke_api_key_if_valid, org_id, key_id, now, user_id)
    if row is None:
        raise Refused(Rejection("NOT_FOUND", f"no valid key {key_id}", ("key_id",)))
    return _api_key(row)


async def find_api_key(connection: Connection, text: str, now: datetime) -> FoundKey | None:
    """Whose key this is, if it is valid; asked as the owner, for the org is not known yet."""
    row = await connection.fetchrow(_SQL.find_api_key, hash_of(text))
    if row is None or (row["expires_at"] is not None and row["expires_at"] <= now):
        return None
    member = Actor(row["user_id"], row["kind"], frozenset(row["roles"]), frozenset(row["capabilities"]))
    return FoundKey(row["org_id"], row["id"], frozenset(row["scopes"]), member, row["active"])


def _api_key(row: asyncpg.Record) -> ApiKey:
    return ApiKey(**{**row, "scopes": tuple(row["scopes"])})


def hash_of(text: str) -> str:
    """No salt and no stretching: 256 random bits are not guessed."""
    return hashlib.sha256(text.encode()).hexdigest()
