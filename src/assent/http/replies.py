"""Replies: what a route sends back, and the replies that are kept under an `Idempotency-Key`.

The first request under a key runs, every later one gets the same reply. The reply is stored in the transaction of its
command, so there is never one without the other, and concurrent requests under one key run one after the other.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from fastapi import Response
from pydantic import BaseModel

from assent.model.mutation import Refused, Rejection
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.http", "replies.sql")

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"
KEY_LENGTH_MAX: Final = 255
REPLAYED: Final = "Idempotent-Replayed"

About = tuple[str, str]
"""A noun and an id: an object whose content a reply shows."""
T_co = TypeVar("T_co", covariant=True)
B = TypeVar("B", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Reply(Generic[T_co]):
    """A reply, ready to be sent or kept; `T_co` is the shape of its body in the document of the API."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = JSON
    about: tuple[About, ...] = ()
    """The objects that the caller must be allowed to read to get the reply again."""
    again: "Reply[object] | None" = None
    """The reply to a repeat, where the first reply holds a secret."""

    def response(self, root_path: str = "") -> Response:
        """Return the reply as a response of Starlette; `root_path` is where the API is mounted."""
        headers = dict(self.headers)
        if "location" in headers:
            headers["location"] = root_path.rstrip("/") + headers["location"]
        return Response(self.body, self.status, headers, media_type=self.media_type)


def reply_with(
    body: B, status: int = 200, *, about: tuple[About, ...] = (), headers: Mapping[str, str] | None = None
) -> Reply[B]:
    """Return a reply with a body."""
    return Reply(status, body.model_dump_json(), headers or {}, about=about)


@dataclass(frozen=True, slots=True)
class RepeatKey:
    """An `Idempotency-Key` of one actor, with the hash of the request that it was sent with."""

    org_id: str
    actor_id: str
    key: str
    request_hash: str
    """The hash of the whole request: the same key with another request is an error of the caller."""

    async def find(self, connection: Connection, now: datetime) -> Reply[object] | None:
        """Return the kept reply, after waiting for a concurrent first request; raise `Refused` for another request."""
        await connection.execute(_SQL.lock_reply, f"{self.org_id}\n{self.actor_id}\n{self.key}")
        row = await connection.fetchrow(_SQL.find_reply, self.org_id, self.actor_id, self.key, now)
        if row is None:
            return None
        if row["request_hash"] != self.request_hash:
            message = "this key was used for another request"
            raise Refused(Rejection("IDEMPOTENCY_KEY_REUSED", message, hint="a new request needs a new key"))
        headers = {**row["headers"], REPLAYED: "true"}
        about = tuple((noun, named) for noun, named in row["about"])
        return Reply(row["status"], row["body"], headers, row["media_type"], about)

    async def keep(
        self, connection: Connection, reply: Reply[object], now: datetime, keep: timedelta
    ) -> None:
        """Store a reply for as long as `keep`."""
        key = (self.org_id, self.actor_id, self.key, self.request_hash)
        about = [list(one) for one in reply.about]
        kept = (reply.status, dict(reply.headers), reply.media_type, reply.body, about)
        await connection.execute(_SQL.keep_reply, *key, *kept, now, now + keep)


def request_hash(method: str, path: str, query: str, condition: str | None, body: bytes) -> str:
    """Return the hash of a request, to the byte, with the version that `If-Match` names."""
    digest = hashlib.sha256()
    for part in (method, path, query, condition or ""):
        digest.update(f"{len(part)}:{part}".encode())
    digest.update(body)
    return digest.hexdigest()
