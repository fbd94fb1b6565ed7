"""API keys: shown once, stored as a hash, each with scopes, revocable, with an optional expiry.

A key never allows more, elsewhere or longer than the session that made it, and is revoked with the key that made it.
A scope narrows what the key's member may do; it never widens it.
"""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

import asyncpg

from assent.model.actor import Actor
from assent.model.ids import new_id
from assent.model.mutation import Refused, Rejection
from assent.model.names import require_name
from assent.people.members import lock_grants
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.people", "people.sql")

Scope = Literal[
    "workflows:read",
    "workflows:write",
    "entities:read",
    "entities:write",
    "approvals:read",
    "approvals:write",
    "events:write",
    "requests:read",
    "requests:write",
    "documents:read",
    "documents:write",
    "sources:read",
    "sources:write",
    "secrets:read",
    "secrets:write",
    "definitions:read",
    "definitions:write",
    "org:read",
    "org:write",
    "rules:read",
    "rules:write",
    "members:read",
    "members:write",
    "keys:read",
    "keys:write",
    "tasks:read",
    "tasks:write",
    "schedules:read",
    "schedules:write",
    "verbs:read",
    "verbs:write",
    "audit:read",
    "operations:read",
    "operations:write",
]

SCOPES: Final[tuple[str, ...]] = Scope.__args__  # type: ignore[attr-defined]
EVERYTHING: Final = frozenset({"*"})
"""The scopes of a caller who signed in by token: everything that the member may do."""

MANAGE_KEYS: Final = "keys:manage"
"""The capability to make keys for service accounts, and to list and revoke all keys."""

MARK: Final = "ak_"
"""The prefix of every key: it tells a key from a token, and finds keys in places where they should not be."""
PREFIX_LENGTH: Final = 11
KEYS_OF_MEMBER_MAX: Final = 20
"""The number of valid keys of one member, without a setting."""


def covers(held: frozenset[str], wanted: str) -> bool:
    """Return whether the scopes that are held include one."""
    return not held.isdisjoint({"*", wanted, f"{wanted.partition(':')[0]}:*"})


def covers_all(held: frozenset[str], wanted: Iterable[str]) -> bool:
    """Return whether the scopes that are held include all of some others."""
    return all(covers(held, scope) for scope in wanted)


def unknown_scopes(scopes: Iterable[str]) -> list[str]:
    """Return the scopes that do not exist."""
    known = {"*", *SCOPES, *(f"{scope.partition(':')[0]}:*" for scope in SCOPES)}
    return [scope for scope in scopes if scope not in known]


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key, without its text."""

    id: UUID
    user_id: str
    name: str
    prefix: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None = None
    partition_id: str | None = None
    """The one partition of the org that its holder sees; None for all."""
    parent_id: UUID | None = None
    """The key that made it."""
    created_by: str | None = None
    """The member who made it, also for a service account; None for an operator."""


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key with its member, and the rights that the member has now."""

    org_id: str
    id: UUID
    scopes: frozenset[str]
    member: Actor
    is_active: bool
    expires_at: datetime | None
    partition_id: str | None


@dataclass(frozen=True, slots=True)
class KeyTerms:
    """The scopes, expiry and partition of a key; None takes the value of the maker's session."""

    scopes: tuple[str, ...] | None
    expires_at: datetime | None
    partition_id: str | None


@dataclass(frozen=True, slots=True)
class KeyMaker:
    """The session that makes a key: the key's upper bounds. An operator has none."""

    member_id: str | None = None
    key_id: UUID | None = None
    """The key that the maker signed in with."""
    scopes: frozenset[str] = EVERYTHING
    expires_at: datetime | None = None
    partition_id: str | None = None

    def bound(self, terms: KeyTerms, now: datetime) -> KeyTerms:
        """Return the terms, completed by the maker's own; raise `Refused` if they reach further."""
        scopes = tuple(sorted(self.scopes)) if terms.scopes is None else terms.scopes
        expires_at = terms.expires_at or self.expires_at
        partition_id = terms.partition_id or self.partition_id
        if unknown := unknown_scopes(scopes):
            raise Refused(Rejection("UNKNOWN_SCOPE", f"no such scope: {', '.join(unknown)}", ("scopes",)))
        if not covers_all(self.scopes, scopes):
            message = "a key cannot make one that may do more than itself"
            raise Refused(Rejection("SCOPE_MISSING", message, ("scopes",)))
        if expires_at is not None and expires_at <= now:
            message = "the key would have expired before it was made"
            raise Refused(Rejection("BAD_DATES", message, ("expires_at",)))
        if self.expires_at is not None and (expires_at is None or expires_at > self.expires_at):
            message = f"expected a key that expires with its maker's session, by {self.expires_at}"
            raise Refused(Rejection("POLICY_DENIED", message, ("expires_at",)))
        if self.partition_id not in (None, partition_id):
            message = f"expected a key for the maker's own partition, {self.partition_id}"
            raise Refused(Rejection("POLICY_DENIED", message, ("partition_id",)))
        return KeyTerms(scopes, expires_at, partition_id)


OPERATOR: Final = KeyMaker()
"""An operator, who has access to the database itself."""


async def create_api_key(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    user_id: str,
    name: str,
    now: datetime,
    *,
    scopes: tuple[str, ...] | None = None,
    expires_at: datetime | None = None,
    partition_id: str | None = None,
    maker: KeyMaker = OPERATOR,
    keys_max: int = KEYS_OF_MEMBER_MAX,
) -> tuple[str, ApiKey]:
    """Create a key for a member; return its text, which cannot be shown again, and its entry. Raise `Refused`."""
    require_name(name, "name")
    terms = maker.bound(KeyTerms(scopes, expires_at, partition_id), now)
    await lock_grants(connection, org_id)
    if await connection.fetchval(_SQL.count_valid_api_keys, org_id, user_id, now) >= keys_max:
        message = f"{user_id} has {keys_max} valid keys, the most that a member may have"
        raise Refused(Rejection("TOO_MANY_KEYS", message, ("user",), hint="revoke one that is not used"))
    text = MARK + secrets.token_urlsafe(32)
    made = ApiKey(
        new_id(now),
        user_id,
        name,
        text[:PREFIX_LENGTH],
        terms.scopes or (),
        now,
        terms.expires_at,
        None,
        terms.partition_id,
        maker.key_id,
        maker.member_id,
    )
    row = (
        org_id,
        made.id,
        user_id,
        name,
        made.prefix,
        hash_of(text),
        list(made.scopes),
        now,
        made.expires_at,
    )
    inherited = (made.partition_id, made.parent_id, made.created_by)
    try:
        kept = await connection.fetchval(_SQL.insert_api_key_if_allowed, *row, *inherited)
    except asyncpg.ForeignKeyViolationError:
        raise Refused(Rejection("UNKNOWN_USER", f"{user_id} is no member of {org_id}", ("user",))) from None
    if kept is None:
        raise Refused(Rejection("API_KEY_REFUSED", "the key that would make it was revoked meanwhile"))
    return text, made


async def page_of_api_keys(
    connection: Connection, org_id: str, user_id: str | None, after: UUID | None, limit: int
) -> list[ApiKey]:
    """Return one page of the keys of a member, or of the org."""
    rows = await connection.fetch(_SQL.page_of_api_keys, org_id, user_id, after, limit)
    return [_api_key(row) for row in rows]


async def revoke_api_key(
    connection: Connection, org_id: str, key_id: UUID, now: datetime, *, user_id: str | None = None
) -> ApiKey:
    """Revoke a key and all keys that were made with it; with `user_id`, only a key of that member."""
    await lock_grants(connection, org_id)
    rows = await connection.fetch(_SQL.revoke_api_keys_if_valid, org_id, key_id, now, user_id)
    revoked = [_api_key(row) for row in rows if row["id"] == key_id]
    if not revoked:
        raise Refused(Rejection("NOT_FOUND", f"no valid key {key_id}", ("key_id",)))
    return revoked[0]


async def find_api_key(connection: Connection, text: str, now: datetime) -> FoundKey | None:
    """Return the valid key of a text, or None; read as the owner, for the org is not known yet."""
    row = await connection.fetchrow(_SQL.find_api_key, hash_of(text))
    if row is None or (row["expires_at"] is not None and row["expires_at"] <= now):
        return None
    maker_id = row["created_by"] if row["created_by"] != row["user_id"] else None
    held = (frozenset(row["roles"]), frozenset(row["capabilities"]))
    member = Actor(row["user_id"], row["kind"], *held, maker_id)
    bounds = (row["expires_at"], row["partition_id"])
    return FoundKey(row["org_id"], row["id"], frozenset(row["scopes"]), member, row["active"], *bounds)


def _api_key(row: asyncpg.Record) -> ApiKey:
    return ApiKey(**{**row, "scopes": tuple(row["scopes"])})


def hash_of(text: str) -> str:
    """Return the hash of a key, without salt or stretching: 256 random bits cannot be guessed."""
    return hashlib.sha256(text.encode()).hexdigest()
