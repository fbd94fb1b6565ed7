"""Workers of two versions of an application run: the older one leaves to the newer one what only that declares."""

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from assent import Refused, Runtime
from assent.refusals import STATUS_OF
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.effects import Effects
from assent.worker.upkeep import Names
from tests.authored import END, arrows
from tests.processes.commands import run_command, worker
from tests.worker.rolling_application import FLOW, new_app, old_app
from tests.workers import run_until_done
from tests.world import ANN, OPS, ORG, count, drain, fetch, found_acme, publish_steps

CALL = {"id": "call", "type": "system", "operation": {"sdk": "new.inside"}}
SEND = {"id": "send", "type": "system", "operation": {"sdk": "new.outside"}}
WORK = {"id": "work", "type": "task", "task": "new.work", "input": {}}


@pytest.fixture
def old(database: Database) -> Runtime:
    return old_app().runtime(database)


@pytest.fixture
def new(database: Database) -> Runtime:
    return new_app().runtime(database)


async def say_names(runtime: Runtime) -> None:
    """Have a worker of this code say what it declares."""
    await Names(WorkerContext(runtime.database, runtime=runtime)).run_once()


async def start(database: Database, *steps: dict[str, Any]) -> None:
    """Have an instance of a flow of these steps begin in the background."""
    names = [step["id"] for step in steps]
    await publish_steps(database, "rolling", [*steps, END], arrows(*names, "end"))
    await old_app().runtime(database).org(ORG, ANN).instances.start_many("rolling", [{}])


async def statuses(database: Database) -> tuple[list[str], int]:
    """Return the statuses of the instances, and how many events have counted an attempt that failed."""
    instances = await fetch(database, "SELECT status FROM assent.workflow_instances WHERE org_id = 'acme'")
    failed = (
        "SELECT id FROM assent.workflow_events_outbox"
        " WHERE org_id = 'acme' AND attempts > (status = 'completed')::integer"
    )
    return [row["status"] for row in instances], len(await fetch(database, failed))


@pytest.mark.parametrize("step", [CALL, WORK], ids=["operation", "task"])
async def test_an_event_is_left_to_newer_code_without_a_counted_attempt(
    old: Runtime, new: Runtime, database: Database, clock: MovedClock, step: dict[str, Any]
) -> None:
    await say_names(new)
    await start(database, step)
    for _ in range(20):  # more often than there are attempts
        await drain(old)
        clock.advance("5s")
    assert await statuses(database) == ([], 0)
    await drain(new)
    found, dead = await statuses(database)
    assert (found, dead) == (["completed"] if step is CALL else ["running"], 0)


async def test_others_of_the_batch_go_on(
    old: Runtime, new: Runtime, database: Database, clock: MovedClock
) -> None:
    await say_names(new)
    await start(database, CALL)
    await publish_steps(
        database, "plain", [{"id": "a", "type": "script", "set": {"a": "1"}}, END], arrows("a", "end")
    )
    await old.org(ORG, ANN).instances.start_many("plain", [{}, {}, {}])
    await drain(old)
    assert await statuses(database) == (["completed"] * 3, 0)


async def test_an_action_of_newer_code_is_left_to_it(
    old: Runtime, new: Runtime, database: Database, clock: MovedClock
) -> None:
    await say_names(new)
    await found_acme(database)
    made = (await new.org(ORG, ANN).entities.mutate("expense.create", {"title": "Taxi"})).entity
    step = {"id": "note", "type": "mutation", "action": "expense.note", "entity": "workflow.expense"}
    await publish_steps(database, "noting", [step, END], arrows("note", "end"))
    await old.org(ORG, ANN).instances.start_many("noting", [{"expense": str(made.id)}])
    await drain(old)
    assert await statuses(database) == ([], 0)
    clock.advance("5s")
    await drain(new)
    assert (await new.org(ORG, ANN).entities.get(made.id)).data["title"] == "Taxi, noted"


async def test_a_command_that_leads_there_is_refused_and_changes_nothing(
    old: Runtime, new: Runtime, database: Database
) -> None:
    await say_names(new)
    await publish_steps(database, "rolling", [CALL, END], arrows("call", "end"))
    with pytest.raises(Refused, match=r"operation `new\.inside` is of newer code") as refused:
        await old.org(ORG, ANN).instances.start("rolling")
    assert (refused.value.code, STATUS_OF[refused.value.code]) == ("NEWER_CODE_NEEDED", 503)
    assert await statuses(database) == ([], 0)
    assert (await new.org(ORG, ANN).instances.start("rolling")).status == "completed"


async def test_after_the_time_the_instance_stops_and_says_why(
    old: Runtime, new: Runtime, database: Database, clock: MovedClock
) -> None:
    await say_names(new)
    await start(database, CALL)
    await drain(old)
    clock.advance("14m")
    await drain(old)
    assert await statuses(database) == ([], 0)
    clock.advance("2m")
    await drain(old)
    assert await statuses(database) == (["paused"], 0)
    (row,) = await fetch(database, "SELECT context_json FROM assent.workflow_instances WHERE org_id = 'acme'")
    error = row["context_json"]["_last_error"]
    assert error["code"] == "UNKNOWN_OPERATION"
    # Newer code comes after all, and an operator retries.
    (found,) = (await new.org(ORG).instances.list()).items
    assert (await new.org(ORG, OPS).instances.retry(found.id)).status == "completed"


async def test_an_effect_is_left_to_newer_code_without_a_counted_attempt(
    old: Runtime, new: Runtime, database: Database, clock: MovedClock
) -> None:
    await say_names(new)
    await publish_steps(database, "rolling", [SEND, END], arrows("send", "end"))
    view = await new.org(ORG, ANN).instances.start("rolling")
    older = Effects(WorkerContext(database, runtime=old))
    for _ in range(20):
        await older.run_once()
        clock.advance("5s")
    (job,) = await fetch(database, "SELECT status, attempts FROM assent.jobs WHERE org_id = 'acme'")
    assert (job["status"], job["attempts"]) == ("queued", 0)
    await older.finish()
    await run_until_done(Effects(WorkerContext(database, runtime=new)))
    await drain(old)
    assert (await new.org(ORG, ANN).instances.get(view.id)).instance.status == "completed"


async def test_an_effect_that_no_code_knows_is_a_dead_letter_at_once(
    old: Runtime, new: Runtime, database: Database
) -> None:
    await publish_steps(database, "rolling", [SEND, END], arrows("send", "end"))
    await new.org(ORG, ANN).instances.start("rolling")
    await run_until_done(Effects(WorkerContext(database, runtime=old)))
    (job,) = await fetch(database, "SELECT status FROM assent.jobs WHERE org_id = 'acme'")
    assert job["status"] == "dead"


async def test_names_are_kept_while_they_are_said_and_forgotten_after_a_day(
    new: Runtime, old: Runtime, database: Database, clock: MovedClock
) -> None:
    await say_names(new)
    found = await fetch(database, "SELECT name FROM assent.declared_names ORDER BY name")
    assert [row["name"] for row in found] == [
        "action:expense.note",
        "operation:new.inside",
        "operation:new.outside",
        "task:new.work",
    ]
    clock.advance("23h")
    await say_names(old)
    assert await count(database, "declared_names") == 4
    clock.advance("2h")
    await say_names(old)
    assert await count(database, "declared_names") == 0


@pytest.mark.long
@pytest.mark.parametrize("newer_first", [True, False], ids=["newer stops first", "older stops first"])
async def test_two_workers_of_two_versions_finish_every_instance(
    database_url: str, tmp_path: Path, newer_first: bool
) -> None:
    """Real processes: publish the newer version, roll it out, stop one and start it again; no instance breaks."""
    flow = tmp_path / "rolling.yaml"
    flow.write_text(yaml.safe_dump(FLOW))
    module = "tests.worker.rolling_application"
    published = await asyncio.to_thread(
        run_command,
        *("definitions", "publish", str(flow), "--org", ORG, "--app", f"{module}:new"),
        url=database_url,
    )
    assert published.returncode == 0, published.stderr
    database = await Database.open(database_url)
    runtime = old_app().runtime(database)

    async def begin(number: int) -> None:
        await runtime.org(ORG, ANN).instances.start_many("rolling", [{} for _ in range(number)])

    async def completed(number: int) -> None:
        async with asyncio.timeout(60):
            while True:
                found, dead = await statuses(database)
                assert dead == 0
                assert set(found) <= {"running", "completed"}, found
                if found.count("completed") == number:
                    return
                await asyncio.sleep(0.1)

    try:
        async with AsyncExitStack() as stack:
            older = await stack.enter_async_context(worker(database_url, "--app", f"{module}:old"))
            await begin(5)  # only the older code runs, and leaves them
            newer = await stack.enter_async_context(worker(database_url, "--app", f"{module}:new"))
            await completed(5)
            first, second, again = (newer, older, "new") if newer_first else (older, newer, "old")
            first.send(signal.SIGTERM)
            assert await first.ended() == 0
            await begin(5)
            if not newer_first:
                await completed(10)  # the newer code alone
            await stack.enter_async_context(worker(database_url, "--app", f"{module}:{again}"))
            await completed(10)
            second.send(signal.SIGTERM)
            assert await second.ended() == 0
    finally:
        await database.close()
