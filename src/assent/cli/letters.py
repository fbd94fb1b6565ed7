"""Dead letters of all queues as one: events and results not taken, effects not sent, tasks not done."""

from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.cli.actor_options import ActorSession
from assent.cli.ids import GivenId
from assent.cli.progress import Bar
from assent.cli.refusals import as_json, rejection_from
from assent.cli.targets import find_seen_instance
from assent.model.mutation import Refused, Rejection
from assent.operations.dead_letters import DeadLetter, page_of_dead_letters
from assent.runtime.rights import may_operate

Kind = Literal["event", "effect", "result", "task", "instance"]

BATCH: Final = 500
"""How many dead letters are asked for at a time."""


@dataclass(frozen=True, slots=True)
class Letter:
    """An event, an effect, a result or a task that was given up."""

    id: UUID
    kind: Kind
    what: str
    """The type of an event or a task, the destination of an effect, the request that a result came for."""
    created_at: datetime
    attempts: int
    instance_id: UUID | None
    error: str | None
    awaited: bool = False
    """Whether a step waited for it; that step has failed, and is what is tried again."""


@dataclass(slots=True)
class Retried:
    """What was tried again, and what was not."""

    counts: Counter[Kind] = field(default_factory=Counter)
    refused: list[tuple[str, Rejection]] = field(default_factory=list)
    """What stays as it is, and why."""

    def to_json(self) -> dict[str, Any]:
        kinds: tuple[Kind, ...] = ("event", "effect", "result", "task", "instance")
        return {f"{kind}s": self.counts[kind] for kind in kinds} | {
            "refused": [{"id": text, **as_json(why)} for text, why in self.refused]
        }

    async def note(self, text: str, attempt: Awaitable[Kind]) -> None:
        """One that is refused must not keep the others from being tried."""
        try:
            self.counts[await attempt] += 1
        except Exception as error:
            rejection = rejection_from(error)
            if rejection is None:
                raise
            self.refused.append((text, rejection))


async def dead_letters(session: ActorSession, limit: int) -> list[Letter]:
    """The newest of all kinds together."""
    may_operate(session.actor, "retry")
    async with session.reading() as connection:
        found = await page_of_dead_letters(connection, session.org_id, None, None, limit)
    return [_letter(letter) for letter in found]


async def retry_each(session: ActorSession, ids: Sequence[GivenId]) -> Retried:
    """Try some again: dead letters by their ids, instances by the beginning of theirs."""
    may_operate(session.actor, "retry")
    done = Retried()
    for given in ids:
        await done.note(given.text, _retry(session, given))
    return done


async def retry_everything(session: ActorSession, *, shown: bool) -> Retried:
    """Try every dead letter of the org again, all but events in one go and each event by itself."""
    may_operate(session.actor, "retry")
    done = Retried()
    done.counts["effect"] += await session.runtime.org(session.org_id, session.actor).dead_letters.retry_all(
        "effect"
    )
    done.counts["result"] += await session.runtime.org(session.org_id, session.actor).dead_letters.retry_all(
        "result"
    )
    done.counts["task"] += await session.runtime.org(session.org_id, session.actor).tasks.retry_all()
    tried: set[UUID] = set()
    with Bar("events", shown=shown) as bar:
        while letters := await _untried_events(session, tried):
            bar.expect(len(letters))
            for letter in letters:
                tried.add(letter.id)
                await done.note(str(letter.id), _retry_event(session, letter))
                bar.advance()
    return done


async def _untried_events(session: ActorSession, tried: set[UUID]) -> list[Letter]:
    """The next ones; what was refused is still there, before or behind them."""
    rows = await session.runtime.org(session.org_id).dead_letters.list("event", limit=BATCH + len(tried))
    return [_letter(row) for row in rows if row.id not in tried]


async def _retry_event(session: ActorSession, letter: Letter) -> Kind:
    try:
        await session.runtime.org(session.org_id, session.actor).dead_letters.retry(letter.id, "event")
    except Refused as refused:
        # Letters of one instance are tried again together: the others are gone when their turn comes.
        if refused.code != "NOT_FOUND" or letter.instance_id is None:
            raise
    return "event"


async def _retry(session: ActorSession, given: GivenId) -> Kind:
    async with session.reading() as connection:
        instance_id = await find_seen_instance(session, connection, given)
    if instance_id is not None:
        await session.runtime.org(session.org_id, session.actor).instances.retry(instance_id)
        return "instance"
    if given.first != given.last:
        hint = "a dead letter is named by its whole id"
        raise Refused(Rejection("NOT_FOUND", f"no instance {given.text}", ("id",), hint=hint))
    return await _retry_letter(session, given.first)


async def _retry_letter(session: ActorSession, letter_id: UUID) -> Kind:
    try:
        return await session.runtime.org(session.org_id, session.actor).dead_letters.retry(letter_id)
    except Refused as refused:
        if refused.code != "NOT_FOUND":
            raise
        message = f"no dead letter or instance {letter_id}"
        raise Refused(Rejection("NOT_FOUND", message, ("id",))) from None


def _letter(letter: DeadLetter) -> Letter:
    return Letter(**{field.name: getattr(letter, field.name) for field in fields(Letter)})
