"""Comments on entities, and the questions that approvers ask originators.

What was written stays. A question is answered once, by its addressee, or closed when its request ends.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Self
from uuid import UUID

from assent.model.cursor import ItemPage, position_of, time_and_id_in
from assent.model.mutation import Refused, Rejection
from assent.model.names import require_name
from assent.store.connection import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row, from_row

_SQL: Final = load_queries("assent.people", "people.sql")

COMMENT_LENGTH_MAX: Final = 2_000
MENTIONS_MAX: Final = 20
QUESTIONS_OPEN_MAX: Final = 20
"""Of one approval request, so that its requester is not flooded."""

_AT: Final = re.compile(r"(?<![\w@])@(?=(\S{1,200}))")
"""An `@` that begins a word, with the rest of the word; that of an address follows a letter."""
_END: Final = re.compile(r"(?<=\w)(?=\W|\Z)")
"""Where a name may end: after a letter or a digit, so that what follows it in a sentence is no part of it."""


@dataclass(frozen=True, slots=True)
class NewComment:
    """A comment on an entity, or, with a request and its addressee, a question."""

    id: UUID
    org_id: str
    author_id: str
    text: str
    partition_id: str | None = None
    entity_type: str | None = None
    entity_id: UUID | None = None
    entity_version: int = 0
    mentions: tuple[str, ...] = ()
    request_id: UUID | None = None
    instance_id: UUID | None = None
    asks: str | None = None


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, or a question with its answer."""

    org_id: str
    id: UUID
    kind: Literal["comment", "question"]
    author_id: str
    text: str
    mentions: tuple[str, ...]
    """The members that the text names, and who were notified."""
    partition_id: str | None
    entity_type: str | None
    entity_id: UUID | None
    entity_version: int
    """The version that it was written at."""
    request_id: UUID | None
    instance_id: UUID | None
    asks: str | None
    """Who is to answer; None for a comment."""
    answer: str | None
    answered_at: datetime | None
    closed_at: datetime | None
    """When the request of a question ended without an answer."""
    created_at: datetime

    @classmethod
    def of(cls, row: Row) -> Self:
        return from_row(cls, row, mentions=tuple(row["mentions"]))

    @property
    def status(self) -> Literal["open", "answered", "closed"] | None:
        """Where a question stands; None for a comment."""
        if self.kind == "comment":
            return None
        return "answered" if self.answered_at else "closed" if self.closed_at else "open"

    @property
    def position(self) -> tuple[str, str]:
        """Where it stands in a list."""
        return self.created_at.isoformat(), str(self.id)


def check_text(text: str, name: str = "text") -> str:
    """Return a text that people wrote; raise `Refused` for one that is blank or too long."""
    require_name(text, name, length_max=COMMENT_LENGTH_MAX)
    return text


def names_in(text: str) -> list[str]:
    """Return every name that a text may mention, such as `bob` and `bob.roe` of `@bob.roe,`."""
    words = (found[1] for found in _AT.finditer(text))
    return list(dict.fromkeys(word[: end.start()] for word in words for end in _END.finditer(word)))


def mentioned_in(text: str, members: Sequence[str]) -> list[str]:
    """Return the members that a text mentions, each once; of two that fit one word, the longer."""
    known = frozenset(members)
    found = (
        max((name for name in names_in(f"@{word[1]}") if name in known), key=len, default=None)
        for word in _AT.finditer(text)
    )
    return list(dict.fromkeys(name for name in found if name is not None))


async def insert_comment(connection: Connection, new: NewComment, now: datetime) -> Comment:
    row = await connection.fetchrow(
        _SQL.insert_comment,
        *(new.org_id, new.id, "question" if new.asks else "comment", new.author_id, new.text),
        *(list(new.mentions), new.partition_id, new.entity_type, new.entity_id, new.entity_version),
        *(new.request_id, new.instance_id, new.asks, now),
    )
    assert row is not None
    return Comment.of(row)


async def count_question_if_pending(connection: Connection, org_id: str, request_id: UUID) -> bool:
    """Count one more question on a request, which stays pending until this transaction ends; False if it has ended."""
    return await connection.fetchval(_SQL.count_question_if_pending, org_id, request_id) is not None


async def count_open_questions(connection: Connection, org_id: str, request_id: UUID) -> int:
    return int(await connection.fetchval(_SQL.count_open_questions, org_id, request_id))


async def answer_if_open(
    connection: Connection, org_id: str, question_id: UUID, text: str, now: datetime
) -> Comment | None:
    """Answer a question; None if it was answered before, or its request has ended."""
    row = await connection.fetchrow(_SQL.answer_question_if_open, org_id, question_id, text, now)
    return Comment.of(row) if row is not None else None


async def read_question(connection: Connection, org_id: str, question_id: UUID) -> Comment:
    """Return a question; raise `Refused` if there is none."""
    row = await connection.fetchrow(_SQL.read_question, org_id, question_id)
    if row is None:
        raise no_question(question_id)
    return Comment.of(row)


def no_question(question_id: UUID) -> Refused:
    return Refused(Rejection("NOT_FOUND", f"no question {question_id}", ("question_id",)))


async def page_of_comments(
    connection: Connection, org_id: str, entity_id: UUID, cursor: str | None, limit: int
) -> ItemPage[Comment]:
    """Return a page of the comments on an entity and of the questions about it, newest first."""
    before = position_of(cursor, time_and_id_in) or (None, None)
    rows = await connection.fetch(_SQL.list_comments_of_entity, org_id, entity_id, *before, limit + 1)
    return _page(rows, limit)


async def page_of_questions(
    connection: Connection, org_id: str, request_id: UUID, cursor: str | None, limit: int
) -> ItemPage[Comment]:
    """Return a page of the questions on an approval request, oldest first."""
    after = position_of(cursor, time_and_id_in) or (None, None)
    rows = await connection.fetch(_SQL.list_questions_of_request, org_id, request_id, *after, limit + 1)
    return _page(rows, limit)


def _page(rows: Sequence[Any], limit: int) -> ItemPage[Comment]:
    return ItemPage.of([Comment.of(row) for row in rows], limit, lambda one: one.position)
