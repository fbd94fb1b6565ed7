"""Is the inbox fast behind a million decided requests? Pages and counts of a usual reader and of a very busy one.

The rows are made by SQL, in every table that the inbox reads. Each reading is a transaction of the application's role,
under row security, as a door would make it.
"""

from collections.abc import Awaitable, Callable
from statistics import quantiles
from time import perf_counter

from assent.people import InboxPage, InboxQuery, count_inbox, read_inbox
from assent.store.connection import Connection
from assent.store.database import Database
from assent.store.queries import load_queries
from bench.report import BenchReport, Measurement, progress
from bench.server import BenchServer, fresh_server

DECIDED = 1_000_000
OPEN = 5_000
AT_ONCE = 100_000
ROUNDS = 5
READINGS = 100
PAGES = 10

NAMES = {"short": "without history", "full": f"behind {DECIDED:,} decided"}

_SQL = load_queries("bench", "inbox.sql")
_FILLING = (
    _SQL.fill_entities,
    _SQL.fill_instances,
    _SQL.fill_requests,
    _SQL.fill_seats,
    _SQL.fill_more_seats,
    _SQL.fill_decisions,
)

Reading = Callable[[Connection], Awaitable[object]]


async def measure() -> BenchReport:
    measurements = []
    async with fresh_server() as server:
        for name, first in (("short", DECIDED + 1), ("full", 1)):
            await _fill(server, name, first)
            database = await Database.open(server.url(name))
            try:
                measurements += await _measure(database, NAMES[name])
            finally:
                await database.close()
    return BenchReport("inbox", f"Reading the inbox of {OPEN:,} open requests", measurements)


async def _fill(server: BenchServer, name: str, first: int) -> None:
    await server.create_ours(name)
    async with server.connection(name) as connection:
        await connection.execute(_SQL.create_id)
        await connection.execute(_SQL.skip_triggers)
        await connection.execute(_SQL.take_in_people)
        await connection.execute(_SQL.lend)
        for start in range(first, DECIDED + OPEN + 1, AT_ONCE):
            end = min(start + AT_ONCE - 1, DECIDED + OPEN)
            for statement in _FILLING:
                await connection.execute(statement, start, end, DECIDED)
            progress(f"{name}: {end - first + 1:,} requests")
    await server.settle(name)


async def _measure(database: Database, name: str) -> list[Measurement]:
    found = []
    for case, items, reading in await _cases(database):
        p50, p95 = [], []
        for _ in range(ROUNDS):
            cuts = quantiles(await _times_ms(database, reading), n=20)
            p50.append(cuts[9])
            p95.append(cuts[18])
        progress(f"{name}, {case}: p50 {min(p50):.2f} ms, p95 {min(p95):.2f} ms")
        found += [
            Measurement(f"{case}, {name}, {cut}", "ms", runs, {"open for the reader": items})
            for cut, runs in (("p50", p50), ("p95", p95))
        ]
    return found


async def _cases(database: Database) -> list[tuple[str, int, Reading]]:
    now = database.clock.now()
    tenth = await _cursor(database, "busy", pages=PAGES - 1)

    def page(user_id: str, **given: str | None) -> Reading:
        return lambda connection: read_inbox(connection, "acme", user_id, InboxQuery(**given), now)  # type: ignore[arg-type]

    usual, busy = OPEN // 200, OPEN * 3 // 5
    return [
        ("usual first page", usual, page("p7")),
        ("busy first page", busy, page("busy")),
        ("busy tenth page", busy, page("busy", cursor=tenth)),
        ("busy first page by due", busy, page("busy", sort="due")),
        ("busy first page with a text", busy, page("busy", text="99")),
        ("busy counts", busy, lambda connection: count_inbox(connection, "acme", "busy", now)),
    ]


async def _cursor(database: Database, user_id: str, pages: int) -> str:
    """Where the reader stands after so many pages."""
    cursor: str | None = None
    async with database.transaction("acme") as connection:
        for _ in range(pages):
            query = InboxQuery(cursor=cursor)
            page = await read_inbox(connection, "acme", user_id, query, database.clock.now())
            if not isinstance(page, InboxPage) or page.next is None:
                raise RuntimeError(f"Expected {pages} pages of {user_id} and more, found an end: {page}")
            cursor = page.next
    assert cursor is not None
    return cursor


async def _times_ms(database: Database, reading: Reading) -> list[float]:
    times = []
    for _ in range(READINGS):
        begun = perf_counter()
        async with database.transaction("acme") as connection:
            await reading(connection)
        times.append((perf_counter() - begun) * 1000)
    return times
