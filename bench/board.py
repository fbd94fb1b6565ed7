"""Is the board of a compliance team fast with a hundred thousand requirements? First pages and counts of each list.

The rows are made by SQL. Each reading is a transaction of the application's role, under row security, as over HTTP.
"""

from dataclasses import replace
from datetime import date
from statistics import quantiles
from time import perf_counter
from typing import Final

from assent.documents.requirements import RequirementFilter, count_requirements, page_of_requirements
from assent.model.actor import Reader
from assent.store.database import Database
from assent.store.queries import load_queries
from bench.inbox import Reading
from bench.report import BenchReport, Measurement, progress
from bench.server import fresh_server

REQUIREMENTS: Final = 100_000
ROUNDS: Final = 5
READINGS: Final = 200
PAGE: Final = 51
"""A page of 50, and one row that says whether there are more."""

_SQL: Final = load_queries("bench", "board.sql")
_IDS: Final = load_queries("bench", "inbox.sql")
_BOARDS: Final = {
    "everything": RequirementFilter(),
    "one client": RequirementFilter(subject="client-777"),
    "rejected": RequirementFilter(status="rejected"),
    "in review, passports": RequirementFilter(status="in_qa", doc_type="passport"),
    "by code": RequirementFilter(code="GLARE"),
    "overdue": RequirementFilter(due_before=date(2026, 3, 3)),
}


async def measure() -> BenchReport:
    async with fresh_server() as server:
        await server.create_ours("board")
        async with server.connection("board") as connection:
            await connection.execute(_IDS.create_id)
            await connection.execute(_IDS.skip_triggers)
            await connection.execute(_SQL.fill_requirements, 0, REQUIREMENTS - 1)
            await connection.execute(_SQL.fill_cases, 0, REQUIREMENTS - 1)
        await server.settle("board")
        database = await Database.open(server.url("board"))
        try:
            measurements = []
            for case, reading in _cases(database):
                measurements += await _measure(database, case, reading)
        finally:
            await database.close()
    return BenchReport("board", f"First pages of {REQUIREMENTS:,} requirements", measurements)


def _cases(database: Database) -> list[tuple[str, Reading]]:
    reader = Reader("lead", database.clock.now(), all_flows=True)

    def page(wanted: RequirementFilter) -> Reading:
        return lambda connection: page_of_requirements(connection, "acme", wanted, None, PAGE)

    everything = RequirementFilter(reader=reader)
    return [
        *((f"first page, {name}", page(replace(wanted, reader=reader))) for name, wanted in _BOARDS.items()),
        ("counts", lambda connection: count_requirements(connection, "acme", everything)),
    ]


async def _measure(database: Database, case: str, reading: Reading) -> list[Measurement]:
    p50, p95 = [], []
    for _ in range(ROUNDS):
        cuts = quantiles(await _times_ms(database, reading), n=20)
        p50.append(cuts[9])
        p95.append(cuts[18])
    progress(f"{case}: p50 {min(p50):.2f} ms, p95 {min(p95):.2f} ms")
    return [Measurement(f"{case}, {cut}", "ms", runs) for cut, runs in (("p50", p50), ("p95", p95))]


async def _times_ms(database: Database, reading: Reading) -> list[float]:
    times = []
    for _ in range(READINGS):
        begun = perf_counter()
        async with database.transaction("acme", read_only=True) as connection:
            await reading(connection)
        times.append((perf_counter() - begun) * 1000)
    return times
