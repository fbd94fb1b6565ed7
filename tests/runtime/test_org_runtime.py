"""Commands that are bound to an org and an actor, and the handles of tasks."""

from typing import Any
from uuid import uuid4

import pytest

import assent
from assent.app import App
from assent.model.actor import SYSTEM
from assent.model.mutation import Refused
from assent.runtime import Runtime
from assent.runtime.task_commands import TaskHandle
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.authored import END, arrows, call, script
from tests.world import ANN, OPS, ORG, drain, publish_steps, rows

FLOW = {
    "flow": "tests.short",
    "version": 1,
    "start": "end",
    "steps": [{"id": "end", "type": "terminal"}],
    "transitions": [],
}


async def test_command_that_needs_an_actor_says_how_to_bind_one(runtime: Runtime) -> None:
    with pytest.raises(ValueError, match=r"runtime\.org\(org_id, actor\)"):
        await runtime.org(ORG).instances.start("anything")


@pytest.mark.parametrize(("org_id", "partition_id"), [("  ", None), (ORG, "\u200b")])
def test_blank_org_or_partition_is_refused(runtime: Runtime, org_id: str, partition_id: str | None) -> None:
    with pytest.raises(Refused, match="BLANK"):
        runtime.org(org_id, ANN, partition_id)


async def test_another_actor_keeps_the_org_and_the_partition(runtime: Runtime) -> None:
    scope = runtime.org(ORG, ANN, "north").by(OPS).scope
    assert (scope.org_id, scope.actor, scope.partition_id) == (ORG, OPS, "north")


async def test_published_flow_is_listed_archived_and_rolled_back(runtime: Runtime) -> None:
    org = runtime.org(ORG, SYSTEM)
    await org.definitions.publish(FLOW)
    (version,) = await org.definitions.list_versions("tests.short")
    assert version.status == "published"
    assert (await org.definitions.archive(version.id)).status == "archived"
    await org.definitions.roll_back(version.id)
    (again,) = await org.definitions.list_versions("tests.short")
    assert (again.id, again.status) == (version.id, "published")


async def test_changes_are_made_in_one_call_and_a_rejected_one_alone_is_not(
    runtime: Runtime, database: Database
) -> None:
    right = assent.Change("expense.create", {"title": "Taxi", "total": 1})
    wrong = assent.Change("expense.create", {"title": "Taxi", "total": "much"})
    done, rejected = await runtime.org(ORG, ANN).entities.mutate_many([right, wrong])
    assert isinstance(done, assent.Mutation)
    assert isinstance(rejected, assent.Rejection)
    assert [row["id"] for row in await rows(database, "entities")] == [done.entity.id]


async def test_all_dead_events_are_retried_each_by_itself(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    def closed(connection: Any, arguments: Any) -> Any:
        raise RuntimeError("the shop is closed")

    runtime.core.advancing.operations["shop.confirm"] = closed
    await publish_steps(database, "a.b", [call("confirm", "shop.confirm"), END], arrows("confirm", "end"))
    await runtime.org(ORG, ANN).instances.start_many("a.b", [{}, {}, {}])
    for _ in range(5):
        await drain(runtime)
        clock.advance("10m")
    letters = runtime.org(ORG, OPS).dead_letters
    assert [letter.kind for letter in await letters.list()] == ["event"] * 3
    assert await letters.retry_all("event", what="on_timer") == 0
    runtime.core.advancing.operations["shop.confirm"] = lambda connection, arguments: {"ok": True}
    assert await letters.retry_all() == 3
    assert await letters.list() == []
    assert {row["status"] for row in await rows(database, "workflow_instances")} == {"completed"}


async def test_letter_of_no_kind_is_not_found(runtime: Runtime) -> None:
    with pytest.raises(Refused, match="NOT_FOUND"):
        await runtime.org(ORG, OPS).dead_letters.retry(uuid4())


async def test_handle_of_a_task_is_the_function_and_submits_it(database: Database) -> None:
    app = App()

    @app.task("scans.archive")
    async def archive(task: assent.TaskContext | None, number: int) -> str:
        """Archive a scan."""
        return f"scan-{number}.pdf"

    assert isinstance(archive, TaskHandle)
    assert (archive.__name__, archive.__doc__) == ("archive", "Archive a scan.")
    assert await archive(None, number=7) == "scan-7.pdf"
    org = app.runtime(database).org(ORG, ANN)
    submitted = await archive.configure(key="scan 7", priority=200).submit(org, number=7)
    assert await org.tasks.submit(archive, {"number": 7}, key="scan 7") == submitted
    task = await org.by(assent.SYSTEM).tasks.get(submitted.id)
    assert (task.type, task.input, task.priority) == ("scans.archive", {"number": 7}, 200)
    with pytest.raises(Refused, match="MISSING_KEY"):
        await archive.submit(org)


async def test_plan_of_a_flow_is_made_once_for_all_transactions_of_callers(
    runtime: Runtime, database: Database
) -> None:
    await publish_steps(database, "quick", [script("one"), END], arrows("one", "end"))
    plans = runtime.core.advancing.loader._plans
    for _ in range(2):
        async with database.transaction(ORG) as connection, runtime.within(connection, ORG, ANN) as here:
            await here.instances.start("quick")
    assert len(plans) == 1
