"""WF-05: somebody else's version in a stable region leads to the amendment branch, or fails the instance."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from assent.app import App
from assent.model.mutation import Command
from assent.runtime import Runtime
from assent.store.database import Database
from tests.processes.spawn import children, closed_gate, wait_until_blocked
from tests.rows import insert_event
from tests.world import (
    ANN,
    FAILS_ON_DRIFT,
    MAX,
    ORDER,
    ORG,
    create_order,
    drain,
    edit_order,
    entity_row,
    order_patch_of,
    publish_orders,
    rows,
    steps_of,
)


async def submitted(runtime: Runtime, **data: Any) -> tuple[UUID, UUID]:
    """An order on its way through the slot; its id, and its instance's."""
    entity = await create_order(runtime, **data)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    return entity.id, view.id


async def pinned(database: Database, instance_id: UUID) -> dict[str, Any]:
    (found,) = [row for row in await rows(database, "workflow_instances") if row["id"] == instance_id]
    return found


async def test_edit_sends_every_token_to_the_amendment_branch(runtime: Runtime, database: Database) -> None:
    await publish_orders(database)
    entity_id, instance_id = await submitted(runtime)
    await runtime.org(ORG, ANN).instances.advance(instance_id, "done", step="stock")
    edited = await edit_order(runtime, entity_id, total=9)
    await drain(runtime)
    assert (await entity_row(runtime, entity_id))["state"] == "amended"
    steps = await steps_of(database, instance_id)
    ended = {step["node_id"].rpartition(":")[0] for step in steps if step["status"] == "cancelled"}
    assert len([step for step in steps if step["status"] == "cancelled"]) == 2, ended
    (move,) = [step for step in steps if step["node_id"] == "ctl:move"]
    told = {name: move["output_json"][name] for name in ("from_version", "entity_version", "changes")}
    assert told == {
        "from_version": edited.version - 1,
        "entity_version": edited.version,
        "changes": {"total": [500, 9]},
    }


async def test_command_cannot_overtake_the_edit_before_it(runtime: Runtime, database: Database) -> None:
    """The edit's event is still in the outbox when somebody answers: it is handled first, under the lock (D18)."""
    await publish_orders(database, order_patch_of({"type": "form"}))
    entity_id, instance_id = await submitted(runtime)
    await edit_order(runtime, entity_id, total=9)
    with pytest.raises(Exception, match="INVALID_TRANSITION"):
        await runtime.org(ORG, ANN).instances.advance(instance_id, "done")
    await drain(runtime)
    assert (await entity_row(runtime, entity_id))["state"] == "amended"


async def test_edit_that_waits_for_the_gate_finds_the_entity_locked(
    runtime: Runtime, database: Database
) -> None:
    """One process is on its way to the gate when another edits: the edit waits, and then it is too late."""
    hold = {"type": "system", "operation": {"sdk": "tests.gate"}, "input": {"what": "'slot'"}}
    patch = order_patch_of({"type": "form"})
    slot = patch["slots"]["slot:submitted_to_approved"]
    slot["nodes"].append({"id": "hold", **hold, "waives_approval": True})
    slot["edges"] = [
        {"from": "in", "to": "it"},
        {"from": "it", "to": "hold", "on": "done"},
        {"from": "it", "to": "out", "on": "skip"},
        {"from": "hold", "to": "out"},
    ]
    await publish_orders(database, patch)
    entity_id, instance_id = await submitted(runtime)
    async with children(database, 1) as (person,):
        async with closed_gate(database) as observer:
            answer = asyncio.create_task(person.ask("advance", instance=instance_id, event="done"))
            await wait_until_blocked(observer, 1)
            edit = asyncio.create_task(edit_order(runtime, entity_id, total=9))
            await wait_until_blocked(observer, 2)
        assert (await answer)["status"] == "completed"
        with pytest.raises(Exception, match="WORKFLOW_EDIT_LOCKED"):
            await edit
    found = await entity_row(runtime, entity_id)
    assert (found["state"], found["data"]["total"]) == ("active", 500)


async def test_gates_own_write_moves_the_pin_and_is_no_drift(runtime: Runtime, database: Database) -> None:
    await publish_orders(database)
    entity_id, instance_id = await submitted(runtime)
    await drain(runtime)
    found = await entity_row(runtime, entity_id)
    assert (found["state"], found["version"]) == ("submitted", 2)
    assert (await pinned(database, instance_id))["entity_version"] == 2
    assert not [s for s in await steps_of(database, instance_id) if s["node_id"] == "ctl:move"]
    assert [event["event_type"] for event in await rows(database, "workflow_events_outbox")] == ["on_create"]


async def test_version_that_the_instance_knows_is_no_drift_however_late_it_is_told(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database)
    entity_id, instance_id = await submitted(runtime)
    async with database.transaction(None) as connection:
        about = {"instance_id": instance_id, "entity_version": 2, "event_type": "on_amendment"}
        await insert_event(connection, **about, payload_json={"cause": "late", "changes": {}})
    await drain(runtime)
    assert (await entity_row(runtime, entity_id))["state"] == "submitted"
    assert {event["error"] for event in await rows(database, "workflow_events_outbox")} == {None, "ignored"}


async def test_edit_outside_a_stable_region_changes_nothing(runtime: Runtime, database: Database) -> None:
    await publish_orders(database)
    entity = await create_order(runtime)
    await drain(runtime)
    steps = await rows(database, "workflow_step_executions")
    await edit_order(runtime, entity.id, total=9)
    await drain(runtime)
    assert await rows(database, "workflow_step_executions") == steps


async def test_edit_of_nothing_is_no_version_and_no_drift(runtime: Runtime, database: Database) -> None:
    await publish_orders(database)
    entity_id, _ = await submitted(runtime)
    await edit_order(runtime, entity_id, total=500)
    await drain(runtime)
    assert (await entity_row(runtime, entity_id))["state"] == "submitted"


async def test_contract_that_says_fail_fails_with_the_code(database: Database) -> None:
    runtime = App([{**ORDER, **FAILS_ON_DRIFT}]).runtime(database)
    await publish_orders(database, **FAILS_ON_DRIFT)
    entity_id, instance_id = await submitted(runtime)
    await edit_order(runtime, entity_id, total=9)
    await drain(runtime)
    found = await pinned(database, instance_id)
    assert (found["status"], found["incident"]["code"]) == ("failed", "WORKFLOW_VERSION_DRIFT")
    assert (found["active_tokens"], found["current_nodes"]) == ([], [])


async def test_amendment_of_a_locked_entity_cancels_what_still_runs(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database, order_patch_of({"type": "form"}, edit="locked"))
    entity_id, instance_id = await submitted(runtime)
    amended = await runtime.core.kernel.mutate(Command(ORG, "order.amend", ANN, {"total": 9}, entity_id))
    await drain(runtime)
    found = await pinned(database, instance_id)
    assert (found["status"], found["context_json"]["cancel_reason"]) == ("cancelled", "amended")
    (cancel,) = [s for s in await steps_of(database, instance_id) if s["node_id"] == "ctl:cancel"]
    assert cancel["output_json"]["amended_by"] == str(amended.entity.id)
    assert (
        await runtime.org(ORG, MAX).entities.transition(amended.entity.id, "cancel")
    ).status == "completed"
