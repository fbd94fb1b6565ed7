"""Triggers: an event starts the tasks whose triggers match it, once, by whichever way it comes."""

import asyncio
from typing import Any

import pytest

import assent
from assent.app import App
from assent.model.actor import Actor
from assent.runtime.event_processor import EventProcessor
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.upkeep import Names
from tests.authored import END, arrows
from tests.statements import StatementCounter
from tests.workers import TasksWorker
from tests.world import ANN, ORG, count, fetch, publish_steps

TASKS = """
SELECT type, input, submitted_by, partition_id FROM assent.task_submissions WHERE org_id <> 'aatwin' ORDER BY type, id
"""

LIMITS = """
SELECT j.lane, t.resources
  FROM assent.jobs j JOIN assent.task_throttles t ON (t.org_id, t.id) = (j.org_id, j.throttle)
 WHERE j.org_id <> 'aatwin'
"""


@pytest.fixture
def app(app: App) -> App:
    @app.trigger(on="file.stored", match="mimeType startsWith 'image/'", priority=200)
    @app.task("photo.read")
    async def photo(hash: str) -> None: ...

    @app.trigger(on="file.stored", match="mimeType = 'audio/mpeg' AND size > 10", input={"of": "event.hash"})
    @app.task("tags.read")
    async def tags(of: str) -> None: ...

    @app.trigger(on="file.stored")
    @app.task("file.scan")
    async def scan(data: dict[str, Any]) -> None: ...

    return app


async def started(database: Database) -> list[tuple[str, Any, str]]:
    return [(row["type"], row["input"], row["submitted_by"]) for row in await fetch(database, TASKS)]


async def resources_of(database: Database, kind: str) -> list[list[str]]:
    """Return what limits each task of a type."""
    return [row["resources"] for row in await fetch(database, LIMITS) if row["lane"] == kind]


async def route(app: App, database: Database) -> int:
    return await EventProcessor(app.runtime(database).core).route_arrivals()


CLERK = Actor("ann", capabilities=frozenset({"documents:*"}))
PHOTO = {"mimeType": "image/png", "hash": "a", "size": 5}
SONG = {"mimeType": "audio/mpeg", "hash": "b", "size": 50}


async def test_event_starts_the_tasks_that_match_with_the_input_that_they_take(
    app: App, database: Database
) -> None:
    acme = app.runtime(database).org(ORG)
    for data in (PHOTO, SONG, {**SONG, "size": 3}, None):
        await app.emit(acme, "file.stored", data)
    await acme.events.emit("file.deleted", PHOTO)
    assert await route(app, database) == 5
    of_all = [
        ("file.scan", data or {}, "trigger:file.scan") for data in (PHOTO, SONG, {**SONG, "size": 3}, None)
    ]
    assert await started(database) == [
        *of_all,
        ("photo.read", {"hash": "a"}, "trigger:photo.read"),
        ("tags.read", {"of": "b"}, "trigger:tags.read"),
    ]
    (photo,) = await fetch(database, "SELECT priority FROM assent.jobs WHERE lane = 'photo.read'")
    assert photo["priority"] == 200
    assert await count(database, "workflow_kept_events") == 1, "a trigger has taken the others"


async def test_task_that_an_event_starts_has_the_limits_of_its_type(app: App, database: Database) -> None:
    app.resource("gpu", max_concurrency=1)

    @app.trigger(on="file.stored")
    @app.task("photo.describe", resources=["gpu"])
    async def describe(hash: str) -> None: ...

    await app.emit(app.runtime(database).org(ORG), "file.stored", PHOTO)
    await route(app, database)
    assert await resources_of(database, "photo.describe") == [["gpu"]]


async def test_event_that_is_emitted_again_under_its_cause_starts_nothing(
    app: App, database: Database
) -> None:
    acme = app.runtime(database).org(ORG)
    for _ in range(3):
        await app.emit(acme, "file.stored", PHOTO, cause="upload 7")
        await route(app, database)
    assert len(await started(database)) == 2
    async with database.transaction(ORG) as connection:
        again = await connection.fetchval("SELECT assent.emit_event('file.stored', '{}', 'upload 7')")
        assert again is False
        await connection.fetchval("SELECT assent.emit_event('file.stored', $1::jsonb)", PHOTO)
    await route(app, database)
    assert len(await started(database)) == 4, "SQL is a way in as any other"


async def test_workers_that_race_start_each_task_once(app: App, database: Database) -> None:
    acme = app.runtime(database).org(ORG)
    for number in range(60):
        await app.emit(acme, "file.stored", {**PHOTO, "hash": str(number)})

    async def work() -> int:
        processor, total = EventProcessor(app.runtime(database).core), 0
        while done := await processor.route_arrivals(5):
            total += done
        return total

    assert sum(await asyncio.gather(work(), work(), work())) == 60
    hashes = [task["hash"] for name, task, _ in await started(database) if name == "photo.read"]
    assert sorted(hashes, key=int) == [str(number) for number in range(60)]


async def test_batch_that_is_rolled_back_has_started_nothing_and_is_routed_again(
    app: App, database: Database
) -> None:
    await app.emit(app.runtime(database).org(ORG), "file.stored", PHOTO)
    async with database.transaction(None) as connection:
        await connection.execute("LOCK TABLE assent.task_submissions IN ACCESS EXCLUSIVE MODE")
        waiting = asyncio.create_task(route(app, database))
        await asyncio.wait({waiting}, timeout=0.05)
        waiting.cancel()
        await asyncio.wait({waiting})
    assert await started(database) == []
    await route(app, database)
    assert len(await started(database)) == 2


async def test_statements_do_not_grow_with_the_events(
    app: App, database: Database, statement_counter: StatementCounter
) -> None:
    sent = []
    for size in (1, 30):
        for number in range(size):
            await app.emit(
                app.runtime(database).org(ORG), "file.stored", {**PHOTO, "hash": f"{size} {number}"}
            )
        statement_counter.clear()
        assert await route(app, database) == size
        sent.append(len(statement_counter))
    assert sent[1] <= sent[0], "the first claim of a process looks around once more"


async def test_step_that_waits_for_the_key_and_the_trigger_both_get_the_event(
    app: App, database: Database
) -> None:
    waiting = {"id": "stored", "type": "wait_event", "key": "file.stored"}
    await publish_steps(database, "wait", [waiting, END], arrows("stored", "end"))
    runtime = app.runtime(database)
    instance = await runtime.org(ORG, ANN).instances.start("wait")
    await app.emit(runtime.org(ORG), "file.stored", PHOTO)
    processor = EventProcessor(runtime.core)
    while await processor.process_events():
        pass
    assert (await runtime.org(ORG, ANN).instances.get(instance.id)).instance.status == "completed"
    assert len(await started(database)) == 2


async def test_event_of_a_partition_starts_tasks_of_that_partition(app: App, database: Database) -> None:
    await app.emit(app.runtime(database).org(ORG, partition_id="south"), "file.stored", PHOTO)
    await route(app, database)
    assert {row["partition_id"] for row in await fetch(database, TASKS)} == {"south"}


async def test_task_emits_with_its_completion_or_not_at_all(app: App, database: Database) -> None:
    @app.task("file.store", attempts_max=1)
    async def store(task: assent.TaskContext, fails: bool) -> None:
        await task.emit("file.stored", PHOTO)
        if fails:
            raise RuntimeError("the disk is full")

    worker = TasksWorker(app, database)
    for fails in (True, False):
        await worker.submit("file.store", {"fails": fails})
        assert await worker.work() == {"dead" if fails else "done": 1}
        await route(app, database)
        found = [name for name, _, _ in await started(database) if name != "file.store"]
        assert found == ([] if fails else ["file.scan", "photo.read"])
    await worker.duty.finish()


async def test_task_emits_many_in_one_statement_and_each_cause_once(
    app: App, database: Database, statement_counter: StatementCounter
) -> None:
    @app.task("file.store")
    async def store(task: assent.TaskContext, names: list[str]) -> None:
        async with task.transaction():
            before = len(statement_counter)
            await task.emit_many("file.stored", {name: SONG | {"hash": name} for name in names})
            said.append(len(statement_counter) - before)

    said: list[int] = []
    worker = TasksWorker(app, database)
    for names in (["a"], ["a", "b", *map(str, range(200))], []):
        await worker.submit("file.store", {"names": names})
        assert await worker.work() == {"done": 1}
    while await route(app, database):
        pass
    read = [input["of"] for name, input, _ in await started(database) if name == "tags.read"]
    assert sorted(read) == sorted(["a", "b", *map(str, range(200))])
    assert said[0] == said[1] <= 3, "a savepoint, its release, and the events in one statement"
    await worker.duty.finish()


async def test_event_for_a_trigger_of_newer_code_is_left_to_it(
    app: App, database: Database, clock: MovedClock
) -> None:
    """Also where the older worker knows another trigger of the same event: else one of the tasks would be lost."""
    older = App()
    older.tasks["file.scan"] = app.tasks["file.scan"]
    older.triggers = [one for one in app.triggers if one.name == "file.scan"]
    await Names(WorkerContext(database, runtime=app.runtime(database))).run_once()
    await app.emit(app.runtime(database).org(ORG), "file.stored", PHOTO)
    await route(older, database)
    assert await started(database) == []
    await route(app, database)
    assert await started(database) == [], "not at once again"
    clock.advance("2s")
    await route(app, database)
    assert [name for name, _, _ in await started(database)] == ["file.scan", "photo.read"]


async def test_trigger_on_completed_tasks_starts_one_for_each(app: App, database: Database) -> None:
    @app.task("text.read")
    async def read(page: int, fails: bool = False) -> int:
        if fails:
            raise assent.GiveUp("no text")
        return page * 2

    @app.trigger(on="task.completed:text.read", match="output > 3", input={"of": "input.page", "by": "id"})
    @app.task("text.index")
    async def index(of: int, by: str) -> None: ...

    await Names(WorkerContext(database, runtime=app.runtime(database))).run_once()
    worker = TasksWorker(app, database)
    ids = [await worker.submit("text.read", {"page": page}) for page in (1, 2, 3)]
    await worker.submit("text.read", {"page": 4, "fails": True})
    await worker.work()
    assert await route(app, database) == 3
    found = [task for name, task, _ in await started(database) if name == "text.index"]
    assert sorted(found, key=lambda task: task["of"]) == [
        {"of": 2, "by": str(ids[1])},
        {"of": 3, "by": str(ids[2])},
    ]
    await worker.duty.finish()


async def test_trigger_on_versions_of_documents_starts_one_task_for_each(
    app: App, database: Database
) -> None:
    @app.trigger(on="document.version", match="document_type = 'passport'", input={"of": "event.id"})
    @app.task("passport.read")
    async def read(of: str) -> None: ...

    await Names(WorkerContext(database, runtime=app.runtime(database))).run_once()
    documents = app.runtime(database).org(ORG, CLERK).documents
    versions = []
    for kind in ("passport", "invoice"):
        found = await documents.create(kind, "c-1")
        versions.append(await documents.add_version(found.id, structured_data={"number": "7"}))
    await route(app, database)
    assert await started(database) == [
        ("passport.read", {"of": str(versions[0].id)}, "trigger:passport.read")
    ]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"match": "mimeType startsWith"}, "SYNTAX"),
        ({"match": "unknown_function(mimeType)"}, "UNKNOWN"),
        ({"input": {"hash": "event."}}, "SYNTAX"),
        ({"name": "photo.read"}, "DUPLICATE"),
    ],
)
def test_trigger_that_could_not_be_evaluated_is_refused_where_it_stands(
    app: App, given: Any, code: str
) -> None:
    @app.task("tests.note")
    async def note() -> None: ...

    with pytest.raises(assent.Invalid, match=code):
        app.trigger("file.stored", **given)(note)
