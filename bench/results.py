"""Results a second: bundles that outside parties pushed are claimed, folded into their requests, and settled."""

import time

from assent.model.ids import new_id
from assent.model.outside_request import Bundle, BundleItem, OutsideRequest
from assent.requests.outside_requests import open_requests, push_delivery
from assent.store.database import Connection, Database
from assent.worker.duty import WorkerContext
from assent.worker.loop import exhaust
from assent.worker.results import Results
from bench.report import Measurement, Report
from bench.server import fresh_database

RUNS = 3
RESULTS = 2_000
ORG = "acme"


async def measure() -> Report:
    pushed, folded = [], []
    async with fresh_database() as database:
        for number in range(RUNS + 1):
            rates = await _push(database), await _fold(database)
            if number:  # the first round warms caches and plans
                pushed.append(rates[0])
                folded.append(rates[1])
    measurements = [
        Measurement("pushed, one after the other", "results/s", pushed),
        Measurement("folded", "results/s", folded),
    ]
    return Report("results", "Results of outside parties, one worker process", measurements)


async def _push(database: Database) -> float:
    """Push one result into each of as many open requests; opening them is not measured."""
    now = database.clock.now()
    asked = [
        OutsideRequest(*(ORG, new_id(now), new_id(now), new_id(now)), "vendor", "0", "kyc.vendor", now, {})
        for _ in range(RESULTS)
    ]
    async with database.transaction(ORG) as connection:
        await open_requests(connection, [(request, None) for request in asked], [])

    async def work(connection: Connection) -> None:
        for request in asked:
            item = BundleItem(cargo=f"external://vendor/{request.id}")
            await push_delivery(connection, request.id, Bundle(key="first", items=(item,)), "python")

    started = time.perf_counter()
    await database.run(work, org_id=ORG)
    return RESULTS / (time.perf_counter() - started)


async def _fold(database: Database) -> float:
    duty = Results(WorkerContext(database))
    done = 0
    started = time.perf_counter()
    while done < RESULTS:
        done += (await duty.run_once()).parts["processed"]
    rate = RESULTS / (time.perf_counter() - started)
    await exhaust(duty, lambda run: None)
    return rate
