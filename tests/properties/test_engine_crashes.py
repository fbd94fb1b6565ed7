"""A worker or a command dies at every statement that it sends: afterwards everything is done, and done once."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest

from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.authored import END, arrows, call, form, script
from tests.postgres import SETTINGS
from tests.processes.application import app, keep_calls
from tests.properties.crashing import Crash, CrashingDatabase
from tests.world import ANN, ORG, drain, publish_steps, rows

pytestmark = pytest.mark.long

STATEMENTS_MAX = 120
INSTANCES = 3


@pytest.fixture
async def crashing(database: Database) -> AsyncIterator[CrashingDatabase]:
    """Connections of their own to the test's database."""
    other = await CrashingDatabase.open(database.url, settings=SETTINGS, clock=database.clock)
    other.arm(None)
    try:
        yield other
    finally:
        await other.close()


@pytest.fixture
async def runtime(database: Database) -> Runtime:
    await keep_calls(database)
    return app.runtime(database)


async def publish_everything(database: Database) -> None:
    """A call, a split with a wait and a call in it, a join, and a call behind it."""
    steps = [
        script("one"),
        call("first", "tests.mark", input={"what": "workflow.a"}),
        {"id": "fork", "type": "parallel_split"},
        {"id": "wait", "type": "wait", "key": "k:{workflow.n}"},
        call("beside", "tests.mark", input={"what": "workflow.b"}),
        {"id": "join", "type": "parallel_join", "mode": "all"},
        form("ask"),
        call("last", "tests.mark", input={"what": "workflow.c"}),
        END,
    ]
    transitions = [
        *arrows("one", "first", "fork", "wait", "join", "ask"),
        *arrows("fork", "beside", "join"),
        *arrows("ask", "last", event="done"),
        *arrows("last", "end"),
    ]
    await publish_steps(database, "everything", steps, transitions)


def inputs(round_number: int) -> list[dict[str, Any]]:
    """Each instance has a number of its own, and each of its calls a name of its own."""
    numbers = [f"{round_number}-{index}" for index in range(INSTANCES)]
    return [{"n": n, "a": f"a{n}", "b": f"b{n}", "c": f"c{n}"} for n in numbers]


async def crash_at(
    runtime: Runtime,
    crashing: CrashingDatabase,
    clock: MovedClock,
    statement: int,
    *,
    by_server: bool = False,
) -> bool:
    """One worker that dies at this statement, then another that does what is left; whether the first one died."""
    given = inputs(statement)
    for item in given[1:]:
        await runtime.org(ORG).events.emit(
            f"k:{item['n']}"
        )  # the first one's event comes later than its wait
    await drain(runtime)
    ids = await runtime.org(ORG, ANN).instances.start_many("everything", given)
    await runtime.org(ORG).events.emit(f"k:{given[0]['n']}")
    mortal = app.runtime(crashing)
    crashing.arm(statement, by_server=by_server)
    try:
        await drain(mortal, 2 * INSTANCES)  # half of a batch is the share of the twin org
    except (Crash, OSError, Exception):
        assert crashing.has_died
    for _ in range(2):
        await drain(runtime)
        clock.advance("10m")
    for instance_id in ids:
        view = await runtime.org(ORG, ANN).instances.advance(instance_id, "done")
        assert view.status == "completed"
    return crashing.has_died


async def assert_everything_once(database: Database, rounds: list[int]) -> None:
    async with database.transaction(None) as connection:
        called = await connection.fetch("SELECT what FROM public.calls")
    expected = [item[name] for number in rounds for item in inputs(number) for name in "abc"]
    assert Counter(row["what"] for row in called) == dict.fromkeys(expected, 1)
    steps = await rows(database, "workflow_step_executions")
    assert {step["status"] for step in steps} == {"completed"}
    places = Counter((step["instance_id"], step["node_id"], step["token_id"]) for step in steps)
    assert set(places.values()) == {1}
    per_instance = Counter(step["instance_id"] for step in steps)
    assert set(per_instance.values()) == {11}, "start, and ten nodes"
    receipts = Counter(row["idempotency_key"] for row in await rows(database, "workflow_step_receipts"))
    assert receipts == Counter(step["idempotency_key"] for step in steps)


async def assert_nothing_is_left(database: Database) -> None:
    assert {row["status"] for row in await rows(database, "workflow_events_outbox")} == {"completed"}
    for table in ("workflow_batches", "workflow_kept_events"):
        assert await rows(database, table) == []


async def test_worker_that_dies_at_any_statement_loses_nothing_and_repeats_nothing(
    runtime: Runtime, database: Database, crashing: CrashingDatabase, clock: MovedClock
) -> None:
    await publish_everything(database)
    statement = 1
    while await crash_at(runtime, crashing, clock, statement):
        statement += 1
        assert statement < STATEMENTS_MAX
    assert statement > 60, "that many statements there were to die at"
    await assert_everything_once(database, list(range(1, statement + 1)))
    await assert_nothing_is_left(database)


@pytest.mark.parametrize("first", range(1, 4))
async def test_worker_whose_connection_ends_at_any_statement_goes_on_with_another(
    runtime: Runtime, database: Database, crashing: CrashingDatabase, clock: MovedClock, first: int
) -> None:
    """An error like any other: the worker itself lives, and takes the batch apart. Every third statement each."""
    await publish_everything(database)
    tried = [first]
    while await crash_at(runtime, crashing, clock, tried[-1], by_server=True):
        tried.append(tried[-1] + 3)
        assert tried[-1] < STATEMENTS_MAX
    await assert_everything_once(database, tried)
    await assert_nothing_is_left(database)


async def test_command_that_dies_at_any_statement_did_all_or_nothing(
    runtime: Runtime, database: Database, crashing: CrashingDatabase
) -> None:
    """Whoever asked asks again, with the same key; and then answers the form, until it is answered."""
    await publish_everything(database)
    mortal = app.runtime(crashing)
    ids: list[UUID] = []
    for statement in range(1, STATEMENTS_MAX):
        (item, *_) = inputs(statement)
        await runtime.org(ORG).events.emit(f"k:{item['n']}")
        await drain(runtime)
        crashing.arm(statement)
        with suppress(Crash):
            await mortal.org(ORG, ANN).instances.start("everything", item, idempotency_key=item["n"])
        view = await runtime.org(ORG, ANN).instances.start("everything", item, idempotency_key=item["n"])
        started = not crashing.has_died
        crashing.arm(statement)
        try:
            await mortal.org(ORG, ANN).instances.advance(view.id, "done")
        except Crash:
            await runtime.org(ORG, ANN).instances.advance(view.id, "done")
        ids.append(view.id)
        if started and not crashing.has_died:
            break
    assert len(ids) > 10, "that many messages there were to die at"
    found = {row["id"]: row["status"] for row in await rows(database, "workflow_instances")}
    assert found == dict.fromkeys(ids, "completed")
    async with database.transaction(None) as connection:
        called = await connection.fetch("SELECT what FROM public.calls")
    expected = [inputs(number)[0][name] for number in range(1, len(ids) + 1) for name in "abc"]
    assert Counter(row["what"] for row in called) == dict.fromkeys(expected, 1)
    await assert_nothing_is_left(database)
