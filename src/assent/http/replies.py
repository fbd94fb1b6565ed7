"""Keys for repeats: the first request under an `Idempotency-Key` runs, every later one gets the same reply.

The reply is kept in the transaction of its command. So there is never the one without the other, whatever crashes,
and two requests at once are one after the other.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from assent.http.reply import Reply
from assent.model.mutation import Refused, Rejection
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.http", "replies.sql")

KEY_LENGTH_MAX: Final = 255
REPLAYED: Final = "Idempotent-Replayed"


@dataclass(frozen=True, slots=True)
class RepeatKey:
    """A key that somebody gave to a request. Nobody else's requests meet it."""

    org_id: str
    actor_id: str
    key: str
    request_hash: str
    """Of everything that was asked: the same key with another one is a mistake of the caller."""

    async def find(self, connection: Connection, now: datetime) -> Reply | None:
        """The reply of before; whoever is the second waits here for the first. Raises `Refused` for another request."""
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

    async def keep(self, connection: Connection, reply: Reply, now: datetime, keep: timedelta) -> None:
        place = (self.org_id, self.actor_id, self.key, self.request_hash)
        about = [list(one) for one in reply.about]
        kept = (reply.status, dict(reply.headers), reply.media_type, reply.body, about)
        await connection.execute(_SQL.keep_reply, *place, *kept, now, now + keep)


def request_hash(method: str, path: str, query: str, condition: str | None, body: bytes) -> str:
    """Of what was asked, to the byte, and of the version that was meant."""
    digest = hashlib.sha256()
    for part in (method, path, query, condition or ""):
        digest.update(f"{len(part)}:{part}".encode())
    digest.update(body)
    return digest.hexdigest()
