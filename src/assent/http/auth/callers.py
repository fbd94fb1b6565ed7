"""Callers: from the `Authorization` header, or a session's cookie, to an actor of an org, with its rights now.

Nothing is cached between two requests: a member who leaves and a key that is revoked are refused at once.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from assent.http.auth.cookies import SESSION_SCHEME
from assent.http.auth.key_sets import keys_from
from assent.http.auth.tokens import TokenClaims, Tokens
from assent.http.settings import HttpSettings
from assent.model.actor import Actor
from assent.model.mutation import Rejection
from assent.people.api_keys import EVERYTHING, MARK, KeyMaker, Scope, covers, find_api_key
from assent.people.sessions import find_session, revoke_session_of_former_token
from assent.store.database import Connection, Database
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.http.auth", "callers.sql")


@dataclass(frozen=True, slots=True)
class Caller:
    """A member who signed in."""

    org_id: str
    actor: Actor
    key: str
    """The key of their rates: the member, whatever key or token they use."""
    scopes: frozenset[str] = EVERYTHING
    partition_id: str | None = None
    """The one partition of the org that they see; None for all."""
    place: str | None = None
    """The network address of the caller, for the audit log."""
    key_id: UUID | None = None
    """The API key that they signed in with, or that began their session."""
    session_id: UUID | None = None
    """The session of their browser."""
    expires_at: datetime | None = None
    """When the key or the token expires."""
    token_roles: frozenset[str] = frozenset()
    """The roles that their token gives them, beside those of the member."""

    @property
    def maker(self) -> KeyMaker:
        """The bounds of the keys that they make."""
        member_id = self.actor.maker_id or self.actor.id
        return KeyMaker(member_id, self.key_id, self.scopes, self.expires_at, self.partition_id)

    def may_use(self, scope: Scope) -> Rejection | None:
        """Return a rejection if the caller's API key lacks a scope."""
        if covers(self.scopes, scope):
            return None
        return Rejection("SCOPE_MISSING", f"this API key lacks the scope {scope}", hint="use another key")

    def sees(self, partition_id: str | None) -> bool:
        """Return whether a partition is there for the caller."""
        return self.partition_id in (None, partition_id)


def member_key(user_id: str) -> str:
    """Return the key of a member's rates, by whichever way they come."""
    return f"user:{user_id}"


class SignIn:
    """Finds the caller of a request."""

    def __init__(self, database: Database, settings: HttpSettings) -> None:
        self._database = database
        self._settings = settings
        keys = keys_from(settings, database.clock)
        self._tokens = Tokens(keys, settings, database.clock) if keys is not None else None

    async def caller(self, authorization: str | None, place: str | None) -> Caller | Rejection:
        """Return the caller of a request, or why the credentials are refused."""
        scheme, _, text = (authorization or "").partition(" ")
        text = text.strip()
        if scheme == SESSION_SCHEME and text:
            return await self._by_session(text, place)
        if scheme.lower() != "bearer" or not text:
            hint = "send `Authorization: Bearer …` with a token or an API key"
            return Rejection("NOT_SIGNED_IN", "the request has no credentials", hint=hint)
        if text.startswith(MARK):
            return await self._by_key(text, place)
        if self._tokens is None:
            return Rejection("TOKEN_REFUSED", "this server takes API keys only")
        claims = await self._tokens.read(text)
        return claims if isinstance(claims, Rejection) else await self._by_token(claims, place)

    async def _by_key(self, text: str, place: str | None) -> Caller | Rejection:
        async with self._database.glance() as connection:
            found = await find_api_key(connection, text, self._database.clock.now())
        if found is None:
            return Rejection("API_KEY_REFUSED", "the API key is unknown, revoked or has expired")
        if not found.is_active:
            return _no_member(found.org_id, found.member.id)
        bounds = (found.scopes, found.partition_id, place, found.id, None, found.expires_at)
        return Caller(found.org_id, found.member, member_key(found.member.id), *bounds)

    async def _by_session(self, token: str, place: str | None) -> Caller | Rejection:
        async with self._database.glance() as connection:
            found = await find_session(connection, token, self._database.clock.now())
        if found is None:
            await self._revoke_if_replaced(token)
            return Rejection("SESSION_REFUSED", "the session has ended", hint="sign in again")
        if not found.is_active:
            return _no_member(found.org_id, found.member.id)
        bounds = (found.scopes, found.partition_id, place, found.key_id, found.id, found.expires_at)
        return Caller(found.org_id, found.member, member_key(found.member.id), *bounds)

    async def _revoke_if_replaced(self, token: str) -> None:
        """End the session of a token that a renewal has replaced: two parties have had it."""
        now = self._database.clock.now()
        await self._database.run(
            lambda connection: revoke_session_of_former_token(connection, token, now), org_id=None
        )

    async def _by_token(self, claims: TokenClaims, place: str | None) -> Caller | Rejection:
        roles_from = self._settings.roles_from
        roles = frozenset() if roles_from == "members" else claims.roles
        # One round trip: the statement names the org in each of its tables, so row security has nothing to add.
        async with self._database.glance() as connection:
            actor = await _read_actor(connection, claims.org_id, claims.user_id, roles, roles_from=roles_from)
        if isinstance(actor, Rejection):
            return actor
        bounds = (EVERYTHING, claims.partition_id, place, None, None, claims.expires_at, roles)
        return Caller(claims.org_id, actor, member_key(claims.user_id), *bounds)

    async def again(self, connection: Connection, caller: Caller) -> Caller | Rejection:
        """Return a caller with the rights that this transaction sees, or why the caller is refused by now."""
        if caller.session_id is not None and not await connection.fetchval(
            _SQL.is_session_valid, caller.org_id, caller.session_id
        ):
            return Rejection("SESSION_REFUSED", "the session has ended", hint="sign in again")
        if caller.key_id is None:
            roles_from = self._settings.roles_from if caller.session_id is None else "members"
        elif await connection.fetchval(_SQL.is_key_valid, caller.org_id, caller.key_id):
            roles_from = "members"
        else:
            return Rejection("API_KEY_REFUSED", "the API key was revoked")
        actor = await _read_actor(
            connection, caller.org_id, caller.actor.id, caller.token_roles, roles_from=roles_from
        )
        if isinstance(actor, Rejection):
            return actor
        return replace(caller, actor=replace(actor, maker_id=caller.actor.maker_id))


async def _read_actor(
    connection: Connection, org_id: str, user_id: str, roles: frozenset[str], *, roles_from: str
) -> Actor | Rejection:
    """Return the actor of a session; a member who has left is refused, whatever the token says."""
    row = await connection.fetchrow(_SQL.read_caller, org_id, user_id, sorted(roles), roles_from != "token")
    assert row is not None
    if not row["active"] or (roles_from == "members" and not row["is_member"]):
        return _no_member(org_id, user_id)
    return Actor(user_id, row["kind"], frozenset(row["roles"]), frozenset(row["capabilities"]))


def _no_member(org_id: str, user_id: str) -> Rejection:
    return Rejection("NOT_A_MEMBER", f"{user_id} is no active member of {org_id}")
