"""Dead letters of all queues as one list: events and results not taken, effects not sent, tasks not done."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal
from uuid import UUID

from assent.model.actor import Actor
from assent.model.keys import Cursor
from assent.model.mutation import Refused
from assent.store.database import Connection
from assent.store.queries import load_queries

if TYPE_CHECKING:
    from assent.runtime.runtime import Runtime

_SQL: Final = load_queries("assent.operations", "dead_letters.sql")

LetterKind = Literal["event", "effect", "result", "task"]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event, an effect, a result or a task that was given up."""

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
) -> list[DeadLetter]:
    """The newest first; of one partition, where one is given."""
    at, letter_id = after or (None, None)
    rows = await connection.fetch(_SQL.page_of_dead_letters, org_id, kind, at, letter_id, limit, partition_id)
    return [DeadLetter(**row) for row in rows]


async def is_letter_of(connection: Connection, org_id: str, letter_id: UUID, partition_id: str) -> bool:
    """Whether a dead letter is one of a partition."""
    return bool(await connection.fetchval(_SQL.is_letter_of_partition, org_id, letter_id, partition_id))


async def retry_letter(runtime: "Runtime", org_id: str, letter_id: UUID, actor: Actor) -> LetterKind | None:
    """Try a dead letter again, whichever it is: an id is only one of them. None where there is no such letter."""
    ways: tuple[tuple[LetterKind, Callable[[], Awaitable[None]]], ...] = (
        ("event", lambda: runtime.revive(org_id, letter_id, actor)),
        ("effect", lambda: runtime.retry_effect(org_id, letter_id, actor)),
        ("result", lambda: runtime.retry_result(org_id, letter_id, actor)),
        ("task", lambda: runtime.retry_task(org_id, letter_id, actor)),
    )
    for kind, retry in ways:
        try:
            await retry()
        except Refused as refused:
            if refused.code != "NOT_FOUND":
                raise
        else:
            return kind
    return None
