"""A person's decision over HTTP until the workflow has gone on, side by side with peers on one server.

Ours decides about an invoice: version pinned, separation of duties, audit, the gate consumes the approval and an
action posts the document, all before the reply. DBOS and Absurd wake a workflow that waits, run one step and end,
with no document, no approver and no sign-in. Each has one process; the rounds are interleaved. Ours is measured with
two processes on one port as well. CPU is that of the process table, of the server's processes and of PostgreSQL.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from assent.app import App
from assent.definitions import publish_contract, publish_patch
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Mutation
from assent.people.api_keys import create_api_key
from assent.runtime import Runtime
from assent.runtime.instance_commands import Change
from assent.store.database import Database
from bench.child import ChildRun
from bench.clicks import Click, click_all
from bench.documents import CLERK, INVOICE, read_template
from bench.http import ServingProcess, serving
from bench.peers import absurd_steps
from bench.report import BenchReport, Measurement, progress
from bench.server import BenchServer, fresh_server, process_cpu_s
from tests.faults.proxy import Proxy

ROUNDS = 4
OURS, OURS_TWICE = "ours", "ours, two processes"
DECISIONS = 320
ORGS = [f"org{number:02}" for number in range(32)]
ONE_APPROVAL = {**INVOICE, "grand_total": 200_000}
"""More than is posted without an approval, less than takes two."""
APPROVER = Actor("fin", roles=frozenset({"finance_manager"}))

app = App([read_template("contract.yaml")])


@app.action("invoice.post", payload={"posted_at": {"type": "datetime", "required": True}})
def post(_: Any, payload: Mapping[str, Any]) -> dict[str, Any]:
    return {"posted_at": payload["posted_at"]}


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """So many clients at once, whose documents are in so many orgs; peers know no orgs."""

    clients: int
    orgs: int = 1


RATIO_OF: Final = ClientLoad(8)
ALONE: Final = ClientLoad(1)
OF_MANY_ORGS: Final = ClientLoad(32, 32)
CASES: Final = (ALONE, RATIO_OF, ClientLoad(32), OF_MANY_ORGS)
SHARED: Final = CASES[1:]
"""More than one client: what a second process may make faster, and must not make slower."""


@dataclass(frozen=True, slots=True)
class DecisionServer:
    """A server process, and how decisions are prepared that wait for it."""

    name: str
    served: ServingProcess
    prepare: Callable[[ClientLoad], Awaitable[list[Click]]]
    cases: Sequence[ClientLoad] = CASES[:-1]


async def measure() -> BenchReport:
    runs: dict[tuple[str, ClientLoad], list[ChildRun]] = {}
    async with fresh_server() as server, AsyncExitStack() as stack:
        contenders = [await stack.enter_async_context(start(server)) for start in (_dbos, _absurd)]
        contenders = [*await stack.enter_async_context(_ours(server)), *contenders]
        for number in range(ROUNDS + 1):  # the first round warms up
            for case in CASES:
                for contender in contenders:
                    if case in contender.cases:
                        run = await _round(server, contender, case)
                        runs.setdefault((contender.name, case), []).append(run)
            latest = ", ".join(f"{c.name} {runs[c.name, RATIO_OF][-1].rate:,.0f}" for c in contenders)
            progress(f"{f'round {number} of {ROUNDS}' if number else 'warm-up'}: {latest} decisions/s")
        round_trips = await _round_trips(server)
    return _report({key: made[1:] for key, made in runs.items()}, round_trips)


async def _round(server: BenchServer, contender: DecisionServer, case: ClientLoad) -> ChildRun:
    clicks = await contender.prepare(case)
    await server.settle(contender.name.partition(",")[0])
    at, pid = urlsplit(contender.served.address), contender.served.pid
    began = process_cpu_s(pid), await server.cpu_s()
    run = await click_all(str(at.hostname), int(at.port or 0), clicks, case.clients)
    ended = process_cpu_s(pid), await server.cpu_s()
    cpu_ms = [(to - since) / run.units * 1000 for since, to in zip(began, ended, strict=True)]
    return replace(
        run, facts=run.facts | dict(zip(("python_cpu_ms", "postgresql_cpu_ms"), cpu_ms, strict=True))
    )


@asynccontextmanager
async def _ours(server: BenchServer) -> AsyncIterator[list[DecisionServer]]:
    database = await Database.open(await server.create_ours(OURS))
    try:
        keys = await furnish(database, ORGS)
        runtime = app.runtime(database)

        def prepare(case: ClientLoad) -> Awaitable[list[Click]]:
            return _prepare_ours(runtime, keys, case)

        async with (
            serving("bench.decisions:app", database.url) as one,
            serving("bench.decisions:app", database.url, processes=2) as two,
        ):
            yield [
                DecisionServer(OURS, one, prepare, CASES),
                DecisionServer(OURS_TWICE, two, prepare, SHARED),
            ]
    finally:
        await database.close()


async def furnish(database: Database, orgs: Sequence[str]) -> dict[str, str]:
    """Publish the process in every org; return the approver's API key in each."""
    now, patch = database.clock.now(), read_template("patch.yaml")
    async with database.transaction(None) as connection:
        await publish_contract(connection, read_template("contract.yaml"), SYSTEM, now)
        keys = {}
        for org in orgs:
            await publish_patch(connection, org, patch, SYSTEM, now)
            await connection.execute(
                "INSERT INTO assent.orgs (org_id, name, settings) VALUES ($1, $1, $2::jsonb)",
                org,
                {"trusted_vendors": [], "budget_owners": {}},
            )
            await connection.executemany(
                "INSERT INTO assent.members (org_id, user_id, name, roles) VALUES ($1, $2, $2, $3)",
                [(org, actor.id, list(actor.roles)) for actor in (CLERK, APPROVER)],
            )
            keys[org], _ = await create_api_key(connection, org, APPROVER.id, "bench", now)
    return keys


async def _prepare_ours(runtime: Runtime, keys: dict[str, str], case: ClientLoad) -> list[Click]:
    """Submit invoices, each of which waits for one approval; in turns of the orgs."""
    each = DECISIONS // case.orgs
    waiting = await asyncio.gather(*(_submit(runtime, org, each) for org in ORGS[: case.orgs]))
    return [
        Click(f"/api/approvals/{request_id}/decide", keys[org])
        for turn in zip(*waiting, strict=True)
        for org, request_id in zip(ORGS, turn, strict=False)
    ]


async def _submit(runtime: Runtime, org: str, number: int) -> list[str]:
    entities = runtime.org(org, CLERK).entities
    changes = [Change("invoice.create", ONE_APPROVAL) for _ in range(number)]
    made = [one for one in await entities.mutate_many(changes) if isinstance(one, Mutation)]
    ids: list[str] = []
    for begin in range(0, number, 8):
        some = made[begin : begin + 8]
        views = await asyncio.gather(*(entities.transition(one.entity.id, "submit") for one in some))
        ids += [str(waiting.request_id) for view in views for waiting in view.waiting]
    if len(ids) != number:
        raise RuntimeError(f"Expected {number} requests, found {len(ids)}")
    return ids


@asynccontextmanager
async def _dbos(server: BenchServer) -> AsyncIterator[DecisionServer]:
    url = await server.create("dbos")  # it makes its tables when it starts
    async with _peer("bench.peers.dbos_decisions", url) as peer:
        yield DecisionServer("dbos", peer, lambda _: _prepare_peer(peer.address))


@asynccontextmanager
async def _absurd(server: BenchServer) -> AsyncIterator[DecisionServer]:
    url = await server.create("absurd")
    await asyncio.to_thread(absurd_steps.prepare, url)
    async with _peer("bench.peers.absurd_decisions", url) as peer:

        async def prepare(_: ClientLoad) -> list[Click]:
            clicks = await _prepare_peer(peer.address)
            async with server.connection("absurd") as connection, asyncio.timeout(60):
                asleep = f"SELECT count(*) FROM absurd.t_{absurd_steps.QUEUE} WHERE state = 'sleeping'"  # noqa: S608
                while await connection.fetchval(asleep) < DECISIONS:  # noqa: ASYNC110 - in another process
                    await asyncio.sleep(0.05)
            return clicks

        yield DecisionServer("absurd", peer, prepare)


async def _prepare_peer(address: str) -> list[Click]:
    async with httpx.AsyncClient(base_url=address, timeout=120) as client:
        answer = await client.post(f"/start/{DECISIONS}")
        answer.raise_for_status()
        return [Click(path) for path in answer.json()]


@asynccontextmanager
async def _peer(module: str, url: str) -> AsyncIterator[ServingProcess]:
    words = [sys.executable, "-m", module, url]
    process = await asyncio.create_subprocess_exec(*words, stdout=PIPE, stdin=DEVNULL, env=dict(os.environ))
    try:
        assert process.stdout is not None
        said = json.loads(await process.stdout.readline())
        address = f"http://{said['host']}:{said['port']}"
        await _until_it_serves(address)
        yield ServingProcess(address, process.pid)
    finally:
        process.terminate()
        await process.wait()


async def _until_it_serves(address: str) -> None:
    """Its socket takes connections before the application has started."""
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        (await client.get("/openapi.json")).raise_for_status()


async def _round_trips(server: BenchServer) -> int:
    """Count the round trips of one decision on the wire, from a server process whose plans and caches are warm."""
    org = ORGS[0]
    database = await Database.open(server.url(OURS))
    try:
        async with database.transaction(None) as connection:
            key, _ = await create_api_key(connection, org, APPROVER.id, "one", database.clock.now())
        request_ids = await _submit(app.runtime(database), org, 10)
    finally:
        await database.close()
    counted = []
    async with (
        Proxy.before(server.url(OURS)) as proxy,
        serving("bench.decisions:app", proxy.url) as served,
        httpx.AsyncClient(base_url=served.address, headers={"authorization": f"Bearer {key}"}) as client,
    ):
        for request_id in request_ids:
            proxy.clear()
            answer = await client.post(f"/api/approvals/{request_id}/decide", json={"answer": "approved"})
            answer.raise_for_status()
            counted.append(proxy.round_trips)
    return min(counted)


def _report(runs: dict[tuple[str, ClientLoad], Sequence[ChildRun]], round_trips: int) -> BenchReport:
    measurements = [
        Measurement(
            f"{name}: {case.clients} client{'s' * (case.clients > 1)}, {case.orgs} org{'s' * (case.orgs > 1)}",
            "decisions/s",
            [run.rate for run in made],
            {fact: median(run.facts[fact] for run in made) for fact in made[0].facts},
        )
        for (name, case), made in runs.items()
    ]
    rate = {key: median(run.rate for run in made) for key, made in runs.items()}
    return BenchReport(
        "decisions",
        "A decision over HTTP until the workflow has gone on",
        measurements,
        {f"ratio_{peer}": rate[OURS, RATIO_OF] / rate[peer, RATIO_OF] for peer in ("dbos", "absurd")}
        | {
            "round_trips": round_trips,
            "ratio_second_process": min(rate[OURS_TWICE, case] / rate[OURS, case] for case in SHARED),
            "p50_ms": median(run.facts["p50_ms"] for run in runs[OURS, ALONE]),
            "cpu_ms_alone": median(
                run.facts["python_cpu_ms"] + run.facts["postgresql_cpu_ms"] for run in runs[OURS, ALONE]
            ),
            "rate_of_32_orgs": rate[OURS, OF_MANY_ORGS],
        },
    )
