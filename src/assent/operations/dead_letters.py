"""Dead letters of all queues as one list: events and results not taken, effects not sent, tasks not done."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from assent.model.ids import Cursor
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.operations", "dead_letters.sql")

LetterKind = Literal["event", "effect", "result", "task"]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event, an effect, a result or a task that is dead."""

    id: UUID
    created_at: datetime
    kind: LetterKind
    what: str
    """The type of an event or a task, the destination of an effect, what was asked where a result came for it."""
    instance_id: UUID | None
    attempts: int
    error: str | None
    awaited: bool
    """Whether a step waited for it; that step has failed, and is what is tried again."""
    trace_id: str | None


async def page_of_dead_letters(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    kind: LetterKind | None,
    after: Cursor | None,
    limit: int,
    *,
    partition_id: str | None = None,
    what: str | None = None,
) -> list[DeadLetter]:
    """Return dead letters, newest first: of one kind, one partition, one type or destination, where these are named."""
    at, letter_id = after or (None, None)
    filters = kind, at, letter_id, limit, partition_id, what
    rows = await connection.fetch(_SQL.page_of_dead_letters, org_id, *filters)
    return [DeadLetter(**row) for row in rows]


async def is_letter_of(connection: Connection, org_id: str, letter_id: UUID, partition_id: str) -> bool:
    """Whether a dead letter is one of a partition."""
    return bool(await connection.fetchval(_SQL.is_letter_of_partition, org_id, letter_id, partition_id))
