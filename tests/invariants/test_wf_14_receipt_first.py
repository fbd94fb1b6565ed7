"""WF-14: receipt first. Without it a step does nothing outside of the engine, and nothing of the attempt is left."""

from typing import Any
from uuid import UUID

import pytest

from assent.model.ids import step_key
from assent.runtime import Runtime
from assent.runtime.errors import ReceiptTaken
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.authored import END, arrows, call, form, script
from tests.processes.application import calls
from tests.rows import insert
from tests.world import ANN, ORG, drain, publish_steps, rows

WRITE = call("write", "tests.mark", input={"what": "'written'"})


async def take(database: Database, instance_id: UUID, node_id: str) -> None:
    """Somebody else has this step's receipt already."""
    async with database.transaction(None) as connection:
        key = step_key(instance_id, node_id, "0", 0)
        await insert(connection, "workflow_step_receipts", instance_id=instance_id, idempotency_key=key)


async def everything(database: Database) -> list[Any]:
    tables = ("workflow_instances", "workflow_step_executions", "workflow_step_receipts")
    return [await rows(database, table) for table in tables]


async def test_command_whose_receipt_is_taken_runs_no_handler(runtime: Runtime, database: Database) -> None:
    await publish_steps(
        database,
        "writing",
        [form("ask"), WRITE, END],
        [*arrows("ask", "write", event="done"), *arrows("write", "end")],
    )
    view = await runtime.org(ORG, ANN).instances.start("writing")
    await take(database, view.id, "write")
    before = await everything(database)
    with pytest.raises(ReceiptTaken, match="has done write before"):
        await runtime.org(ORG, ANN).instances.advance(view.id, "done")
    assert await calls(database) == []
    assert await everything(database) == before


async def test_worker_whose_receipt_is_taken_runs_no_handler_and_holds_nobody_back(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    await publish_steps(database, "writing", [script("one"), WRITE, END], arrows("one", "write", "end"))
    ids = await runtime.org(ORG, ANN).instances.start_many("writing", [{}] * 5)
    await take(database, ids[2], "write")
    for _ in range(6):
        await drain(runtime)
        clock.advance("1h")
    assert await calls(database) == ["written"] * 4
    found = {row["id"]: row["status"] for row in await rows(database, "workflow_instances")}
    assert {found[instance_id] for instance_id in ids if instance_id != ids[2]} == {"completed"}
    (dead,) = [r for r in await rows(database, "workflow_events_outbox") if r["status"] == "dead"]
    assert (dead["instance_id"], dead["error"].partition(":")[0]) == (ids[2], "ReceiptTaken")
    assert [s for s in await rows(database, "workflow_step_executions") if s["instance_id"] == ids[2]] == []


async def test_handler_runs_only_after_its_receipt_is_there(runtime: Runtime, database: Database) -> None:
    """The operation itself looks for the receipt of its own step, inside its transaction."""
    seen: list[int] = []

    async def look(connection: Any, arguments: Any) -> None:
        sql = "SELECT count(*) FROM assent.workflow_step_receipts WHERE org_id = 'acme' AND idempotency_key = $1"
        key = step_key(UUID(arguments["id"]), "write", "0", 0)
        seen.append(await connection.fetchval(sql, key))

    runtime.core.advancing.operations["tests.look"] = look
    steps = [form("ask"), call("write", "tests.look", input={"id": "workflow.id"}), END]
    await publish_steps(
        database, "looking", steps, [*arrows("ask", "write", event="done"), *arrows("write", "end")]
    )
    view = await runtime.org(ORG, ANN).instances.start("looking")
    await runtime.org(ORG, ANN).instances.advance(view.id, "done", {"id": str(view.id)})
    assert seen == [1]


async def test_steps_that_only_compute_have_receipts_before_the_first_operation_runs(
    runtime: Runtime, database: Database
) -> None:
    """Scripts and conditions run in memory; what comes after them reaches outside, and finds their receipts."""
    seen: list[set[str]] = []

    async def look(connection: Any, arguments: Any) -> None:
        sql = "SELECT idempotency_key FROM assent.workflow_step_receipts WHERE org_id = 'acme'"
        seen.append({row["idempotency_key"] for row in await connection.fetch(sql)})

    runtime.core.advancing.operations["tests.look"] = look
    steps = [script("one"), script("two"), call("write", "tests.look"), script("three"), END]
    await publish_steps(database, "looking", steps, arrows("one", "two", "write", "three", "end"))
    ids = await runtime.org(ORG, ANN).instances.start_many("looking", [{}] * 3)
    await drain(runtime)
    led_there = {step_key(one, node, "0", 0) for one in ids for node in ("one", "two", "write")}
    assert [led_there - keys for keys in seen] == [set()] * 3
    receipts = [row["idempotency_key"] for row in await rows(database, "workflow_step_receipts")]
    steps_written = await rows(database, "workflow_step_executions")
    assert sorted(receipts) == sorted(step["idempotency_key"] for step in steps_written)


@pytest.mark.parametrize("node", ["one", "two", "end"])
async def test_script_whose_receipt_is_taken_leaves_nothing_and_holds_nobody_back(
    runtime: Runtime, database: Database, clock: MovedClock, node: str
) -> None:
    await publish_steps(
        database, "counting", [script("one"), script("two"), END], arrows("one", "two", "end")
    )
    ids = await runtime.org(ORG, ANN).instances.start_many("counting", [{}] * 5)
    await take(database, ids[3], node)
    for _ in range(6):
        await drain(runtime)
        clock.advance("1h")
    found = {row["id"]: row["status"] for row in await rows(database, "workflow_instances")}
    assert found == {instance_id: "completed" for instance_id in ids if instance_id != ids[3]}
    (dead,) = [r for r in await rows(database, "workflow_events_outbox") if r["status"] == "dead"]
    assert dead["instance_id"] == ids[3]
    assert dead["error"].startswith(f"ReceiptTaken: instance {ids[3]} has done {node} before")
    assert ids[3] not in {step["instance_id"] for step in await rows(database, "workflow_step_executions")}


async def test_command_into_a_script_whose_receipt_is_taken_changes_nothing(
    runtime: Runtime, database: Database
) -> None:
    steps = [form("ask"), script("one"), script("two"), END]
    transitions = [*arrows("ask", "one", event="done"), *arrows("one", "two", "end")]
    await publish_steps(database, "counting", steps, transitions)
    view = await runtime.org(ORG, ANN).instances.start("counting")
    await take(database, view.id, "two")
    before = await everything(database)
    with pytest.raises(ReceiptTaken, match="has done two before"):
        await runtime.org(ORG, ANN).instances.advance(view.id, "done")
    assert await everything(database) == before


async def test_step_that_no_handler_runs_has_a_receipt_of_its_own_too(
    runtime: Runtime, database: Database
) -> None:
    """Controls, and the token that is cancelled where its step had failed."""
    await publish_steps(database, "broken", [call("write", "no.such"), END], arrows("write", "end"))
    view = await runtime.org(ORG, ANN).instances.start("broken")
    assert view.status == "paused"
    await runtime.org(ORG, ANN).instances.cancel(view.id, "enough")
    receipts = {row["idempotency_key"] for row in await rows(database, "workflow_step_receipts")}
    steps = await rows(database, "workflow_step_executions")
    assert [step["idempotency_key"] for step in steps if step["idempotency_key"] not in receipts] == []
    assert len(receipts) == len(steps)
