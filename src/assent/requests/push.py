"""The way in for results: whichever door a bundle comes by, it is kept once, and folded later by a worker."""

from typing import Final, Literal
from uuid import UUID

from assent.model.outside_request import Bundle
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.requests", "push.sql")

Source = Literal["http", "callback", "python"]

Pushed = Literal["accepted", "repeated", "late"]
"""It is in the queue; or its key was taken before, and nothing happens; or its request has ended, and it counts for
nothing."""


async def push_delivery(
    connection: Connection, request_id: UUID, bundle: Bundle, source: Source, pushed_by: str | None = None
) -> Pushed | None:
    """Keep a bundle for a request of the transaction's org; none where there is no such request."""
    given = (request_id, bundle.key, bundle.to_json(), source, pushed_by)
    pushed: Pushed | None = await connection.fetchval(_SQL.keep_delivery, *given)
    return pushed
