"""Effects: what steps want to be sent is claimed, sent outside of any transaction, and settled.

What ended is written in the transaction that claims what comes next. Up to a number of attempts are under way at once;
slow receivers hold up their own effects only. A worker that dies
between the sending and the settling leaves a claim behind that `rescue` finds once the worker's lease is over: what was
sent then is sent again under the same key, or, where that would do harm, is dead as ambiguous.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from assent.effects.claimed_effect import ClaimedEffect
from assent.effects.outbox import find_requests, load_effects, show_evidence
from assent.effects.outcome import EffectResult, effect_result, retry_policy
from assent.effects.outlets import Outlets
from assent.jobs.job import JobOutcome, Succeeded
from assent.jobs.queue import JobRow, settle_if_claimed, settle_if_open
from assent.model.graph import Outcome
from assent.model.mutation import Event
from assent.model.timing import jittered
from assent.outbox.events import completion_event, emit_events
from assent.requests.outside_requests import fail_requests
from assent.runtime.declared_names import find_declared, names_of
from assent.runtime.event_processor import NEWER_CODE_RETRY_S
from assent.store.database import Connection
from assent.store.rows import Row
from assent.worker.duty import RunResult, Schedule, WorkerContext
from assent.worker.instrumentation import SendingSpan, begin_sending, count_effects
from assent.worker.jobs import JobDuty

PATIENCE_S: Final = 0.2
"""How long a run waits for the first of its attempts to end, before it looks for more to send."""
GATHERING_S: Final = 0.02
"""How long it then waits for others to end, to settle them together; and for another worker's claim to end."""

NOTHING: Final = ""
"""What an effect needs of the application's code, where it needs nothing."""


class Effects(JobDuty[ClaimedEffect]):
    """Sends the effects of all orgs. Attempts go on between its runs; `finish` waits for them."""

    name = "effects"
    kind = "effect"

    def __init__(self, place: WorkerContext) -> None:
        if place.runtime is None:
            raise ValueError(
                "Effects need a runtime, for the ways out of its application; give the workplace one."
            )
        options = place.options
        super().__init__(place, running_per_lane_max=options.effects_per_destination_max)
        self.pace = Schedule(options.effects_interval_ms / 1000, ("assent_effects",))
        self._retries = retry_policy(place.sending.effects)
        self._deliverer = place.sending.deliverer(place.runtime.core.outlets or Outlets())
        self._known = {NOTHING, *names_of(place.runtime.core)}
        self._under_way_max = options.effects_under_way_max
        self._under_way: dict[asyncio.Task[JobOutcome], ClaimedEffect] = {}
        self._results: list[EffectResult] = []
        """What is known and not yet written; kept while the database is away."""

    async def run_once(self) -> RunResult:
        await self._jobs.keep(self._database)
        results, claimed = await self._hand_in(self._room())
        for effect in claimed:
            sending = begin_sending(effect)
            attempt = asyncio.create_task(self._attempt(sending), name=f"effect {effect.id}")
            self._under_way[attempt] = sending.effect
        await self._wait_for_some()
        parts: Counter[str] = Counter(result.status for result in results)
        is_open = self._queue.has_busy_lanes or not self._queue.has_gone_around
        more = bool(self._under_way or self._results or results) or is_open
        return RunResult(len(results), more, dict(parts))

    async def finish(self) -> None:
        """Wait for what is under way, settle it, give back what is not, and leave every connection."""
        try:
            while self._under_way:
                await self._jobs.keep(self._database)
                await asyncio.wait(self._under_way, timeout=self.pace.interval_s)
                self._collect()
            await self._hand_in(0)
            await self._jobs.compare(self._database)
            await self._jobs.lease.end(self._database)
        finally:
            for attempt in self._under_way:
                attempt.cancel()
            await self._deliverer.close()

    async def claim(self) -> list[ClaimedEffect]:
        """Claim what is due, as far as there is room for it, under the worker's lease."""
        _, claimed = await self._hand_in(self._room())
        return claimed

    def _room(self) -> int:
        return max(0, self._under_way_max - len(self._under_way)) if self._jobs.may_claim else 0

    async def _hand_in(self, room: int) -> tuple[Sequence[EffectResult], list[ClaimedEffect]]:
        """Settle what ended, and claim what there is room for; return both."""
        results = tuple(self._results)
        claimed, now = await self._exchange(results, room)
        del self._results[: len(results)]
        if now is not None:
            count_effects(results, now)
        return results, claimed

    async def _load(self, connection: Connection, jobs: Sequence[JobRow]) -> list[ClaimedEffect]:
        return await self._leave_to_newer_code(connection, await load_effects(connection, jobs))

    async def _leave_to_newer_code(
        self, connection: Connection, effects: list[ClaimedEffect]
    ) -> list[ClaimedEffect]:
        """Return the effects that this worker can send; leave to newer code what that declares."""
        unknown = {effect.id: name for effect in effects if (name := _name_called(effect)) not in self._known}
        if not unknown:
            return effects
        declared = await find_declared(connection, list(unknown.values()))
        left = [effect for effect in effects if unknown.get(effect.id) in declared]
        if left:
            wait = jittered(timedelta(seconds=NEWER_CODE_RETRY_S))
            await self._queue.leave(connection, [effect.job for effect in left], wait)
        return [effect for effect in effects if effect not in left]

    async def _settle(self, connection: Connection, results: Sequence[EffectResult]) -> datetime | None:
        return await settle_effects(connection, self._jobs.worker_id, results)

    async def _attempt(self, sending: SendingSpan) -> JobOutcome:
        with sending.scope():
            outcome = await self._deliverer.deliver(sending.effect, self._database.clock.now())
        sending.end(outcome)
        return outcome

    async def _wait_for_some(self) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(self._under_way, timeout=GATHERING_S)
            self._collect()
        elif self._queue.has_busy_lanes:
            await asyncio.sleep(GATHERING_S)

    def _collect(self) -> None:
        for attempt in [attempt for attempt in self._under_way if attempt.done()]:
            effect = self._under_way.pop(attempt)
            self._results.append(effect_result(effect, attempt.result(), self._retries))


def _name_called(effect: ClaimedEffect) -> str:
    """Return the operation or service of the application that an effect needs, or that it needs none."""
    if effect.type != "integration":
        return NOTHING
    service = effect.payload.get("service")
    return f"service:{service}" if service is not None else f"operation:{effect.payload['operation']}"


async def settle_effects(
    connection: Connection, worker_id: UUID, results: Sequence[EffectResult]
) -> datetime | None:
    """Write the outcomes of attempts, and notify the steps that wait; return the time, if any was written.

    A worker that sent an effect says so also when its lease was over meanwhile.
    """
    settled, now = await settle_if_claimed(connection, worker_id, results)
    ours = {result.claimed.id for result in settled}
    sent = [result for result in results if result.status == "done" and result.claimed.id not in ours]
    if sent:
        late, late_at = await settle_if_open(connection, worker_id, sent)
        settled, now = [*settled, *late], now or late_at
    ended = [result for result in settled if result.has_ended]
    if ended and now is not None:
        await show_evidence(connection, [(r.claimed.org_id, r.claimed.id, r.output) for r in ended])
        awaited = [result for result in ended if result.claimed.awaited]
        answers = [_completion(result, now) for result in awaited if result.claimed.awaits_answer]
        await emit_events(connection, answers, now)
        lost = [
            (result.claimed.org_id, result.claimed.request_id, result.error or "the call is dead")
            for result in awaited
            if result.claimed.request_id is not None and result.status == "dead"
        ]
        await fail_requests(connection, lost, now)
    return now


async def notify_dead(connection: Connection, rescued: Sequence[Row]) -> None:
    """Have steps show effects that are dead because their worker was lost, and notify those that wait."""
    dead = [row for row in rescued if row["status"] == "dead"]
    if not dead:
        return
    now = dead[0]["now"]
    await show_evidence(connection, [(row["org_id"], row["id"], _evidence_of_loss(row)) for row in dead])
    awaited = [row for row in dead if row["awaited"]]
    requests = await find_requests(connection, [(row["org_id"], row["id"]) for row in dead])
    answers = [_loss(row, now) for row in awaited if row["id"] not in requests]
    await emit_events(connection, answers, now)
    calls = [row for row in awaited if row["id"] in requests]
    lost = [(row["org_id"], requests[row["id"]], f"{row['code']}: {row['error']}") for row in calls]
    await fail_requests(connection, lost, now)


def _evidence_of_loss(row: Row) -> dict[str, Any]:
    return {"outcome": row["status"], "attempt": row["attempts"], "error": row["error"], "ambiguous": True}


def _loss(row: Row, now: datetime) -> Event:
    return completion_event(row, Outcome.ERROR, {"code": row["code"], "message": row["error"]}, now)


def _completion(result: EffectResult, now: datetime) -> Event:
    effect, outcome = result.claimed, result.outcome
    origin = {name: getattr(effect, name) for name in ("org_id", "id", "instance_id", "step_id", "trace_id")}
    if isinstance(outcome, Succeeded):
        return completion_event(origin, Outcome.COMPLETED, outcome.result, now)
    return completion_event(origin, Outcome.ERROR, {"code": outcome.code, "message": result.error}, now)
