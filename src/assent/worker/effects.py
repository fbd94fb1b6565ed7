"""Effects: what steps want to be sent is claimed, sent outside of any transaction, and marked.

Up to a number of attempts are under way at once; slow receivers hold up their own effects only. A worker that dies
between the sending and the mark leaves a claim behind that `rescue` finds once the worker's lease is over: what was
sent then is sent again under the same key, or, where that would do harm, given up as ambiguous.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from assent.effects.claimed_effect import ClaimedEffect
from assent.effects.outbox import (
    BEFORE_ALL,
    Destination,
    claim,
    claim_suspect,
    clear_suspects,
    find_destinations,
    give_back_unknown,
    settle,
)
from assent.effects.outcome import EffectResult, Outcome, next_state
from assent.effects.outlets import Outlets
from assent.model.jobs import JobKey
from assent.outbox.emit import emit_events
from assent.requests.close import Lost, fail_requests
from assent.store.database import Connection
from assent.worker.duty import RunResult, Schedule, WorkerContext
from assent.worker.effect_events import answer_of
from assent.worker.instrumentation import SendingSpan, begin_sending, count_marks

DESTINATIONS_MAX: Final = 500
"""How many destinations one claim looks at; the next goes on from there."""

PATIENCE_S: Final = 0.2
"""How long a run waits for the first of its attempts to end, before it looks for more to send."""
GATHERING_S: Final = 0.02
"""How long it then waits for others to end, so that they are marked together."""


class Effects:
    """Sends the effects of all orgs. Attempts go on between its runs; `finish` waits for them."""

    name = "effects"

    def __init__(self, place: WorkerContext) -> None:
        if place.runtime is None:
            raise ValueError(
                "Effects need a runtime, for the ways out of its application; give the workplace one."
            )
        options = place.options
        self.pace = Schedule(options.effects_interval_ms / 1000, ("assent_effects",))
        self._database = place.database
        self._jobs = place.lease.jobs(self._compare, timedelta(milliseconds=options.lease_ms))
        self._settings = place.sending.effects
        self._deliverer = place.sending.deliverer(place.runtime.core.outlets or Outlets())
        self._under_way_max = options.effects_under_way_max
        self._per_destination_max = options.effects_per_destination_max
        self._after: Destination = BEFORE_ALL
        self._under_way: dict[asyncio.Task[Outcome], ClaimedEffect] = {}
        self._marks: list[EffectResult] = []
        """What is known and not yet written; kept while the database is away."""

    async def run_once(self) -> RunResult:
        await self._jobs.keep(self._database)
        await self._write_marks()
        for effect in await self.claim():
            sending = begin_sending(effect)
            attempt = asyncio.create_task(self._attempt(sending), name=f"effect {effect.id}")
            self._under_way[attempt] = sending.effect
        await self._wait_for_some()
        return self._done(await self._write_marks())

    async def finish(self) -> None:
        """Wait for what is under way, mark it, give back what is not, and leave every connection."""
        try:
            while self._under_way:
                await self._jobs.keep(self._database)
                await asyncio.wait(self._under_way, timeout=self.pace.interval_s)
                self._collect()
            await self._write_marks()
            await self._jobs.compare(self._database)
            await self._jobs.lease.end(self._database)
        finally:
            for attempt in self._under_way:
                attempt.cancel()
            await self._deliverer.close()

    async def claim(self) -> list[ClaimedEffect]:
        """Claim what is due, as far as there is room for it, under the worker's lease."""
        room = self._under_way_max - len(self._under_way) if self._jobs.may_claim else 0
        harmless = self._jobs.harmless
        if room <= 0 and not harmless:
            return []

        async def work(connection: Connection) -> tuple[list[ClaimedEffect], set[UUID]]:
            worker_id = self._jobs.worker_id
            cleared = await clear_suspects(connection, worker_id, harmless) if harmless else set()
            return await self._claim(connection, room) if room > 0 else [], cleared

        async with self._jobs.claiming():
            claimed, cleared = await self._database.run(work, org_id=None)
            for effect in claimed:
                self._jobs.begin(effect.job, effect.losses)
        self._jobs.clear(cleared)
        return claimed

    async def _claim(self, connection: Connection, room: int) -> list[ClaimedEffect]:
        worker_id, most = self._jobs.worker_id, self._per_destination_max
        places = await find_destinations(connection, self._after, DESTINATIONS_MAX)
        claimed = await claim(connection, worker_id, places, room, most)
        if self._jobs.may_start_suspect(has_room=len(claimed) < room):
            claimed += await claim_suspect(connection, worker_id, most)
        if claimed:
            await self._jobs.cover(connection)
        self._after = places[-1] if len(places) == DESTINATIONS_MAX else BEFORE_ALL
        return claimed

    async def _compare(self, connection: Connection, known: frozenset[JobKey]) -> None:
        await give_back_unknown(connection, self._jobs.worker_id, known)

    async def _attempt(self, sending: SendingSpan) -> Outcome:
        with sending.scope():
            outcome = await self._deliverer.deliver(sending.effect, self._database.clock.now())
        sending.end(outcome)
        return outcome

    async def _wait_for_some(self) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(self._under_way, timeout=GATHERING_S)
            self._collect()

    def _collect(self) -> None:
        for attempt in [attempt for attempt in self._under_way if attempt.done()]:
            effect = self._under_way.pop(attempt)
            self._marks.append(next_state(effect, attempt.result(), self._settings))

    async def _write_marks(self) -> Sequence[EffectResult]:
        marks = tuple(self._marks)
        if marks:
            worker_id = self._jobs.worker_id
            now = await self._database.run(
                lambda connection: write_marks(connection, worker_id, marks), org_id=None
            )
            del self._marks[: len(marks)]
            self._jobs.end(mark.effect.job for mark in marks)
            if now is not None:
                count_marks(marks, now)
        return marks

    def _done(self, marks: Sequence[EffectResult]) -> RunResult:
        parts: Counter[str] = Counter(mark.status for mark in marks)
        more = bool(self._under_way or marks or self._after != BEFORE_ALL)
        return RunResult(len(marks), more, dict(parts))


async def write_marks(
    connection: Connection, worker_id: UUID, marks: Sequence[EffectResult]
) -> datetime | None:
    """Mark attempts, and tell the steps that await them what became of them; return when, if any were still ours."""
    written, now = await settle(connection, worker_id, marks)
    ended = [mark for mark in marks if mark.effect.awaited and mark.has_ended and mark.effect.id in written]
    if ended and now is not None:
        answers = [mark for mark in ended if mark.effect.awaits_answer]
        await emit_events(connection, [answer_of(mark, now) for mark in answers], now)
        await fail_requests(connection, list(_lost_calls(ended)), now)
    return now


def _lost_calls(ended: Sequence[EffectResult]) -> Iterator[Lost]:
    """Calls that took a request to an outside party, or rather did not."""
    for mark in ended:
        if mark.effect.request_id is not None and mark.status == "dead_letter":
            yield mark.effect.org_id, mark.effect.request_id, mark.error or "the call was given up"
