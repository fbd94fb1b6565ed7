"""Effects a second: one worker process sends webhooks to a receiver on the same machine, claim and mark included."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from assent.app import App
from assent.effects.addresses import Allowed
from assent.effects.outbox import NewEffect, enqueue
from assent.effects.settings import EffectSettings, SendingSettings
from assent.effects.signing_secrets import rotate_secret
from assent.model.ids import new_id
from assent.model.job import Effect
from assent.store.database import Connection, Database
from assent.worker.duty import WorkerContext
from assent.worker.effects import Effects
from assent.worker.loop import exhaust
from assent.worker.options import Options
from bench.report import BenchReport, Measurement
from bench.server import fresh_database

RUNS = 3
EFFECTS = 1_000
ORG = "acme"
BODY = {"number": "2026-1", "vendor_id": "v-1", "grand_total": 129_900, "note": "x" * 200}
LOCAL = SendingSettings(EffectSettings(allow=Allowed.read(["127.0.0.1"])))


async def measure() -> BenchReport:
    measurements = []
    async with fresh_database() as database, _receiver() as (port, counted):
        place = WorkerContext(database, Options(), App().runtime(database), LOCAL)
        for name, per_destination, is_signed in (
            ("8 at a time to one receiver", 8, False),
            ("50 at a time", 50, False),
            ("50 at a time, signed", 50, True),
        ):
            options = place.options.replace(effects_per_destination_max=per_destination)
            rates = await _rates(replace(place, options=options), f"http://127.0.0.1:{port}/", is_signed)
            measurements.append(Measurement(name, "effects/s", rates))
        totals = await counted()
    return BenchReport(
        "effects", "Webhooks: claimed, sent and marked by one worker process", measurements, totals
    )


async def _rates(place: WorkerContext, url: str, is_signed: bool) -> list[float]:
    rates = []
    if is_signed:
        async with place.database.transaction(None) as connection:
            await rotate_secret(connection, ORG, place.database.clock.now())
    for number in range(RUNS + 1):
        await _enqueue(place.database, url)
        duty = Effects(place)
        started = time.perf_counter()
        await exhaust(duty, lambda run: None)
        if number:  # the first round warms caches and plans
            rates.append(EFFECTS / (time.perf_counter() - started))
    return rates


async def _enqueue(database: Database, url: str) -> None:
    now = database.clock.now()
    effect = Effect("webhook", {"url": url, "method": "POST", "body": BODY})
    wanted = [NewEffect(ORG, new_id(now), new_id(now), now, "step", effect) for _ in range(EFFECTS)]

    async def work(connection: Connection) -> None:
        await enqueue(connection, wanted, now)

    await database.run(work, org_id=ORG)


@asynccontextmanager
async def _receiver() -> AsyncIterator[tuple[int, "ReceivedCounts"]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.receiver"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    try:
        yield port, ReceivedCounts(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class ReceivedCounts:
    """What the receiver has counted: as many effects as were enqueued, and no request more."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def __call__(self) -> dict[str, object]:
        said, _ = await self._process.communicate(b"")
        found: dict[str, object] = json.loads(said)
        return found
