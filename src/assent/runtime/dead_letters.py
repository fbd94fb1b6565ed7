"""Dead letters of both queues as one list: events that could not be taken, effects that could not be sent."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "dead_letters.sql")

LetterKind = Literal["event", "effect"]
Place = tuple[datetime, UUID]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event or an effect that was given up."""

    id: UUID
    created_at: datetime
    kind: LetterKind
    what: str
    """The type of an event, the destination of an effect."""
    instance_id: UUID | None
    attempts: int
    error: str | None
    awaited: bool
    """Whether a step waited for it; that step has failed, and is what is tried again."""
    trace_id: str | None


async def page_of_dead_letters(
    connection: Connection, org_id: str, kind: LetterKind | None, after: Place | None, limit: int
) -> list[DeadLetter]:
    """The newest first."""
    at, letter_id = after or (None, None)
    rows = await connection.fetch(_SQL.page_of_dead_letters, org_id, kind, at, letter_id, limit)
    return [DeadLetter(**row) for row in rows]
