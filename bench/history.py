"""Does history cost anything? Steps a second among 300,000 finished instances, and on empty tables.

The history is real: some instances are run, then their rows in all tables are copied to earlier seconds.
"""

from statistics import median

from assent.store.connection import Connection
from assent.store.queries import load_queries
from bench.child import Run, run_child
from bench.report import Measurement, Report, progress
from bench.server import Server, fresh_server

ROUNDS = 5
WORKFLOWS = 4_000
WARM_UP = 400
ORIGINALS = 400
INSTANCES = 300_000
COPIES_AT_ONCE = 75

EMPTY, FULL, BLANK = "empty", "full", "blank"

_SQL = load_queries("bench", "history.sql")


async def measure() -> Report:
    rates: dict[str, list[float]] = {EMPTY: [], FULL: []}
    async with fresh_server() as server:
        await server.create_ours(BLANK)
        await server.create(FULL, template=BLANK)
        rows = await _make_history(server)
        for number in range(ROUNDS):
            for name in (EMPTY, FULL):
                rates[name].append(await _rate(server, name))
            latest = ", ".join(f"{name} {made[-1]:,.0f}" for name, made in rates.items())
            progress(f"round {number + 1} of {ROUNDS}: {latest} steps/s")
    return Report(
        "history",
        f"Workflows of ten automatic steps among {INSTANCES:,} finished instances",
        [
            Measurement("empty tables", "steps/s", rates[EMPTY], {"steps before": 0}),
            Measurement("full tables", "steps/s", rates[FULL], {"steps before": rows}),
        ],
        {"ratio": median(rates[FULL]) / median(rates[EMPTY])},
    )


async def _rate(server: Server, name: str) -> float:
    if name == EMPTY:
        await server.create(EMPTY, template=BLANK)
    await server.settle(name)
    return (await _run(server, name, WORKFLOWS, WARM_UP)).rate


async def _run(server: Server, name: str, workflows: int, warm_up: int) -> Run:
    return await run_child("bench.ours_steps", [server.url(name), workflows, warm_up], workflows * 10)


async def _make_history(server: Server) -> int:
    await _run(server, FULL, ORIGINALS, 0)
    async with server.connection(FULL) as connection:
        for statement in (
            _SQL.create_seconds,
            _SQL.create_stamped,
            _SQL.create_other,
            _SQL.skip_triggers,
            _SQL.keep_originals,
        ):
            await connection.execute(statement)
        copies = INSTANCES // ORIGINALS
        # The oldest first, as history comes: an index grows at its end, which is much faster.
        for last in range(copies, 0, -COPIES_AT_ONCE):
            progress(f"history: {(copies - last) * ORIGINALS:,} of {INSTANCES:,} instances")
            await _copy(connection, max(1, last - COPIES_AT_ONCE + 1), last)
        steps = await connection.fetchval("SELECT count(*) FROM assent.workflow_step_executions")
    await server.settle(FULL)
    return int(steps)


async def _copy(connection: Connection, first: int, last: int) -> None:
    async with connection.transaction():
        for statement in (
            _SQL.copy_instances,
            _SQL.copy_steps,
            _SQL.copy_step_receipts,
            _SQL.copy_events,
            _SQL.copy_event_receipts,
        ):
            await connection.execute(statement, first, last)
