"""Round trips of an event that arrives at an idle worker, counted on the wire until the commit of its steps."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from assent.app import App
from assent.runtime import Runtime
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.events import Events
from assent.worker.supervisor import Supervisor, duties
from tests.authored import END, arrows, script
from tests.faults.proxy import COMMIT, Fault, Proxy
from tests.postgres import SETTINGS
from tests.workers import Runs, with_options
from tests.world import ANN, ORG, publish_steps, rows

MESSAGES = [
    "try_named",
    "load_named_events",
    "note_batch",
    "load_instances",
    "find_current",
    "read_actors",
    "take_receipts",
    "insert_steps",
    "insert_instances",
    "complete_events",
    "forget_batch",
    COMMIT,
]
ROUND_TRIPS = 7
"""BEGIN goes with the first of them, and the last six are one message."""


@asynccontextmanager
async def idle_worker(app: App, database: Database) -> AsyncIterator[Runs]:
    """A worker of events that has looked for work and found none; it does not poll."""
    runs = Runs()
    place = with_options(
        WorkerContext(database, runtime=app.runtime(database)), events_interval_ms=86_400_000
    )
    supervisor = Supervisor(database, duties(place, ["events"]), place.options, [runs])
    task = asyncio.create_task(supervisor.run())
    try:
        yield runs
    finally:
        supervisor.stop()
        await asyncio.wait_for(task, 20)


async def until_done(runs: Runs, done: int) -> None:
    """Return when so many events are done, and both lanes have found nothing more."""
    idle = 0
    while done > 0 or idle < 2:
        run = await runs.next()
        assert run.error is None
        done -= run.done.count
        idle += not run.done.more


def short(statement: str) -> str:
    found = re.match(r'COPY "ASSENT"."(\w+)"', statement)
    return f"COPY {found[1].lower()}" if found else statement


async def test_event_at_an_idle_worker_costs_so_many_messages(
    app: App, runtime: Runtime, database: Database
) -> None:
    """Of the third start in the background, when statements are prepared and definitions are known."""
    await publish_steps(database, "quick", [script("one"), END], arrows("one", "end"))
    async with Proxy.before(database.url) as proxy:
        behind = await Database.open(proxy.url, settings=SETTINGS)
        async with idle_worker(app, behind) as runs:
            await until_done(runs, 0)
            for _ in range(2):
                await runtime.org(ORG, ANN).instances.start_many("quick", [{}])
                await until_done(runs, 1)
            proxy.clear()
            seen: list[tuple[int, list[str]]] = []
            fault = Fault(
                COMMIT,
                on_strike=lambda: seen.append((proxy.round_trips, list(proxy.order))),
                action="hold",
            )
            proxy.arm(fault)
            await runtime.org(ORG, ANN).instances.start_many("quick", [{}])
            await fault.wait()
            proxy.disarm()
            await until_done(runs, 1)
        await behind.close()
    ((round_trips, order),) = seen
    assert list(map(short, order)) == MESSAGES
    assert round_trips == ROUND_TRIPS
    assert {row["status"] for row in await rows(database, "workflow_instances")} == {"completed"}


async def test_two_workers_that_hear_of_an_event_process_it_once(
    app: App, runtime: Runtime, database: Database
) -> None:
    await publish_steps(database, "quick", [script("one"), END], arrows("one", "end"))
    behind = [await Database.open(database.url, settings=SETTINGS) for _ in range(2)]
    async with idle_worker(app, behind[0]) as first, idle_worker(app, behind[1]) as second:
        await until_done(first, 0)
        await until_done(second, 0)
        for _ in range(5):
            await runtime.org(ORG, ANN).instances.start_many("quick", [{}])
        found = 0
        while found < 5:
            waits = [asyncio.create_task(runs.next()) for runs in (first, second)]
            ended, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()
            found += sum(each.result().done.count for each in ended)
    for database_behind in behind:
        await database_behind.close()
    assert [row["attempts"] for row in await rows(database, "workflow_events_outbox")] == [1] * 5
    assert {row["status"] for row in await rows(database, "workflow_instances")} == {"completed"}
    assert await rows(database, "workflow_batches") == []


async def test_instances_that_are_named_again_and_again_do_not_hide_the_others(
    runtime: Runtime, database: Database
) -> None:
    """After each batch that was named, the next one is searched for: an event without a notification has its turn."""
    await publish_steps(database, "quick", [script("one"), END], arrows("one", "end"))
    place = WorkerContext(database, runtime=runtime)
    duty = Events(place)
    ids = await runtime.org(ORG, ANN).instances.start_many("quick", [{} for _ in range(4)])
    for each in ids[:2]:
        duty.hear({orjson.dumps([[ORG, str(each)]]).decode()})
        await duty.run_once()
    statuses = [row["status"] for row in await rows(database, "workflow_events_outbox")]
    assert statuses == ["completed"] * 4


async def test_instance_that_is_named_while_another_has_its_lock_is_left_to_that(
    runtime: Runtime, database: Database
) -> None:
    await publish_steps(database, "quick", [script("one"), END], arrows("one", "end"))
    duty = Events(WorkerContext(database, runtime=runtime))
    (instance_id,) = await runtime.org(ORG, ANN).instances.start_many("quick", [{}])
    named = {orjson.dumps([[ORG, str(instance_id)]]).decode()}
    async with database.transaction(None) as other:
        await other.execute("SELECT pg_advisory_xact_lock(hashtextextended($1::uuid::text, 0))", instance_id)
        duty.hear(named)
        assert (await duty.run_once()).count == 0
    duty.hear(named)
    duty._search_is_due = False
    assert (await duty.run_once()).count == 1


@pytest.mark.parametrize("said", ["", "nonsense", "[1]", '[["acme", "no id"]]', "{}", '[["acme"]]'])
async def test_notification_that_names_nothing_has_the_worker_search(
    runtime: Runtime, database: Database, said: str
) -> None:
    await publish_steps(database, "quick", [script("one"), END], arrows("one", "end"))
    duty = Events(WorkerContext(database, runtime=runtime))
    await runtime.org(ORG, ANN).instances.start_many("quick", [{}])
    duty.hear({said})
    assert (await duty.run_once()).count == 1


async def test_notification_of_another_org_moves_no_instance(runtime: Runtime, database: Database) -> None:
    """A name is an org and an instance: with the org of another, nothing is found."""
    await publish_steps(database, "quick", [script("one"), END], arrows("one", "end"))
    duty = Events(WorkerContext(database, runtime=runtime))
    (instance_id,) = await runtime.org(ORG, ANN).instances.start_many("quick", [{}])
    duty.hear({orjson.dumps([["globex", str(instance_id)]]).decode()})
    assert (await duty.run_once()).count == 0


@pytest.mark.parametrize(
    ("org", "number", "is_named"),
    [
        ("acme", 16, True),
        ("acme", 17, False),
        ('"' * 62, 16, True),
        ("a" + "\x01" * 61, 16, True),
        ("ü" * 200, 16, False),
    ],
    ids=["sixteen", "seventeen", "quotes", "controls", "long"],
)
async def test_notification_names_instances_as_long_as_they_fit(
    runtime: Runtime, database: Database, org: str, number: int, is_named: bool
) -> None:
    """A payload that is too long would fail the transaction that emits."""
    await publish_steps(database, "quick", [script("one"), END], arrows("one", "end"), org=org)
    async with database.listen("assent_events") as listener:
        ids = await runtime.org(org, ANN).instances.start_many("quick", [{} for _ in range(number)])
        said = await listener.hear()
    (text,) = said["assent_events"]
    assert bool(text) is is_named
    if is_named:
        assert {tuple(each) for each in orjson.loads(text)} == {(org, str(each)) for each in ids}
