"""Joins: one task for each key, when tasks of all types have completed, whatever order and whatever workers."""

import asyncio
import random
from typing import Any

import pytest

import assent
from assent.app import App
from assent.runtime.event_processor import EventProcessor
from assent.runtime.keyed_events import OrgRotation, route_arrivals
from assent.runtime.task_commands import TaskHandle
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.upkeep import Names
from tests.plain_sql import wait_until_a_connection_is_blocked
from tests.triggers.test_triggers import resources_of
from tests.workers import TasksWorker, second_worker
from tests.world import ORG, fetch

TYPES = ("tests.text", "tests.exif", "tests.scan")
JOINED = """
SELECT input, partition_id, submitted_by FROM assent.task_submissions
 WHERE org_id <> 'aatwin' AND type = 'tests.index' ORDER BY input ->> 'key'
"""


@pytest.fixture
async def joining(app: App, database: Database) -> App:
    """An application with three types of task, and a fourth that joins them by their hash."""
    for name in TYPES:

        @app.task(name)
        async def read(hash: str | None, background: bool = False) -> Any:
            return assent.Background("elsewhere", "1h") if background else f"read {hash}"

    @app.join(*TYPES, key="input.hash")
    @app.task("tests.index")
    async def index(key: str, outputs: dict[str, Any]) -> None: ...

    await Names(WorkerContext(database, runtime=app.runtime(database))).run_once()
    return app


async def emit_completed(app: App, database: Database, pairs: list[tuple[str, str]], **where: Any) -> None:
    """Complete tasks as the database says it of them."""
    worker = TasksWorker(app, database)
    runtime = app.runtime(database).org(ORG, **where)
    await runtime.tasks.submit_many([assent.NewTask(kind, {"hash": key}) for kind, key in pairs])
    await worker.work()
    await worker.duty.finish()


async def route(app: App, database: Database, limit: int = 200) -> int:
    processor, total = EventProcessor(app.runtime(database).core), 0
    while done := await processor.route_arrivals(limit):
        total += done
    return total


async def joined(database: Database) -> list[str]:
    return [row["input"]["key"] for row in await fetch(database, JOINED)]


async def test_task_of_a_join_has_the_limits_of_its_type(joining: App, database: Database) -> None:
    joining.resource("gpu", max_concurrency=1)

    @joining.join("tests.text", key="input.hash")
    @joining.task("tests.describe", resources=["gpu"])
    async def describe(key: str) -> None: ...

    await Names(WorkerContext(database, runtime=joining.runtime(database))).run_once()
    await emit_completed(joining, database, [("tests.text", "a")])
    await route(joining, database)
    assert await resources_of(database, "tests.describe") == [["gpu"]]


async def test_last_of_the_types_starts_the_task_with_what_came_out(joining: App, database: Database) -> None:
    for kind in TYPES:
        assert await joined(database) == []
        await emit_completed(joining, database, [(kind, "a")])
        await route(joining, database)
    (task,) = await fetch(database, JOINED)
    assert task["input"] == {"key": "a", "outputs": dict.fromkeys(TYPES, "read a")}
    assert (task["submitted_by"], task["partition_id"]) == ("join:tests.index", None)
    await emit_completed(joining, database, [(kind, "a") for kind in TYPES])
    await route(joining, database)
    assert await joined(database) == ["a"], "once for each key, for good"


@pytest.mark.parametrize("seed", range(4))
async def test_workers_that_race_start_one_task_for_each_key(
    joining: App, database: Database, seed: int
) -> None:
    """Batches of every size, in every order, some completions twice."""
    draw = random.Random(seed)  # noqa: S311
    keys = [str(number) for number in range(12)]
    pairs = [(kind, key) for kind in TYPES for key in keys for _ in range(draw.choice((1, 1, 2)))]
    missing = draw.choice(keys)
    pairs = [pair for pair in pairs if pair != (TYPES[0], missing)]
    draw.shuffle(pairs)
    await emit_completed(joining, database, pairs)
    place = WorkerContext(database)
    async with second_worker(place) as second, second_worker(place) as third:
        databases = (database, second.database, third.database)
        handled = await asyncio.gather(*(route(joining, each, draw.randint(1, 5)) for each in databases))
    assert sum(handled) == len(pairs)
    assert sorted(await joined(database)) == sorted(set(keys) - {missing})


async def test_two_that_complete_a_key_at_one_moment_start_it_once(joining: App, database: Database) -> None:
    """Staged: each has one of the last two types, and neither is committed when the other begins."""
    await emit_completed(joining, database, [(TYPES[0], "a")])
    await route(joining, database)
    await emit_completed(joining, database, [(TYPES[1], "a")])
    async with second_worker(WorkerContext(database)) as other:
        async with database.transaction(None) as first:
            processor = EventProcessor(joining.runtime(database).core)
            await _route_within(first, processor)
            await emit_completed(joining, other.database, [(TYPES[2], "a")])
            racing = asyncio.create_task(route(joining, other.database))
            await wait_until_a_connection_is_blocked(first)
            assert await joined(other.database) == []
        await racing
    assert await joined(database) == ["a"]


async def _route_within(connection: Any, processor: EventProcessor) -> None:
    now = processor.database.clock.now()
    assert await route_arrivals(connection, OrgRotation(), processor._triggers, 200, now) == 1


async def test_task_that_is_completed_from_outside_is_joined_also_by_sql(
    joining: App, database: Database
) -> None:
    worker = TasksWorker(joining, database)
    ids = [await worker.submit(kind, {"hash": "a", "background": True}) for kind in TYPES]
    await worker.work()
    commands = joining.runtime(database).org(ORG).tasks
    await commands.complete(ids[0], "by hand")
    async with database.transaction(ORG) as connection:
        for task_id in ids[1:]:
            await connection.fetchval("SELECT assent.complete_task($1, '\"by SQL\"')", task_id)
    assert await route(joining, database) == 3
    (task,) = await fetch(database, JOINED)
    assert sorted(task["input"]["outputs"].values()) == ["by SQL", "by SQL", "by hand"]
    await worker.duty.finish()


async def test_partitions_are_joined_apart_and_what_has_no_key_is_not_joined(
    joining: App, database: Database
) -> None:
    for number, kind in enumerate(TYPES):
        where = {"partition_id": "south"} if number else {"partition_id": "north"}
        await emit_completed(joining, database, [(kind, "a")], **where)
        await emit_completed(joining, database, [(kind, None), (kind, ""), (kind, "x" * 257)])  # type: ignore[list-item]
    await route(joining, database)
    assert await joined(database) == []
    await emit_completed(joining, database, [(TYPES[0], "a")], partition_id="south")
    await route(joining, database)
    (task,) = await fetch(database, JOINED)
    assert task["partition_id"] == "south"


async def test_tasks_that_nothing_watches_emit_nothing(app: App, database: Database) -> None:
    @app.task("tests.note")
    async def note() -> None: ...

    worker = TasksWorker(app, database)
    await worker.submit("tests.note")
    await worker.work()
    await worker.duty.finish()
    assert await route(app, database) == 0


def test_join_names_each_type_once(app: App) -> None:
    with pytest.raises(ValueError, match="each once"):
        app.join("a.b", "a.b", key="id")
    with pytest.raises(ValueError, match="each once"):
        app.join(key="id")
    with pytest.raises(assent.Invalid):
        app.join("a.b", key="input.")(TaskHandle("tests.index", print))
