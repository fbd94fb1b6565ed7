"""Approvals end to end on rows: asked, decided, consumed by the gate, void after an edit."""

from itertools import product
from typing import Any

import pytest

from assent.app import App
from assent.model.actor import SYSTEM
from assent.model.mutation import Command, Refused
from assent.runtime import Runtime
from assent.runtime.event_processor import EventProcessor
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.timers import Timers
from tests.authored import END, arrows, invoice_patch, orders_flow
from tests.statements import StatementCounter
from tests.world import (
    ANN,
    BEA,
    FAY,
    FIN,
    MAX,
    MIDDLE,
    OPS,
    ORG,
    SMALL,
    actor,
    create_invoice,
    decide,
    drain,
    edit_invoice,
    entity_row,
    found_acme,
    found_acme_with_invoices,
    patch_of,
    publish_invoices,
    publish_steps,
    request_id,
    rows,
    steps_of,
    submit_invoice,
)

ASK = {"id": "ask", "type": "approval", "approvers": {"role": "finance_manager"}}


async def test_a_large_invoice_takes_finance_and_the_budget_owner(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    assert {w.name: w.asked for w in view.waiting} == {"finance": ("fay", "fin"), "budget": ("bea",)}
    await decide(runtime, view, "finance", FIN)
    done = await decide(runtime, view, "budget", BEA)
    found = await entity_row(runtime, view.entity_id)
    assert (done.status, found["state"], found["edit_window"]) == ("completed", "active", "locked")


async def test_steps_say_why_these_people_were_asked(runtime: Runtime, database: Database) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)

    async def budget() -> Any:
        steps = await steps_of(database, view.id)
        return next(step["output_json"] for step in steps if step["approval_request_id"] == request)

    request = request_id(view, "budget")
    (found,) = (await budget())["expressions"].values()
    assert (found["result"], found["variables"]["entity.cost_center"]) == ("bea", "R&D")
    await decide(runtime, view, "budget", BEA)
    (kept,) = (await budget())["expressions"].values()
    assert kept == found


async def test_requests_are_pinned_to_the_version_and_its_snapshot(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    entity = await entity_row(runtime, view.entity_id)
    for row in await rows(database, "approval_requests"):
        assert (row["entity_version"], row["snapshot_version_id"]) == (
            entity["version"],
            entity["version_id"],
        )
        assert (row["title"], row["figure"], row["requested_by"]) == ("1", 2_000_000, "ann")
    steps = {row["approval_request_id"] for row in await steps_of(database, view.id)} - {None}
    assert steps == {row["id"] for row in await rows(database, "approval_requests")}


async def test_the_gate_consumes_every_approval_of_its_slot_and_says_so(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    await decide(runtime, view, "finance", FIN)
    assert [row["applied_at"] for row in await rows(database, "approval_requests")] == [None, None]
    await decide(runtime, view, "budget", BEA)
    consumed = await rows(database, "approval_requests")
    assert all(row["applied_at"] is not None for row in consumed)
    steps = await steps_of(database, view.id)
    (gate,) = [step for step in steps if step["node_id"] == "sys:gate:approve"]
    assert sorted(gate["output_json"]["consumed"]) == sorted(str(row["id"]) for row in consumed)
    applied = [step["applied"] for step in steps if step["approval_request_id"]]
    assert applied == [True, True]


async def test_who_decided_is_a_row_with_version_and_reason(runtime: Runtime, database: Database) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime, MIDDLE)
    await decide(runtime, view, "one", FIN, reason="as ordered")
    (row,) = await rows(database, "approval_decisions")
    assert (row["approver_id"], row["decision"], row["reason"]) == ("fin", "approved", "as ordered")
    (request,) = await rows(database, "approval_requests")
    assert (row["request_id"], row["entity_version"]) == (request["id"], request["entity_version"])


async def test_a_request_may_be_asked_and_answered_in_one_transaction(
    runtime: Runtime, database: Database
) -> None:
    """A command drains what is pending for its instance first: here the start that asks what it answers."""
    await found_acme(database)
    end = {"id": "end", "type": "terminal"}
    arrows = [{"from": "ask", "event": event, "to": "end"} for event in ("approved", "rejected")]
    await publish_steps(database, "asking", [ASK, end], arrows)
    (instance_id,) = await runtime.org(ORG, ANN).instances.start_many("asking", [{}])
    done = await runtime.org(ORG, FIN).instances.advance(instance_id, "approved")
    (request,) = await rows(database, "approval_requests")
    assert (done.status, request["status"], len(await rows(database, "approval_decisions"))) == (
        "completed",
        "approved",
        1,
    )


async def test_edit_of_variables_voids_what_was_approved_and_makes_its_editor_an_originator(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    await decide(runtime, view, "finance", FIN)
    await runtime.org(ORG, OPS).instances.pause(view.id)
    await runtime.org(ORG, actor("bea", "workflows:repair")).instances.edit_variables(view.id, {"note": "x"})
    await runtime.org(ORG, OPS).instances.resume(view.id)
    assert sorted(row["status"] for row in await rows(database, "approval_requests")) == ["pending", "void"]
    with pytest.raises(Refused, match="SEPARATION_OF_DUTIES"):
        await decide(runtime, view, "budget", BEA)
    assert (await entity_row(runtime, view.entity_id))["state"] == "submitted"


async def test_a_trusted_small_invoice_goes_through_without_asking(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime, SMALL)
    assert (
        (await entity_row(runtime, view.entity_id))["state"],
        await rows(database, "approval_requests"),
    ) == (
        "active",
        [],
    )


async def test_a_rejection_ends_the_other_branch_and_goes_back_with_its_reason(
    runtime: Runtime, database: Database
) -> None:
    """D20: out of a parallel slot, through the gate's rejected edge, to where the contract says."""
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    await decide(runtime, view, "finance", FIN)
    after = await decide(runtime, view, "budget", BEA, "rejected", reason="no budget")
    assert [waiting.name for waiting in after.waiting] == ["draft"]
    assert (await entity_row(runtime, view.entity_id))["state"] == "draft"
    assert await _by_name(database) == {"finance": "void", "budget": "rejected"}
    (gate,) = [s for s in await steps_of(database, view.id) if s["node_id"] == "sys:gate:approve"]
    assert (gate["output_json"]["outcome"], gate["output_json"]["reason"]) == ("rejected", "no budget")
    assert "no budget" in {row["reason"] for row in await rows(database, "audit_log")}


async def _by_name(database: Database) -> dict[str, str]:
    found = sorted(await rows(database, "approval_requests"), key=lambda row: row["id"])
    return {row["node_name"]: row["status"] for row in found}


async def test_a_rejection_while_another_is_asked_cancels_that_request(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    await decide(runtime, view, "budget", BEA, "rejected", reason="no")
    assert await _by_name(database) == {"finance": "cancelled", "budget": "rejected"}
    assert {row["status"] for row in await rows(database, "workflow_seats")} == {"closed", "decided"}


async def test_what_was_decided_in_an_earlier_round_says_so(runtime: Runtime, database: Database) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    rejected, cancelled = request_id(view, "budget"), request_id(view, "finance")
    await decide(runtime, view, "budget", BEA, "rejected", reason="no")
    await runtime.org(ORG, ANN).entities.transition(view.entity_id, "submit")  # type: ignore[arg-type]
    with pytest.raises(Refused, match=r"APPROVAL_DECIDED.*is rejected"):
        await runtime.org(ORG, BEA).approvals.decide(rejected, "approved")
    with pytest.raises(Refused, match="APPROVAL_VOID"):
        await runtime.org(ORG, FIN).approvals.decide(cancelled, "approved")


def _approvals_of_one_join(mode: str) -> tuple[list[Any], list[Any]]:
    """Return a flow that asks fin and fay of finance, and bea as owner, at the same time."""
    steps = [
        {"id": "fork", "type": "parallel_split"},
        {"id": "finance", "type": "approval", "assignee": {"role": "finance_manager"}},
        {"id": "owner", "type": "approval", "assignee": {"role": "owner"}},
        {"id": "join", "type": "parallel_join", "mode": mode},
        END,
    ]
    ways = [*arrows("fork", "finance"), *arrows("fork", "owner"), *arrows("join", "end")]
    for name, event in product(("finance", "owner"), ("approved", "rejected")):
        ways += arrows(name, "join", event=event)
    return steps, ways


@pytest.mark.parametrize("mode", ["any", "all"])
@pytest.mark.parametrize("answer", ["approved", "rejected"])
async def test_the_loser_of_a_race_hears_who_was_first_and_with_what(
    runtime: Runtime, database: Database, mode: str, answer: str
) -> None:
    await found_acme(database)
    await publish_steps(database, "race", *_approvals_of_one_join(mode))
    view = await runtime.org(ORG, ANN).instances.start("race")
    finance, owner = request_id(view, "finance"), request_id(view, "owner")
    await runtime.org(ORG, FIN).approvals.decide(finance, answer)
    with pytest.raises(Refused) as colleague:
        await runtime.org(ORG, FAY).approvals.decide(finance, "approved")
    assert colleague.value.rejection.code == "APPROVAL_DECIDED"
    assert colleague.value.rejection.message.endswith(
        f"is {answer}: fin was first, with `{answer}` at `finance`"
    )
    with pytest.raises(Refused) as stranger:
        await runtime.org(ORG, MAX).approvals.decide(finance, "approved")
    assert "fin" not in stranger.value.rejection.message.replace("finance", "")
    if mode == "all":
        assert (await runtime.org(ORG, BEA).approvals.decide(owner, "approved")).status == "completed"
        return
    with pytest.raises(Refused) as loser:
        await runtime.org(ORG, BEA).approvals.decide(owner, "approved")
    assert loser.value.rejection.code == "APPROVAL_VOID"
    assert f"is cancelled: fin was first, with `{answer}` at `finance`" in loser.value.rejection.message


async def test_a_decision_after_a_cancelled_instance_says_why(runtime: Runtime, database: Database) -> None:
    await found_acme(database)
    await publish_steps(database, "race", *_approvals_of_one_join("all"))
    view = await runtime.org(ORG, ANN).instances.start("race")
    await runtime.org(ORG, FIN).approvals.decide(request_id(view, "finance"), "approved")
    await runtime.org(ORG, ANN).instances.cancel(view.id, "not needed")
    with pytest.raises(Refused, match=r"APPROVAL_VOID.*is cancelled: not needed"):
        await runtime.org(ORG, BEA).approvals.decide(request_id(view, "owner"), "approved")


async def test_a_decision_of_a_paused_instance_is_refused_as_before(
    runtime: Runtime, database: Database
) -> None:
    await found_acme(database)
    await publish_steps(database, "race", *_approvals_of_one_join("all"))
    view = await runtime.org(ORG, ANN).instances.start("race")
    await runtime.org(ORG, OPS).instances.pause(view.id, "strike")
    with pytest.raises(Refused, match="WORKFLOW_NOT_ACTIVE"):
        await runtime.org(ORG, BEA).approvals.decide(request_id(view, "owner"), "approved")


async def test_an_edit_voids_at_once_and_asks_again_after_the_amendment(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    await decide(runtime, view, "finance", FIN)
    await edit_invoice(runtime, view.entity_id, grand_total=2_100_000)
    # Nobody has processed the edit's event yet: the database has voided them in the transaction of the edit.
    assert await _by_name(database) == {"finance": "void", "budget": "void"}
    await drain(runtime)
    assert (await entity_row(runtime, view.entity_id))["state"] == "amended"
    (move,) = [step for step in await steps_of(database, view.id) if step["node_id"] == "ctl:move"]
    assert move["output_json"]["changes"] == {"grand_total": [2_000_000, 2_100_000]}
    assert move["output_json"]["void"] == ["budget", "finance"]
    again = await runtime.org(ORG, ANN).entities.transition(view.entity_id, "submit")  # type: ignore[arg-type]
    await decide(runtime, again, "finance", FIN)
    done = await decide(runtime, again, "budget", BEA)
    assert done.status == "completed"


async def test_two_edits_before_anybody_looks_are_one_amendment_with_the_whole_diff(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    await edit_invoice(runtime, view.entity_id, grand_total=2_100_000)
    await edit_invoice(runtime, view.entity_id, grand_total=2_200_000, cost_center="Ops")
    await drain(runtime)
    (move,) = [step for step in await steps_of(database, view.id) if step["node_id"] == "ctl:move"]
    assert move["output_json"]["changes"] == {
        "grand_total": [2_000_000, 2_200_000],
        "cost_center": ["R&D", "Ops"],
    }


async def test_deciding_after_an_edit_is_refused_as_void(runtime: Runtime, database: Database) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    await edit_invoice(runtime, view.entity_id, grand_total=2_100_000)
    with pytest.raises(Refused, match="APPROVAL_VOID"):
        await decide(runtime, view, "finance", FIN)
    assert await rows(database, "approval_decisions") == []


async def test_a_save_that_changes_nothing_voids_nothing(runtime: Runtime, database: Database) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    await edit_invoice(runtime, view.entity_id, grand_total=2_000_000)
    await decide(runtime, view, "finance", FIN)
    assert (await decide(runtime, view, "budget", BEA)).status == "completed"


async def test_the_workflows_own_note_voids_nothing(runtime: Runtime, database: Database) -> None:
    """D19: a system field that the workflow writes between two approvals is no other content."""
    stamp = {
        "id": "stamp",
        "type": "action",
        "action": "invoice.update",
        "payload": {"posted_at": "{now}"},
        "run_as": "system",
    }
    first = {"id": "first", "type": "approval", "approvers": {"user": "fin"}}
    second = {"id": "second", "type": "approval", "approvers": {"user": "bea"}}
    await found_acme_with_invoices(database, patch_of(first, {**stamp, "run_as": "system"}, second))
    view = await submit_invoice(runtime)
    after = await decide(runtime, view, "first", FIN)
    assert (await entity_row(runtime, view.entity_id))["data"]["posted_at"]
    assert (await decide(runtime, after, "second", BEA)).status == "completed"
    assert {row["status"] for row in await rows(database, "approval_requests")} == {"approved"}


@pytest.mark.parametrize("is_noted", [False, True])
async def test_a_decision_returns_its_request_as_a_read_does_or_not_at_all(
    runtime: Runtime, database: Database, is_noted: bool
) -> None:
    """The content that was decided about is at hand only where no version has come after it."""
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    if is_noted:
        payload = {"posted_at": database.clock.now().isoformat()}
        note = Command(ORG, "invoice.update", SYSTEM, payload, view.entity_id, by_instance=view.id)
        assert (await runtime.core.kernel.mutate(note)).changed
    for step, who in (("finance", FIN), ("budget", BEA)):
        asked = runtime.org(ORG, who).approvals
        after = await asked.decide(request_id(view, step), "approved")
        assert after.request == (None if is_noted else await asked.get(request_id(view, step)))


async def test_the_empty_slot_asks_whoever_may_approve(runtime: Runtime, database: Database) -> None:
    await found_acme(database)
    async with database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.role_capabilities VALUES ($1, 'finance_manager', 'invoice:approve')", ORG
        )
    await publish_invoices(database, {**patch_of(), "slots": {}})
    view = await submit_invoice(runtime, MIDDLE)
    assert [(w.name, w.asked) for w in view.waiting] == [("approve", ("fay", "fin"))]
    assert (await decide(runtime, view, "approve", FAY)).status == "completed"


async def test_nobody_to_ask_pauses_with_an_incident(runtime: Runtime, database: Database) -> None:
    await found_acme_with_invoices(
        database, patch_of({"id": "ask", "type": "approval", "approvers": {"role": "nobody"}})
    )
    view = await submit_invoice(runtime)
    assert view.status == "paused"
    assert view.incident is not None
    assert view.incident["code"] == "NO_APPROVERS"
    async with database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.members SET roles = '{nobody}' WHERE org_id = 'acme' AND user_id = 'max'"
        )
    again = await runtime.org(ORG, actor("eve", "*")).instances.retry(view.id)
    assert [w.asked for w in again.waiting] == [("max",)]


@pytest.mark.parametrize("editor", ["carl"])
async def test_whoever_wrote_a_part_of_it_is_not_asked(
    runtime: Runtime, database: Database, editor: str
) -> None:
    people = {"ann": ["clerk"], "carl": ["clerk", "finance_manager"], "fin": ["finance_manager"]}
    await found_acme(database, people)
    await publish_invoices(database, patch_of(ASK))
    entity = await create_invoice(runtime, MIDDLE)
    await edit_invoice(runtime, entity.id, actor(editor), grand_total=80_000)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    assert [w.asked for w in view.waiting] == [("fin",)]
    with pytest.raises(Refused, match="SEPARATION_OF_DUTIES"):
        await decide(runtime, view, "ask", actor(editor))


async def test_whoever_edits_while_it_rests_is_asked_nothing_about_it(
    runtime: Runtime, database: Database
) -> None:
    """An approver who amends it is an author from then on."""
    people = {"ann": ["clerk"], "fin": ["finance_manager", "clerk"], "fay": ["finance_manager"]}
    await found_acme(database, people)
    await publish_invoices(database, patch_of(ASK))
    view = await submit_invoice(runtime, MIDDLE)
    fin = actor("fin").__class__("fin", roles=frozenset({"clerk", "finance_manager"}))
    await edit_invoice(runtime, view.entity_id, fin, grand_total=80_000)
    await drain(runtime)
    again = await runtime.org(ORG, ANN).entities.transition(view.entity_id, "submit")  # type: ignore[arg-type]
    assert [w.asked for w in again.waiting] == [("fay",)]


async def test_whoever_answered_what_became_void_is_asked_again_and_may_answer(
    runtime: Runtime, database: Database
) -> None:
    check = {"id": "check", "type": "approval", "approvers": {"role": "finance_manager"}, "mode": "all"}
    edges = [{"from": "in", "to": "check"}, {"from": "check", "to": "out", "on": "approved"}]
    patch = patch_of({"id": "ask", "type": "approval", "approvers": {"user": "bea"}})
    patch["slots"]["slot:draft_to_submit"] = {"nodes": [check], "edges": edges}
    await found_acme_with_invoices(database, patch)
    view = await submit_invoice(runtime, MIDDLE)
    await decide(runtime, view, "check", FIN)
    await edit_invoice(runtime, view.entity_id, grand_total=60_000)
    await drain(runtime)
    (asked,) = [row for row in await rows(database, "approval_requests") if row["status"] == "pending"]
    once = await runtime.org(ORG, FIN).approvals.decide(asked["id"], "approved")
    assert [w.asked for w in once.waiting] == [("fay",)]
    after = await runtime.org(ORG, FAY).approvals.decide(asked["id"], "approved")
    assert [w.name for w in after.waiting] == ["ask"]


async def test_one_person_alone_on_two_branches_is_an_incident_until_there_is_another(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(database)
    async with database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.members SET active = false WHERE org_id = 'acme' AND user_id = 'fay'"
        )
        settings = {"budget_owners": {"R&D": "fin"}}
        await connection.execute(
            "UPDATE assent.orgs SET settings = settings || $1::jsonb WHERE org_id = 'acme'", settings
        )
    view = await submit_invoice(runtime)
    assert (view.status, view.incident and view.incident["code"]) == ("paused", "NO_APPROVERS")
    async with database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.members SET active = true WHERE org_id = 'acme' AND user_id = 'fay'"
        )
    assert view.incident is not None
    assert "who are not needed for `budget`" in view.incident["message"]
    again = await runtime.org(ORG, actor("eve", "*")).instances.retry(view.id)
    assert {w.name: w.asked for w in again.waiting} == {"finance": ("fay", "fin"), "budget": ("fin",)}
    with pytest.raises(Refused, match="fin is needed for another seat of `budget`"):
        await decide(runtime, again, "finance", FIN)
    await decide(runtime, again, "budget", FIN)
    assert (await decide(runtime, again, "finance", FAY)).status == "completed"


async def test_one_of_a_role_who_sits_on_one_branch_is_passed_over_on_the_other(
    runtime: Runtime, database: Database
) -> None:
    patch = invoice_patch()
    nodes = {node["id"]: node for node in patch["slots"]["slot:submitted_to_approved"]["nodes"]}
    first = {"role": "finance_manager", "pick": "first_available"}
    nodes["finance"]["approvers"] = nodes["budget"]["approvers"] = first
    await found_acme_with_invoices(database, patch)
    view = await submit_invoice(runtime)
    assert sorted(w.asked for w in view.waiting) == [("fay",), ("fin",)]


async def test_an_edit_where_edits_are_free_asks_again_at_once(runtime: Runtime, database: Database) -> None:
    """An approval before submission: nothing is amended, whoever was asked is asked about what it is now."""
    check = {"id": "check", "type": "approval", "approvers": {"user": "bea"}}
    edges = [{"from": "in", "to": "check"}, {"from": "check", "to": "out", "on": "approved"}]
    patch = patch_of({"id": "ask", "type": "approval", "approvers": {"user": "fin"}})
    patch["slots"]["slot:draft_to_submit"] = {"nodes": [check], "edges": edges}
    await found_acme_with_invoices(database, patch)
    view = await submit_invoice(runtime, MIDDLE)
    first = request_id(view, "check")
    await edit_invoice(runtime, view.entity_id, grand_total=60_000)
    await drain(runtime)
    with pytest.raises(Refused, match="APPROVAL_VOID"):
        await runtime.org(ORG, BEA).approvals.decide(first, "approved")
    found = [row for row in await rows(database, "approval_requests") if row["status"] == "pending"]
    entity = await entity_row(runtime, view.entity_id)
    assert [row["entity_version"] for row in found] == [entity["version"]]
    after = await runtime.org(ORG, BEA).approvals.decide(found[0]["id"], "approved")
    assert [w.name for w in after.waiting] == ["ask"]


async def test_another_orgs_request_is_not_there(runtime: Runtime, database: Database) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    with pytest.raises(Refused, match="NOT_FOUND"):
        await runtime.org("other", FIN).approvals.decide(request_id(view, "finance"), "approved")


async def test_a_claim_and_a_reassignment_are_kept(runtime: Runtime, database: Database) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime, MIDDLE)
    request = request_id(view, "one")
    await runtime.org(ORG, FIN).approvals.claim(request)
    with pytest.raises(Refused, match="CLAIMED"):
        await runtime.org(ORG, FAY).approvals.decide(request, "approved")
    await runtime.org(ORG, FIN).approvals.reassign(request, from_user="fin", to_user="max", reason="on leave")
    with pytest.raises(Refused, match="UNKNOWN_USER"):
        await runtime.org(ORG, FAY).approvals.reassign(request, from_user="fay", to_user="ghost")
    done = await runtime.org(ORG, MAX).approvals.decide(request, "approved")
    assert done.status == "completed"
    seats = {row["user_id"]: row for row in await rows(database, "workflow_seats")}
    assert (seats["max"]["replaces_id"], seats["fin"]["status"]) == (seats["fin"]["id"], "closed")


async def test_the_design_flow_escalates_by_timeout_and_needs_the_guard(
    runtime: Runtime, app: App, database: Database, clock: MovedClock
) -> None:
    app.operation("orders.confirm")(lambda connection, given: {"confirmed_at": "2026-01-01"})
    runtime.core.advancing.operations["orders.confirm"] = app.operations["orders.confirm"]
    await found_acme(database, {"ann": ["clerk"], "ann2": ["approver"], "max": ["manager"]})
    flow = orders_flow()
    await publish_steps(database, flow.pop("flow"), flow.pop("steps"), flow.pop("transitions"), **flow)
    starter = actor("ann", "orders:approve:execute")
    view = await runtime.org(ORG, starter).instances.start(
        "orders.approval", {"order_id": "7", "customer_email": "c@x.example"}
    )
    assert [w.name for w in view.waiting] == ["review"]
    clock.advance("24h")
    await Timers(WorkerContext(database)).run_once()
    await drain(runtime)
    (pending,) = [row for row in await rows(database, "approval_requests") if row["status"] == "pending"]
    with pytest.raises(Refused, match="POLICY_DENIED"):
        await runtime.org(ORG, MAX).approvals.decide(pending["id"], "approved")
    able = actor("max", "orders:approve:escalated")
    done = await runtime.org(ORG, able).approvals.decide(pending["id"], "approved")
    (escalated,) = [step for step in await steps_of(database, view.id) if step["node_id"] == "escalated"]
    assert escalated["applied"] is True
    assert (done.status, done.context["confirmed_at"]) == ("completed", "2026-01-01")


async def test_a_decision_is_one_transaction_with_what_follows(runtime: Runtime, database: Database) -> None:
    """The gate cannot pass: the decision is not kept either, and can be given again."""
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime, MIDDLE)
    async with database.transaction(None) as connection:
        await connection.execute(
            "CREATE FUNCTION assent.refuse_active() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF NEW.state = 'active' THEN RAISE 'no'; END IF; RETURN NEW; END $$"
        )
        await connection.execute(
            "CREATE TRIGGER refuse BEFORE UPDATE ON assent.entities"
            " FOR EACH ROW EXECUTE FUNCTION assent.refuse_active()"
        )
    with pytest.raises(Exception, match="no"):
        await decide(runtime, view, "one", FIN)
    assert await rows(database, "approval_decisions") == []
    async with database.transaction(None) as connection:
        await connection.execute("DROP TRIGGER refuse ON assent.entities")
    assert (await decide(runtime, view, "one", FIN)).status == "completed"


async def test_cancel_of_the_invoice_ends_what_was_asked(runtime: Runtime, database: Database) -> None:
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    await decide(runtime, view, "finance", FIN)
    await runtime.org(ORG, MAX).entities.transition(view.entity_id, "cancel")  # type: ignore[arg-type]
    assert await _by_name(database) == {"finance": "void", "budget": "cancelled"}
    with pytest.raises(Refused, match=r"APPROVAL_VOID.*is cancelled: cancel$"):
        await decide(runtime, view, "budget", BEA)


async def test_a_large_wave_of_approvals_takes_as_many_statements_as_a_small_one(
    runtime: Runtime, database: Database
) -> None:
    """Twenty instances come to their approvals in one batch: as many statements as for two."""
    await found_acme(database)
    ask = {"id": "ask", "type": "approval", "assignee": {"role": "finance_manager"}}
    ends = [{"id": name, "type": "terminal"} for name in ("approved", "rejected")]
    ways = [{"from": "ask", "event": end["id"], "to": end["id"]} for end in ends]
    await publish_steps(database, "asks", [ask, *ends], ways)
    counts = []
    for size in (1, 2, 20):
        await runtime.org(ORG, ANN).instances.start_many("asks", [{} for _ in range(size)])
        with database.observe(counter := StatementCounter()):
            assert await EventProcessor(runtime.core).process_events(200) == size
        counts.append(len(counter))
    assert counts[1] == counts[2]
    assert len(await rows(database, "approval_requests")) == 23


async def test_an_approval_that_an_edit_has_made_void_does_not_open_the_gate(
    runtime: Runtime, database: Database
) -> None:
    """Where edits are free it was approved, then edited, and comes to its gate: it goes back with the reason."""
    check = {"id": "check", "type": "approval", "approvers": {"user": "bea"}}
    look = {"id": "look", "type": "form"}
    edges = [{"from": "in", "to": "check"}, {"from": "check", "to": "look", "on": "approved"}]
    edges.append({"from": "look", "to": "out", "on": "done"})
    patch = patch_of(ASK)
    patch["slots"]["slot:draft_to_submit"] = {"nodes": [check, look], "edges": edges}
    await found_acme_with_invoices(database, patch)
    view = await submit_invoice(runtime, MIDDLE)
    await decide(runtime, view, "check", BEA)
    await edit_invoice(runtime, view.entity_id, grand_total=60_000)
    after = await runtime.org(ORG, ANN).instances.advance(view.id, "done", step="look")
    assert [w.name for w in after.waiting] == ["draft"]
    (gate,) = [s for s in await steps_of(database, view.id) if s["node_id"] == "sys:gate:submit"]
    assert gate["output_json"]["reason"] == "it was edited after it was approved"


@pytest.mark.parametrize("name", ["_waived", "_rejection", "approved_by"])
async def test_nobody_sends_what_is_the_engines_own(runtime: Runtime, database: Database, name: str) -> None:
    """A gate asks whether somebody waived the approval: that is not for whoever submits to say."""
    await found_acme_with_invoices(database)
    entity = await create_invoice(runtime, MIDDLE)
    with pytest.raises(Refused, match="RESERVED_NAME"):
        await runtime.org(ORG, ANN).entities.transition(entity.id, "submit", {name: 0})
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    with pytest.raises(Refused, match="RESERVED_NAME"):
        await decide(runtime, view, "one", FIN, data={name: 0})
