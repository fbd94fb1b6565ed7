"""Workers that die over effects, at every point between claim, send and mark: no effect is lost, and what comes twice
comes under the same key. Processes are really killed; and once more the connection ends at each statement.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from assent.effects.outcome import effect_result
from assent.jobs.lease import Lease
from assent.store.database import Database
from assent.worker.effects import Effects, settle_effects
from assent.worker.rescue import Rescue
from tests.postgres import SETTINGS
from tests.processes.application import app
from tests.processes.spawn import Child, ChildDied, children, wait_until_blocked
from tests.properties.crashing import Crash, CrashingDatabase
from tests.receiver import Received, Receiver, ReceiverReply, reply_json
from tests.workers import EffectsWorker, open_effects_worker, run_until_done
from tests.world import drain, publish_step, rows, webhook

pytestmark = pytest.mark.long

EFFECTS = 3
PATIENT_MS = 60_000

Killing = Callable[[EffectsWorker, Receiver, Child], AbstractAsyncContextManager[None]]


async def take_up_what_is_left(effects_worker: EffectsWorker) -> None:
    """What other workers do, once the lease of the dead one is over."""
    effects_worker.database.clock.advance("11m")  # type: ignore[attr-defined]
    await run_until_done(Rescue(effects_worker.place))
    await effects_worker.work()


@asynccontextmanager
async def holding(database: Database, sql: str, *arguments: Any) -> AsyncIterator[Any]:
    async with database.transaction(None) as connection:
        await connection.execute(sql, *arguments)
        yield connection


@asynccontextmanager
async def before_the_claim(
    effects_worker: EffectsWorker, receiver: Receiver, child: Child
) -> AsyncIterator[None]:
    lock = "LOCK TABLE assent.jobs IN EXCLUSIVE MODE"
    async with holding(effects_worker.database, lock) as observer:
        yield
        await wait_until_blocked(observer, 1)
        await child.kill()


@asynccontextmanager
async def before_the_request(
    effects_worker: EffectsWorker, receiver: Receiver, child: Child
) -> AsyncIterator[None]:
    """It has claimed and connected, and nothing was read of what it sends."""
    receiver.on_connection = lambda: os.kill(child.pid, signal.SIGKILL)
    yield
    await child.wait()
    receiver.on_connection = lambda: None


@asynccontextmanager
async def before_the_answer(
    effects_worker: EffectsWorker, receiver: Receiver, child: Child
) -> AsyncIterator[None]:
    """The receiver has got it and does what it does, and nobody is there to hear the answer."""

    def kill(_: Received) -> ReceiverReply:
        os.kill(child.pid, signal.SIGKILL)
        return ReceiverReply()

    receiver.otherwise = kill
    yield
    await child.wait()
    receiver.otherwise = lambda _: ReceiverReply()


@asynccontextmanager
async def before_the_mark(
    effects_worker: EffectsWorker, receiver: Receiver, child: Child
) -> AsyncIterator[None]:
    """It has heard the answer, and waits for a row that somebody else holds."""
    async with holding(
        effects_worker.database, "LOCK TABLE assent.workflow_step_executions IN SHARE MODE"
    ) as observer:
        yield
        await wait_until_blocked(observer, 1)
        await child.kill()


@asynccontextmanager
async def in_the_middle_of_the_mark(
    effects_worker: EffectsWorker, receiver: Receiver, child: Child
) -> AsyncIterator[None]:
    """The effects are marked, in a transaction that still has to tell the steps."""
    async with holding(
        effects_worker.database, "LOCK TABLE assent.workflow_outbox_receipts IN SHARE MODE"
    ) as observer:
        yield
        await wait_until_blocked(observer, 1)
        await child.kill()


KILLINGS: list[Killing] = [
    before_the_claim,
    before_the_request,
    before_the_answer,
    before_the_mark,
    in_the_middle_of_the_mark,
]


async def publish_awaited(effects_worker: EffectsWorker, **rest: Any) -> None:
    await publish_step(
        effects_worker.database, webhook(**{"await": True, "output": {"answer": "result.ok"}} | rest)
    )


@pytest.mark.parametrize("killing", KILLINGS, ids=lambda killing: killing.__name__)
async def test_killed_worker_loses_no_effect_and_what_comes_twice_has_the_same_key(
    effects_worker: EffectsWorker, receiver: Receiver, killing: Killing
) -> None:
    await publish_awaited(effects_worker)
    started = [
        await effects_worker.start("telling", url=receiver.url, order=order) for order in range(EFFECTS)
    ]
    async with children(effects_worker.database, 1) as (child,):
        async with killing(effects_worker, receiver, child):
            dying = asyncio.create_task(child.ask("send_effects"))
        assert isinstance((await asyncio.gather(dying, return_exceptions=True))[0], ChildDied)
    receiver.otherwise = lambda _: reply_json({"ok": "yes"})
    await take_up_what_is_left(effects_worker)
    effects = await effects_worker.effects()
    assert [effect["status"] for effect in effects] == ["done"] * EFFECTS
    assert set(receiver.keys) == {effect["key"] for effect in effects}, "none is lost"
    if killing in KILLINGS[2:]:
        assert max(receiver.keys.values()) == 2, "it was sent before, and is sent again"
    orders = {(one.key, one.json["order"]) for one in receiver.received}
    assert len(orders) == EFFECTS, "the same key is always the same message"
    for view in started:
        assert await effects_worker.status(view.id) == "completed"
    told = [
        row
        for row in await rows(effects_worker.database, "workflow_events_outbox")
        if row["event_type"] == "on_event"
    ]
    assert len(told) == EFFECTS, "each step hears of its answer once"


@pytest.mark.parametrize("killing", KILLINGS[1:4], ids=lambda killing: killing.__name__)
async def test_what_must_not_come_twice_does_not_come_twice(
    effects_worker: EffectsWorker, receiver: Receiver, killing: Killing
) -> None:
    """Nobody knows whether it was sent: it is given up as ambiguous, and its step goes on by the error edge."""
    await publish_awaited(effects_worker, on_ambiguous="give_up")
    view = await effects_worker.start("telling", url=receiver.url, order=7)
    async with children(effects_worker.database, 1) as (child,):
        async with killing(effects_worker, receiver, child):
            dying = asyncio.create_task(child.ask("send_effects"))
        await asyncio.gather(dying, return_exceptions=True)
    await take_up_what_is_left(effects_worker)
    effect = await effects_worker.effect()
    assert (effect["status"], effect["ambiguous"]) == ("dead", True)
    assert len(receiver.received) <= 1
    step = await effects_worker.step(view.id, "tell")
    assert (step["status"], step["output_json"]["error"]["code"]) == ("failed", "EFFECT_LOST")


async def test_worker_that_is_killed_again_and_again_ends_in_a_dead_letter(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_step(effects_worker.database, webhook())
    await effects_worker.start("telling", url=receiver.url, order=7)
    async with effects_worker.database.transaction(None) as connection:
        await connection.execute("UPDATE assent.jobs SET attempts_max = 2 WHERE org_id = 'acme'")
    for _ in range(2):
        await effects_worker.duty.claim()  # and then it is gone
        effects_worker.database.clock.advance("11m")  # type: ignore[attr-defined]
        await run_until_done(Rescue(effects_worker.place))
    assert (await effects_worker.effect())["status"] == "dead"


async def test_worker_that_was_taken_for_gone_and_is_not_says_that_it_has_sent(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    """Its lease was over while the receiver thought; what it knows keeps the effect from being sent again."""
    await publish_step(effects_worker.database, webhook())
    await effects_worker.start("telling", url=receiver.url, order=7)
    slow = Effects(replace(effects_worker.place, lease=Lease()))
    receiver.will(ReceiverReply(200))
    (effect,) = await slow.claim()
    outcome = await slow._deliverer.deliver(effect, effects_worker.database.clock.now())
    effects_worker.database.clock.advance("11m")  # type: ignore[attr-defined]
    await run_until_done(Rescue(effects_worker.place))
    assert (await effects_worker.effect())["status"] == "queued"
    slow._under_way[asyncio.ensure_future(_given(outcome))] = effect
    await asyncio.sleep(0)
    await slow.finish()
    assert (await effects_worker.effect())["status"] == "done"
    assert await effects_worker.send() == {}
    assert len(receiver.received) == 1


async def test_worker_that_was_taken_for_gone_does_not_spoil_what_its_heir_does(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_step(effects_worker.database, webhook())
    await effects_worker.start("telling", url=receiver.url, order=7)
    slow = Effects(replace(effects_worker.place, lease=Lease()))
    receiver.will(ReceiverReply(500), receiver.silence())
    (effect,) = await slow.claim()
    outcome = await slow._deliverer.deliver(effect, effects_worker.database.clock.now())
    effects_worker.database.clock.advance("11m")  # type: ignore[attr-defined]
    await run_until_done(Rescue(effects_worker.place))
    await effects_worker.duty.claim()
    slow._under_way[asyncio.ensure_future(_given(outcome))] = effect
    await slow.finish()
    found = await effects_worker.effect()
    assert (found["status"], found["attempts"]) == ("running", 2), "its failure was that of another attempt"


async def test_worker_that_was_taken_for_gone_does_not_tell_the_step_of_its_heir(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_awaited(effects_worker)
    view = await effects_worker.start("telling", url=receiver.url, order=7)
    slow = Effects(replace(effects_worker.place, lease=Lease()))
    receiver.will(ReceiverReply(400))
    (effect,) = await slow.claim()
    outcome = await slow._deliverer.deliver(effect, effects_worker.database.clock.now())
    effects_worker.database.clock.advance("11m")  # type: ignore[attr-defined]
    await run_until_done(Rescue(effects_worker.place))
    await effects_worker.duty.claim()
    slow._under_way[asyncio.ensure_future(_given(outcome))] = effect
    await slow.finish()
    assert await drain(effects_worker.runtime) == 0, "only the heir knows what became of it"
    assert await effects_worker.status(view.id) == "running"


async def test_stale_attempt_does_not_settle_the_next_one_of_the_same_worker(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    """A worker whose lease ended may claim its own effect again; the attempt's number tells the two apart."""
    await publish_step(effects_worker.database, webhook())
    await effects_worker.start("telling", url=receiver.url, order=7)
    worker = Effects(replace(effects_worker.place, lease=Lease()))
    receiver.will(ReceiverReply(500))
    (first,) = await worker.claim()
    outcome = await worker._deliverer.deliver(first, effects_worker.database.clock.now())
    await worker._deliverer.close()
    effects_worker.database.clock.advance("11m")  # type: ignore[attr-defined]
    await run_until_done(Rescue(effects_worker.place))
    worker_id = worker._jobs.worker_id
    async with effects_worker.database.transaction(None) as connection:
        (second,) = await worker._queue.claim_suspect(connection)
        assert (second["id"], second["attempt"]) == (first.id, first.attempt + 1)
        stale = effect_result(first, outcome, worker._retries)
        assert await settle_effects(connection, worker_id, [stale]) is None
    effect = await effects_worker.effect()
    assert (effect["status"], effect["attempts"]) == ("running", second["attempt"])


async def test_stale_attempt_does_not_end_a_step_beside_an_attempt_that_is_written(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_awaited(effects_worker)
    stale_view = await effects_worker.start("telling", url=receiver.url, order=7)
    slow = Effects(replace(effects_worker.place, lease=Lease()))
    receiver.will(ReceiverReply(400), ReceiverReply(400))
    (stale,) = await slow.claim()
    stale_outcome = await slow._deliverer.deliver(stale, effects_worker.database.clock.now())
    effects_worker.database.clock.advance("11m")  # type: ignore[attr-defined]
    await run_until_done(Rescue(effects_worker.place))
    assert [effect.id for effect in await effects_worker.duty.claim()] == [stale.id]
    own_view = await effects_worker.start("telling", url=receiver.url, order=8)
    (own,) = await slow.claim()
    own_outcome = await slow._deliverer.deliver(own, effects_worker.database.clock.now())
    await slow._deliverer.close()
    retries = slow._retries
    marks = [effect_result(stale, stale_outcome, retries), effect_result(own, own_outcome, retries)]
    async with effects_worker.database.transaction(None) as connection:
        assert await settle_effects(connection, slow._jobs.worker_id, marks) is not None
    await drain(effects_worker.runtime)
    assert await effects_worker.status(stale_view.id) == "running", (
        "only the worker that has the effect ends its step"
    )
    assert await effects_worker.status(own_view.id) != "running"


async def test_worker_that_lost_its_claim_does_not_settle_the_same_attempt_of_another(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    """An attempt that was given back has its number again; the worker is the other half of the fence."""
    await publish_step(effects_worker.database, webhook())
    await effects_worker.start("telling", url=receiver.url, order=7)
    slow = Effects(replace(effects_worker.place, lease=Lease()))
    receiver.will(ReceiverReply(500))
    (effect,) = await slow.claim()
    outcome = await slow._deliverer.deliver(effect, effects_worker.database.clock.now())
    async with effects_worker.database.transaction(None) as connection:
        assert await slow._queue.give_back_unknown(connection, []) == 1
    (again,) = await effects_worker.duty.claim()
    assert (again.id, again.attempt) == (effect.id, effect.attempt)
    slow._under_way[asyncio.ensure_future(_given(outcome))] = effect
    await slow.finish()
    assert (await effects_worker.effect())["status"] == "running", "it is the other worker's to settle"


async def _given(outcome: Any) -> Any:
    return outcome


@pytest.mark.parametrize("by_server", [False, True], ids=["client dies", "server ends it"])
async def test_worker_that_dies_at_any_statement_loses_no_effect(
    effects_worker: EffectsWorker,
    database_url: str,
    receiver: Receiver,
    by_server: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A run marks what it sends, however slow the machine is: the statements are then the same each time.
    monkeypatch.setattr("assent.worker.effects.PATIENCE_S", PATIENT_MS / 1000)
    effects_worker = effects_worker.sending(read_timeout_ms=PATIENT_MS, total_timeout_ms=PATIENT_MS)
    crashing = await CrashingDatabase.open(
        database_url, settings=SETTINGS, clock=effects_worker.database.clock
    )
    await publish_awaited(effects_worker)
    receiver.otherwise = lambda _: reply_json({"ok": "yes"})
    statement, died = 0, True
    try:
        while died:
            statement += 1
            view = await effects_worker.start("telling", url=receiver.url, order=statement)
            before = sum(receiver.keys.values())
            crashing.arm(statement, by_server=by_server)
            worker = open_effects_worker(app, crashing).sending(
                read_timeout_ms=PATIENT_MS, total_timeout_ms=PATIENT_MS
            )
            try:
                while (await worker.duty.run_once()).more:
                    pass
            except (Crash, Exception):
                assert crashing.has_died
            died = crashing.has_died
            crashing.arm(None)
            await worker.duty._deliverer.close()
            await take_up_what_is_left(effects_worker)
            assert await effects_worker.status(view.id) == "completed"
            assert 1 <= sum(receiver.keys.values()) - before <= 2
    finally:
        await effects_worker.close()
        await crashing.close()
    assert statement > 10, "there were statements to die at"
    assert len(receiver.keys) == statement
