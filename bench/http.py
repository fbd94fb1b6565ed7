"""Approvals decided over HTTP: eight clients of a server process, as eight people would be."""

import asyncio
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, Final

import httpx

from assent.app import App
from assent.definitions import publish_flow
from assent.model.actor import SYSTEM
from assent.people.api_keys import create_api_key
from assent.runtime.event_processor import EventProcessor
from assent.store.database import Database
from bench.report import BenchReport, Measurement, progress
from bench.server import fresh_database
from bench.statements import ASKING

ORG: Final = "bench"
CLIENTS = 8
ROUNDS = 5
DECISIONS = 400

app = App()


async def measure() -> BenchReport:
    rates, times = [], []
    async with fresh_database() as database:
        key = await _prepare(database)
        async with serving("bench.http:app", database.url) as served:
            for number in range(ROUNDS + 1):  # the first round warms up
                rate, took = await _round(database, served.address, key)
                progress(f"{f'round {number} of {ROUNDS}' if number else 'warm-up'}: {rate:,.0f} approvals/s")
                if number:
                    rates.append(rate)
                    times += took
    p95 = quantiles(times, n=20)[-1]
    return BenchReport(
        "http",
        "Approvals decided over HTTP",
        [Measurement(f"one server process, {CLIENTS} clients", "approvals/s", rates)],
        {"p50_ms": median(times) * 1000, "p95_ms": p95 * 1000},
    )


async def _prepare(database: Database) -> str:
    """A flow that asks one person, and the key with which that person signs in."""
    now = database.clock.now()
    flow = {**ASKING, "steps": [{**ASKING["steps"][0], "notify": None}, *ASKING["steps"][1:]]}
    flow["steps"][0] = {k: v for k, v in flow["steps"][0].items() if v is not None}
    async with database.transaction(None) as connection:
        await publish_flow(connection, ORG, flow, SYSTEM, now)
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name, roles) VALUES ($1, 'bea', 'Bea', '{approver}')",
            ORG,
        )
        key, _ = await create_api_key(connection, ORG, "bea", "bench", now)
    return key


@dataclass(frozen=True, slots=True)
class ServingProcess:
    """An application that is served by a process, or by several that one has forked."""

    address: str
    pid: int


@asynccontextmanager
async def serving(application: str, url: str, processes: int = 1) -> AsyncIterator[ServingProcess]:
    """Serve an application from processes of its own, without limits of rates."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "assent", "serve", "--app", application, "--port", "0"),
        *("--processes", str(processes)),
        env={**os.environ, "ASSENT_DATABASE_URL": url, "ASSENT_HTTP_RATE_WORKFLOWS_PER_MINUTE": "0"},
        stdout=DEVNULL,
        stderr=PIPE,
    )
    address = await _address(process)
    # The access log is a line for each request: a pipe that is not read would fill, and stop the server.
    reading = asyncio.create_task(_read_log(process))
    try:
        yield ServingProcess(address, process.pid)
    finally:
        process.terminate()
        await process.wait()
        await reading


async def _read_log(process: Process) -> None:
    assert process.stderr is not None
    while await process.stderr.read(65_536):
        pass


async def _address(process: Process) -> str:
    """Where it serves: it says so in its log."""
    import orjson  # noqa: PLC0415 - only the measurement needs it

    assert process.stderr is not None
    async for line in process.stderr:
        said: dict[str, Any] = orjson.loads(line)
        if said.get("message") == "server started" or said.get("event") == "server started":
            return f"http://{said['host']}:{said['port']}"
    raise RuntimeError("The server ended before it served")


async def _round(database: Database, address: str, key: str) -> tuple[float, list[float]]:
    runtime = app.runtime(database)
    await runtime.org(ORG, SYSTEM).instances.start_many(ASKING["flow"], [{} for _ in range(DECISIONS)])
    processor = EventProcessor(runtime.core)
    while await processor.process_events():
        pass
    async with database.transaction(None) as connection:
        rows = await connection.fetch("SELECT id FROM assent.approval_requests WHERE status = 'pending'")
    open_requests = [str(row["id"]) for row in rows]
    times: list[float] = []
    headers = {"authorization": f"Bearer {key}"}
    started = time.perf_counter()
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as client:
        await asyncio.gather(*(_decide(client, open_requests, times) for _ in range(CLIENTS)))
    return len(times) / (time.perf_counter() - started), times


async def _decide(client: httpx.AsyncClient, open_requests: list[str], times: list[float]) -> None:
    while open_requests:
        request = open_requests.pop()
        started = time.perf_counter()
        answer = await client.post(f"/api/approvals/{request}/decide", json={"answer": "approved"})
        times.append(time.perf_counter() - started)
        answer.raise_for_status()
