"""Do pages stay flat? Milliseconds of each in an org of 200,000 instances, 1,000,000 in all orgs.

Each reading is a transaction of the application's role, under row security; the search for stuck instances is the
worker's, over all orgs. ASSENT_BENCH_LARGE, _SMALL and _SMALL_ORGS set another size.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial
from time import perf_counter

from assent.audit.entries import AuditFilter, search_audit
from assent.operations.health import find_stuck, health
from assent.people import count_inbox
from assent.runtime.views import InstanceFilter, list_instances
from assent.store.connection import Connection
from assent.store.database import Database
from bench.population import LARGE_ORG, Population, populate
from bench.report import BenchReport, Measurement, progress
from bench.server import fresh_server

NAME = "pages"
READINGS = 40
PAGE = 51

Reading = Callable[[Connection], Awaitable[object]]


async def measure() -> BenchReport:
    size = _size()
    async with fresh_server() as server:
        await server.create_ours(NAME)
        async with server.connection(NAME) as connection:
            progress(f"making {size.instances:,} instances")
            await populate(connection, size)
        await server.settle(NAME)
        database = await Database.open(server.url(NAME))
        try:
            measurements = await measure_pages(database, LARGE_ORG, _inbox(database))
        finally:
            await database.close()
    slowest = {m.case: m.median for m in measurements}
    return BenchReport(
        NAME,
        f"Pages of an org of {size.large:,} instances, of {size.instances:,}",
        measurements,
        {"stuck_ms": slowest.pop("stuck, all orgs"), "page_ms_max": max(slowest.values())},
    )


def _size() -> Population:
    usual = Population()
    sizes = (("LARGE", usual.large), ("SMALL", usual.small), ("SMALL_ORGS", usual.small_orgs))
    return Population(*(int(os.environ.get(f"ASSENT_BENCH_{name}", number)) for name, number in sizes))


async def measure_pages(database: Database, org_id: str, more: Mapping[str, Reading]) -> list[Measurement]:
    """Measure the pages of an org, and those of its own that the caller adds."""

    async def read(reading: Reading, org_id: str | None) -> None:
        async with database.transaction(org_id) as connection:
            await reading(connection)

    def stuck(connection: Connection) -> Awaitable[object]:
        return find_stuck(connection, None, timedelta(minutes=15))

    pages = {**_pages(org_id), **more}
    cases: dict[str, Callable[[], Awaitable[object]]] = {
        name: partial(read, page, org_id) for name, page in pages.items()
    }
    cases["health"] = partial(health, database, org_id)
    cases["stuck, all orgs"] = partial(read, stuck, None)
    return [Measurement(name, "ms", await _times_ms(case)) for name, case in cases.items()]


def _pages(org_id: str) -> dict[str, Reading]:
    return {
        "instances, newest": lambda c: list_instances(c, org_id, InstanceFilter(), None, PAGE),
        "instances, running": lambda c: list_instances(c, org_id, InstanceFilter(["running"]), None, PAGE),
        "audit by a rare action": lambda c: search_audit(c, org_id, AuditFilter(action="cancel"), None, PAGE),
    }


def _inbox(database: Database) -> dict[str, Reading]:
    now = database.clock.now()
    return {"inbox, counts": lambda c: count_inbox(c, LARGE_ORG, "u1", now)}


async def _times_ms(case: Callable[[], Awaitable[object]]) -> list[float]:
    await case()
    times_ms = []
    for _ in range(READINGS):
        began_s = perf_counter()
        await case()
        times_ms.append((perf_counter() - began_s) * 1000)
    return times_ms
