"""Does history cost anything? Rates and pages behind 1,000,000 finished documents, with 100,000 requests open.

The history is real: some invoices are approved, and some wait for an approval; then their rows in all tables are copied
to earlier seconds. Rates are measured on that database and, in turns, on one without history. ASSENT_BENCH_FINISHED
sets another number of finished documents.
"""

import asyncio
import os
import time
from collections.abc import Awaitable
from statistics import median

from assent.people import InboxQuery, count_inbox, read_inbox
from assent.runtime import Runtime
from assent.store.connection import Connection
from assent.store.database import Database
from assent.store.queries import load_queries
from assent.store.settings import Settings
from bench.child import run_child
from bench.decisions import APPROVER, ONE_APPROVAL, app, furnish
from bench.documents import CLERK
from bench.pages import Reading, measure_pages
from bench.report import BenchReport, Measurement, progress
from bench.server import BenchServer, fresh_server

ROUNDS = 5
WORKFLOWS, WARM_UP = 4_000, 400
DOCUMENTS, CLIENTS = 200, 8
ORG = "bench"
FINISHED = int(os.environ.get("ASSENT_BENCH_FINISHED", "1000000"))
ORIGINALS, OPEN_ORIGINALS = 400, 40
"""Of each original there are as many copies."""
COPIES_AT_ONCE = 50

EMPTY, FULL, BLANK = "empty", "full", "blank"

TABLES = (
    "entities",
    "entity_versions",
    "workflow_instances",
    "workflow_step_executions",
    "workflow_step_receipts",
    "workflow_events_outbox",
    "workflow_outbox_receipts",
    "approval_requests",
    "workflow_seats",
    "approval_decisions",
    "audit_log",
)
"""What an invoice leaves rows in."""

_SQL = load_queries("bench", "history.sql")


async def measure() -> BenchReport:
    rates: dict[str, dict[str, list[float]]] = {
        name: {EMPTY: [], FULL: []} for name in ("steps/s", "documents/s")
    }
    async with fresh_server() as server:
        await _prepare(server)
        rows = await _make_history(server)
        for number in range(ROUNDS + 1):
            for name in (EMPTY, FULL):
                for unit, rate in (await _rates(server, name)).items():
                    rates[unit][name].append(rate)
            latest = ", ".join(f"{name} {made[-1]:,.0f}" for name, made in rates["documents/s"].items())
            progress(f"{f'round {number} of {ROUNDS}' if number else 'warm-up'}: {latest} documents/s")
        database = await Database.open(server.url(FULL))
        try:
            pages = await measure_pages(database, ORG, _inbox_pages(database))
        finally:
            await database.close()
    return _report(rates, pages, rows)


async def _prepare(server: BenchServer) -> None:
    database = await Database.open(await server.create_ours(BLANK))
    try:
        await furnish(database, [ORG])
    finally:
        await database.close()
    await server.create(FULL, template=BLANK)


async def _rates(server: BenchServer, name: str) -> dict[str, float]:
    if name == EMPTY:
        await server.create(EMPTY, template=BLANK)
    await server.settle(name)
    url = server.url(name)
    steps = await run_child("bench.ours_steps", [url, WORKFLOWS, WARM_UP], WORKFLOWS * 10)
    database = await Database.open(url, settings=Settings(pool_connections_max=CLIENTS + 2))
    try:
        runtime = app.runtime(database)
        await _approve(runtime, DOCUMENTS // 4)  # statements are prepared, definitions known
        began_s = time.perf_counter()
        await _approve(runtime, DOCUMENTS)
        documents = DOCUMENTS / (time.perf_counter() - began_s)
    finally:
        await database.close()
    return {"steps/s": steps.rate, "documents/s": documents}


async def _approve(runtime: Runtime, number: int, *, finished: bool = True) -> None:
    """Create invoices, submit and approve them, as so many clients would; or leave them to their approver."""
    clerk, approver = runtime.org(ORG, CLERK), runtime.org(ORG, APPROVER)

    async def client() -> None:
        for _ in range(number // CLIENTS):
            made = await clerk.entities.mutate("invoice.create", ONE_APPROVAL)
            view = await clerk.entities.transition(made.entity.id, "submit")
            for waiting in view.waiting:
                assert waiting.request_id is not None
                if finished:
                    await approver.approvals.decide(waiting.request_id, "approved")

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def _make_history(server: BenchServer) -> dict[str, int]:
    """Fill the database; return how many documents have ended, requests are open, and steps there are."""
    database = await Database.open(server.url(FULL))
    try:
        await _approve(app.runtime(database), ORIGINALS)
        await _approve(app.runtime(database), OPEN_ORIGINALS, finished=False)
    finally:
        await database.close()
    copies = FINISHED // ORIGINALS
    async with server.connection(FULL) as connection:
        for statement in (_SQL.skip_triggers, _SQL.create_stamped, _SQL.create_other, _SQL.create_copy_rows):
            await connection.execute(statement)
        await connection.fetchval(_SQL.name_tables, ",".join(TABLES))
        await connection.execute(_SQL.keep_originals)
        # The oldest first, as history comes: an index grows at its end, which is much faster.
        for last in range(copies, 0, -COPIES_AT_ONCE):
            progress(f"history: {(copies - last) * ORIGINALS:,} of {FINISHED:,} documents")
            await connection.fetch(_SQL.copy_rows, max(1, last - COPIES_AT_ONCE + 1), last)
        counted = await connection.fetchrow(_SQL.count_rows)
    await server.settle(FULL)
    assert counted is not None
    return dict(counted)


def _inbox_pages(database: Database) -> dict[str, Reading]:
    now = database.clock.now()

    def first_page(connection: Connection) -> Awaitable[object]:
        return read_inbox(connection, ORG, APPROVER.id, InboxQuery(), now)

    return {
        "inbox, first page": first_page,
        "inbox, counts": lambda connection: count_inbox(connection, ORG, APPROVER.id, now),
    }


def _report(
    rates: dict[str, dict[str, list[float]]], pages: list[Measurement], rows: dict[str, int]
) -> BenchReport:
    # The first round warms up.
    measurements = [
        Measurement(f"{name} tables", unit, made[1:], rows if name == FULL else {})
        for unit, both in rates.items()
        for name, made in both.items()
    ]
    ratios = {unit: median(both[FULL][1:]) / median(both[EMPTY][1:]) for unit, both in rates.items()}
    return BenchReport(
        "history",
        f"Behind {rows['finished documents']:,} finished documents, with {rows['open requests']:,} open requests",
        [*measurements, *pages],
        {
            "ratio": min(ratios.values()),
            "ratio_steps": ratios["steps/s"],
            "ratio_documents": ratios["documents/s"],
            "page_ms_max": max(page.median for page in pages if not page.case.startswith("stuck")),
        },
    )
