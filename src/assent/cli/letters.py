"""Dead letters of all queues in one list: events, effects, results and tasks."""

from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from json import dumps
from typing import Final
from uuid import UUID

from assent.cli.output import Bar
from assent.cli.refusals import as_json, rejection_from
from assent.cli.session import ActorSession
from assent.jobs.dead_letters import awaited_rejection
from assent.model.cursor import position_of, time_and_id_in
from assent.model.mutation import Refused, Rejection
from assent.operations.queues import DeadLetter, LetterKind, page_of_dead_letters
from assent.runtime.rights import may_operate

BATCH: Final = 500
"""How many dead letters are read at a time."""


@dataclass(slots=True)
class Retried:
    """How many were retried, and which were refused."""

    counts: Counter[LetterKind] = field(default_factory=Counter)
    refused: list[tuple[str, Rejection]] = field(default_factory=list)
    """Id and reason of each that stays dead."""

    def to_json(self) -> str:
        kinds: tuple[LetterKind, ...] = ("event", "effect", "result", "task")
        refused = [{"id": text, **as_json(why)} for text, why in self.refused]
        return dumps({**{f"{kind}s": self.counts[kind] for kind in kinds}, "refused": refused})

    async def note(self, text: str, attempt: Awaitable[LetterKind]) -> None:
        """Count an attempt, or note why it was refused, so that the others are retried too."""
        with self.noting(text):
            self.counts[await attempt] += 1

    async def note_all(self, kind: LetterKind, attempt: Awaitable[int]) -> None:
        """Count the letters of a kind that are retried at once."""
        with self.noting(f"all {kind}s"):
            self.counts[kind] += await attempt

    @contextmanager
    def noting(self, text: str) -> Iterator[None]:
        """Keep the reason of what fails: the command has more to say than that."""
        try:
            yield
        except Exception as error:
            rejection = rejection_from(error)
            if rejection is None:
                raise
            self.refused.append((text, rejection))


async def dead_letters(session: ActorSession, cursor: str | None, limit: int) -> list[DeadLetter]:
    """Return dead letters of all kinds together, newest first."""
    may_operate(session.actor, "retry")
    after = position_of(cursor, time_and_id_in)
    async with session.reading() as connection:
        return await page_of_dead_letters(connection, session.org_id, None, after, limit)


async def retry_each(session: ActorSession, ids: Sequence[UUID]) -> Retried:
    """Retry dead letters by their ids."""
    may_operate(session.actor, "retry")
    done = Retried()
    for letter_id in ids:
        await done.note(str(letter_id), _retry(session, letter_id))
    return done


async def discard_each(session: ActorSession, ids: Sequence[UUID], reason: str) -> Retried:
    """Discard dead letters by their ids."""
    may_operate(session.actor, "repair")
    done = Retried()
    for letter_id in ids:
        await done.note(str(letter_id), session.commands.dead_letters.discard(letter_id, reason))
    return done


async def retry_everything(session: ActorSession, *, shown: bool) -> Retried:
    """Retry every dead letter of the org: each event by itself, the other kinds in one statement each."""
    may_operate(session.actor, "retry")
    done = Retried()
    await done.note_all("effect", session.commands.dead_letters.retry_all("effect"))
    await done.note_all("result", session.commands.dead_letters.retry_all("result"))
    await done.note_all("task", session.commands.dead_letters.retry_all("task"))
    tried: set[UUID] = set()
    with done.noting("all events"), Bar("events", shown=shown) as bar:
        while letters := await _untried_events(session, tried):
            bar.expect(len(letters))
            for letter in letters:
                tried.add(letter.id)
                await done.note(str(letter.id), _retry_event(session, letter))
                bar.advance()
    await _note_awaited(session, done)
    return done


async def _note_awaited(session: ActorSession, done: Retried) -> None:
    """Note effects and tasks that stay dead because a step awaited them."""
    after = None
    while letters := await session.commands.dead_letters.list(after=after, limit=BATCH):
        for letter in letters:
            if letter.awaited:
                done.refused.append((str(letter.id), awaited_rejection(letter.kind, letter.id)))
        after = letters[-1].created_at, letters[-1].id


async def _untried_events(session: ActorSession, tried: set[UUID]) -> list[DeadLetter]:
    """Return the next ones; those that were refused are still in the list."""
    rows = await session.commands.dead_letters.list("event", limit=BATCH + len(tried))
    return [row for row in rows if row.id not in tried]


async def _retry_event(session: ActorSession, letter: DeadLetter) -> LetterKind:
    try:
        await session.commands.dead_letters.retry(letter.id, "event")
    except Refused as refused:
        # Events of one instance are retried together: the others are no longer dead when their turn comes.
        if refused.code != "NOT_FOUND" or letter.instance_id is None:
            raise
    return "event"


async def _retry(session: ActorSession, letter_id: UUID) -> LetterKind:
    try:
        return await session.commands.dead_letters.retry(letter_id)
    except Refused as refused:
        if refused.code != "NOT_FOUND":
            raise
        hint = "an instance is retried by `assent instances retry`"
        raise Refused(Rejection("NOT_FOUND", f"no dead letter {letter_id}", ("id",), hint=hint)) from None
