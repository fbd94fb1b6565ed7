"""The duty that sends effects, as a worker has it: woken, drained, and stopped."""

import asyncio
import signal
import threading

import pytest

from assent.app import App
from assent.effects.settings import SendingSettings
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.effects import Effects
from assent.worker.supervisor import Supervisor
from tests.plain_sql import WAIT_MAX_S
from tests.processes.commands import run_worker, worker
from tests.receiver import Receiver, ReceiverReply, wait_until_received
from tests.workers import LOCAL, EffectsWorker, Runs, with_options
from tests.world import fetch, publish_webhook

EFFECTS = ("--app", "tests.processes.application:app", "--only", "effects")
LOCALLY = {"ASSENT_EFFECTS_ALLOW": "127.0.0.0/8"}
NEVER_MS = 86_400_000


@pytest.fixture
def effects_worker(database: Database) -> EffectsWorker:
    place = WorkerContext(database, runtime=App().runtime(database), sending=SendingSettings(LOCAL))
    return EffectsWorker(with_options(place, effects_interval_ms=NEVER_MS))


async def statuses(database: Database) -> list[str]:
    found = await fetch(
        database,
        "SELECT status FROM assent.jobs WHERE org_id <> 'aatwin' ORDER BY id",
    )
    return [row["status"] for row in found]


async def test_notification_wakes_the_duty_and_stopping_waits_for_what_is_under_way(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    """Nothing happens by polling. The attempt hangs when the worker is told to stop, and is marked all the same."""
    await publish_webhook(effects_worker.database)
    release = threading.Event()
    receiver.will(ReceiverReply(wait_for=release))
    runs = Runs()
    supervisor = Supervisor(
        effects_worker.database, [effects_worker.duty], effects_worker.place.options, [runs]
    )
    running = asyncio.create_task(supervisor.run())
    await runs.next()
    await effects_worker.start("telling", url=receiver.url, order=7)
    await wait_until_received(receiver, 1)
    supervisor.stop()
    asyncio.get_running_loop().call_later(0.15, release.set)
    assert await asyncio.wait_for(running, WAIT_MAX_S) is True
    assert await statuses(effects_worker.database) == ["done"]


async def test_worker_process_sends_and_finishes_what_it_has_begun_when_it_is_told_to_stop(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_webhook(effects_worker.database)
    release = threading.Event()
    receiver.will(ReceiverReply(), ReceiverReply(wait_for=release))
    async with worker(effects_worker.database.url, *EFFECTS, **LOCALLY) as process:
        await effects_worker.start("telling", url=receiver.url, order=1)
        await wait_until_received(receiver, 1)
        await effects_worker.start("telling", url=receiver.url, order=2)
        await wait_until_received(receiver, 2)
        process.send(signal.SIGTERM)
        await process.line("worker stopping")
        release.set()
        assert await process.ended() == 0
    assert await statuses(effects_worker.database) == ["done", "done"]


async def test_attempt_that_outlives_the_grace_period_is_left_to_others(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_webhook(effects_worker.database)
    receiver.will(receiver.silence())
    async with worker(
        effects_worker.database.url, *EFFECTS, **LOCALLY, ASSENT_WORKER_GRACE_PERIOD_MS="50"
    ) as process:
        await effects_worker.start("telling", url=receiver.url, order=1)
        await wait_until_received(receiver, 1)
        process.send(signal.SIGTERM)
        assert await process.ended() == 3
    assert await statuses(effects_worker.database) == ["running"]


async def test_duty_without_an_application_is_refused(database: Database) -> None:
    with pytest.raises(ValueError, match="ways out"):
        Effects(WorkerContext(database))


async def test_bad_setting_ends_the_worker_with_its_name(database: Database) -> None:
    code, _, error = await run_worker(database.url, *EFFECTS, "--once", ASSENT_EFFECTS_LOG="pigeon")
    assert code == 1
    assert "ASSENT_EFFECTS_LOG" in error


async def test_worker_that_is_killed_blocks_a_destination_no_longer_than_its_lease(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    """It had as many calls under way to one host as that may have."""
    lease = {"ASSENT_WORKER_LEASE_MS": "1000", "ASSENT_WORKER_RESCUE_INTERVAL_MS": "100"}
    await publish_webhook(effects_worker.database)
    receiver.will(*[receiver.silence()] * 8)
    async with worker(effects_worker.database.url, *EFFECTS, **LOCALLY, **lease) as killed:
        for order in range(8):
            await effects_worker.start("telling", url=receiver.url, order=order)
        await wait_until_received(receiver, 8)
        killed.send(signal.SIGKILL)
        await killed.ended()
    await effects_worker.start("telling", url=receiver.url, order=8)
    async with worker(effects_worker.database.url, *EFFECTS, "--only", "rescue", **LOCALLY, **lease):
        await wait_until_received(receiver, 17)
        async with asyncio.timeout(60):
            while set(await statuses(effects_worker.database)) != {"done"}:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert sorted(receiver.keys.values()) == [1] + [2] * 8
