"""Entities under a workflow: gates make transitions, windows follow tokens, edits lead to the amendment branch."""

from copy import deepcopy
from typing import Any, Final

import pytest

from assent.app import App
from assent.kernel.rules import save_rule
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Command, Refused
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.authored import END, arrows
from tests.world import (
    ANN,
    FAILS_ON_DRIFT,
    MAX,
    ORDER,
    ORDER_PATCH,
    ORG,
    create_order,
    drain,
    edit_order,
    entity_row,
    found_acme,
    order_patch_of,
    patch_of,
    publish_orders,
    publish_steps,
    rows,
    steps_of,
)


async def test_create_then_submit_never_skips_the_workflow(runtime: Runtime, database: Database) -> None:
    """D18: the create event is still pending when submit comes; the command drains it first."""
    await publish_orders(database)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    assert sorted(waiting.name for waiting in view.waiting) == ["credit", "stock"]
    found = await entity_row(runtime, entity.id)
    assert (found["state"], found["edit_window"], found["instance_id"]) == (
        "submitted",
        "amend_only",
        entity.instance_id,
    )
    assert {row["status"] for row in await rows(database, "workflow_events_outbox")} == {"completed"}


async def test_the_gate_opens_when_both_have_looked_and_the_order_stays_locked(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    await runtime.org(ORG, ANN).instances.advance(view.id, "done", step="stock")
    view = await runtime.org(ORG, ANN).instances.advance(view.id, "done", step="credit")
    assert view.status == "completed"
    found = await entity_row(runtime, entity.id)
    assert (found["state"], found["edit_window"], found["instance_id"]) == ("active", "locked", None)
    with pytest.raises(Refused, match="WORKFLOW_EDIT_LOCKED"):
        await edit_order(runtime, entity.id, total=1)


async def test_an_edit_while_two_look_leads_to_the_amendment_branch(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    await runtime.org(ORG, ANN).instances.advance(view.id, "done", step="stock")
    await edit_order(runtime, entity.id, total=600)
    await drain(runtime)
    found = await entity_row(runtime, entity.id)
    assert (found["state"], found["edit_window"], found["data"]["total"]) == ("amended", "editable", 600)
    steps = await steps_of(database, view.id)
    move = next(step for step in steps if step["node_id"] == "ctl:move")
    assert move["output_json"]["changes"] == {"total": [500, 600]}
    assert [s["status"] for s in steps if s["node_id"].endswith("credit")] in ([], ["cancelled"])
    again = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    assert sorted(waiting.name for waiting in again.waiting) == ["credit", "stock"]
    for step in ("stock", "credit"):
        again = await runtime.org(ORG, ANN).instances.advance(view.id, "done", step=step)
    assert (again.status, (await entity_row(runtime, entity.id))["state"]) == ("completed", "active")


async def test_a_contract_that_fails_on_drift_fails_its_instance(database: Database) -> None:
    runtime = App([{**ORDER, **FAILS_ON_DRIFT}]).runtime(database)
    await publish_orders(database, **FAILS_ON_DRIFT)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    await edit_order(runtime, entity.id, total=600)
    await drain(runtime)
    (instance,) = await rows(database, "workflow_instances")
    assert (instance["status"], instance["incident"]["code"]) == ("failed", "WORKFLOW_VERSION_DRIFT")
    assert view.id == instance["id"]


async def test_an_edit_in_draft_is_not_drift(runtime: Runtime, database: Database) -> None:
    await publish_orders(database)
    entity = await create_order(runtime)
    await drain(runtime)
    await edit_order(runtime, entity.id, total=1)
    await edit_order(runtime, entity.id, total=2)
    await drain(runtime)
    (instance,) = await rows(database, "workflow_instances")
    assert (instance["status"], instance["current_nodes"]) == ("running", ["sys:state:draft"])


async def test_a_cancel_while_tokens_are_on_their_way_ends_all_of_them(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    with pytest.raises(Refused, match="POLICY_DENIED"):
        await runtime.org(ORG, ANN).entities.transition(entity.id, "cancel")
    view = await runtime.org(ORG, MAX).entities.transition(entity.id, "cancel")
    assert (view.status, (await entity_row(runtime, entity.id))["state"]) == ("completed", "cancelled")
    cancelled = [s["node_id"] for s in await steps_of(database, view.id) if s["status"] == "cancelled"]
    assert len(cancelled) == 2


async def test_after_completion_a_transition_starts_a_new_instance(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database, order_patch_of({"type": "script", "set": {"seen": "true"}}))
    entity = await create_order(runtime)
    first = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    assert (first.status, (await entity_row(runtime, entity.id))["state"]) == ("completed", "active")
    second = await runtime.org(ORG, MAX).entities.transition(entity.id, "cancel")
    assert second.id != first.id
    assert (second.status, (await entity_row(runtime, entity.id))["state"]) == ("completed", "cancelled")
    with pytest.raises(Refused, match="INVALID_TRANSITION"):
        await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    assert len(await rows(database, "workflow_instances")) == 2


@pytest.mark.parametrize("transition", ["submit", "approve"])
async def test_an_order_whose_workflow_ended_on_its_way_sets_out_again(
    runtime: Runtime, database: Database, transition: str
) -> None:
    """By the transition that led to its state, or the one on which the state sets out by itself."""
    await publish_orders(database)
    entity = await create_order(runtime)
    first = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    await runtime.org(ORG, SYSTEM).instances.cancel(first.id, "not now")
    submitter = Actor("ann", roles=ANN.roles, capabilities=frozenset({f"order:{transition}"}))
    second = await runtime.org(ORG, submitter).entities.transition(entity.id, transition)
    assert second.id != first.id
    assert [w.name for w in second.waiting] == [w.name for w in first.waiting]
    stands = await entity_row(runtime, entity.id)
    assert (stands["state"], stands["edit_window"]) == ("submitted", "amend_only")
    assert stands["instance_id"] == second.id


async def test_whoever_may_not_make_a_transition_does_not_set_out_again_by_it(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database)
    entity = await create_order(runtime)
    first = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    await runtime.org(ORG, SYSTEM).instances.cancel(first.id, "not now")
    for who, transition, code in (
        (Actor("eve"), "submit", "POLICY_DENIED"),
        (ANN, "approve", "POLICY_DENIED"),
        (ANN, "fly", "INVALID_TRANSITION"),
    ):
        with pytest.raises(Refused, match=code):
            await runtime.org(ORG, who).entities.transition(entity.id, transition)
    assert len(await rows(database, "workflow_instances")) == 1


async def test_amending_a_locked_order_cancels_the_instance_that_still_runs(
    runtime: Runtime, database: Database
) -> None:
    strict_patch = order_patch_of({"type": "form"}, edit="locked")
    await publish_orders(database, strict_patch)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    amended = await runtime.core.kernel.mutate(Command(ORG, "order.amend", ANN, {"total": 9}, entity.id))
    await drain(runtime)
    instances = {row["id"]: row for row in await rows(database, "workflow_instances")}
    assert instances[view.id]["status"] == "cancelled"
    assert instances[view.id]["context_json"]["cancel_reason"] == "amended"
    assert amended.entity.instance_id is not None
    assert instances[amended.entity.instance_id]["status"] == "running"


async def test_the_audit_row_of_a_gate_names_whoever_opened_it(runtime: Runtime, database: Database) -> None:
    await publish_orders(database)
    entity = await create_order(runtime)
    await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    audit = [row for row in await rows(database, "audit_log") if row["action"] == "order.submit"]
    assert [(row["actor_id"], row["to_state"], row["channel"]) for row in audit] == [
        ("ann", "submitted", "python")
    ]


async def test_a_slot_that_is_left_by_an_answer_leads_to_its_gate(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database, order_patch_of({"type": "form"}))
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    view = await runtime.org(ORG, ANN).instances.advance(view.id, "done")
    assert (view.status, (await entity_row(runtime, entity.id))["state"]) == ("completed", "active")


async def test_an_action_on_an_entity_that_somebody_works_on_comes_back_without_an_attempt(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    """D28: the lock of another instance comes out of order, so it is tried and never waited for."""
    await publish_orders(database)
    entity = await create_order(runtime)
    await drain(runtime)
    steps = [
        {
            "id": "raise",
            "type": "mutation",
            "action": "order.update",
            "entity": "workflow.order",
            "payload": {"total": 777},
            "run_as": "system",
        },
        END,
    ]
    await publish_steps(database, "a.b", steps, arrows("raise", "end"))
    await runtime.org(ORG, ANN).instances.start_many("a.b", [{"order": str(entity.id)}])
    async with database.transaction(None) as other:
        await other.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))", str(entity.instance_id)
        )
        await drain(runtime)
    (event,) = [
        row for row in await rows(database, "workflow_events_outbox") if row["event_type"] == "on_start"
    ]
    assert (event["status"], event["attempts"]) == ("pending", 0)
    assert (await entity_row(runtime, entity.id))["data"]["total"] == 500
    clock.advance("2s")
    await drain(runtime)
    assert (await entity_row(runtime, entity.id))["data"]["total"] == 777


@pytest.mark.parametrize("strict", ["stock", "credit"])
async def test_the_window_is_the_strictest_of_all_tokens(
    runtime: Runtime, database: Database, strict: str
) -> None:
    """D17: one of the two who look locks the order, whichever token comes first."""
    patch = deepcopy(ORDER_PATCH)
    nodes = patch["slots"]["slot:submitted_to_approved"]["nodes"]
    next(node for node in nodes if node["id"] == strict)["edit"] = "locked"
    await publish_orders(database, patch)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    assert (await entity_row(runtime, entity.id))["edit_window"] == "locked"
    await runtime.org(ORG, ANN).instances.advance(view.id, "done", step=strict)
    assert (await entity_row(runtime, entity.id))["edit_window"] == "amend_only"


RULE: Final = {"entity_type": "order", "action": "*", "timing": "before", "name": "credit"}


async def publish_orders_asking_a_rule(database: Database) -> None:
    """Publish the order with a slot that asks the rule `credit`: a denial leaves by a form."""
    nodes = [{"id": "ask", "type": "rule", "rule": "credit"}, {"id": "look", "type": "form"}]
    edges = [
        {"from": "in", "to": "ask"},
        {"from": "ask", "to": "out"},
        {"from": "ask", "to": "look", "on": "denied"},
        {"from": "look", "to": "out", "on": "done"},
    ]
    patch = patch_of(*nodes, edges=edges, entity_type="order", slot="slot:draft_to_submit")
    ask = patch_of(
        {"id": "approve", "type": "approval", "approvers": {"role": "manager"}}, entity_type="order"
    )
    patch["slots"] |= ask["slots"]
    await publish_orders(database, patch)


@pytest.mark.parametrize(
    ("outcome", "then", "total", "chosen", "found"),
    [
        ("deny", {"message": "{entity.total} is much"}, 900, "look", {"message": "900 is much"}),
        ("deny", {"message": "{entity.total} is much"}, 5, "approve", {}),
        ("set", {"total": "7"}, 900, "approve", {"set": {"total": 7}}),
        ("emit", {"key": "large:{entity.number}"}, 900, "approve", {"event_key": "large:1"}),
    ],
)
async def test_rule_step_honours_every_outcome_and_leaves_its_evaluation(  # noqa: PLR0913, PLR0917
    runtime: Runtime, database: Database, outcome: str, then: Any, total: int, chosen: str, found: Any
) -> None:
    await found_acme(database)
    await publish_orders_asking_a_rule(database)
    rule = {**RULE, "condition": "entity.total > 100 && actor.id == 'ann'", "outcome": outcome, "then": then}
    of_another_type = {
        **rule,
        "entity_type": "expense",
        "condition": "true",
        "outcome": "deny",
        "then": {"message": "x"},
    }
    async with database.transaction(ORG) as connection:
        for one in (of_another_type, {**rule, "action": "amend"}):
            await save_rule(connection, runtime.core.kernel.registry, ORG, one, database.clock.now())
    entity = await create_order(runtime, total=total)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    assert [waiting.name for waiting in view.waiting] == [chosen]
    (step,) = [one for one in await steps_of(database, view.id) if one["node_type"] == "rule"]
    output = step["output_json"]
    assert output == output | found | {"rule": "credit"}
    assert output["evaluation"]["variables"]["entity.total"] == total
    (evidence,) = await rows(database, "workflow_rule_evaluations")
    applies = total == 900
    assert (evidence["action"], evidence["entity_id"]) == ("workflow.rule", entity.id)
    assert (evidence["result"], evidence["outcome"]) == (applies, outcome if applies else None)
    kept = [
        one["payload_json"]["key"]
        for one in await rows(database, "workflow_events_outbox")
        if "key" in one["payload_json"]
    ]
    assert kept == (["large:1"] if outcome == "emit" else [])
