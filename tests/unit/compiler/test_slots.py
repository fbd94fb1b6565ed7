"""What patches put into slots: proxies, ids, windows, modes, and the approval of an empty slot."""

from typing import Any

import pytest

from assent.compiler import compile_effective, generate_envelope
from assent.model.contract import EditWindow, contract_from
from assent.model.graph import NodeKind, Outcome
from tests.authored import (
    codes,
    compile_slot,
    invoice_contract,
    invoice_envelope,
    invoice_patch,
    node,
)

APPROVAL = {"id": "boss", "type": "approval", "approvers": {"role": "manager"}}
ONE_APPROVAL: dict[str, Any] = {
    "nodes": [APPROVAL],
    "edges": [{"from": "in", "to": "boss"}, {"from": "boss", "to": "out", "on": "approved"}],
}


def test_a_filled_slot_takes_the_place_of_the_direct_edge() -> None:
    workflow = compile_slot(ONE_APPROVAL).unwrap()
    way_in, way_out = "sys:slot:submitted_to_approved:in", "sys:slot:submitted_to_approved:out"
    assert "sys:state:submitted->sys:gate:approve" not in workflow.edges
    (entry,) = workflow.inbound(way_in)
    assert (entry.source, entry.label) == ("sys:state:submitted", Outcome.COMPLETED)
    assert {edge.target for edge in workflow.outgoing(way_out)} == {"sys:gate:approve"}
    assert workflow.nodes[way_in].kind is NodeKind.SLOT


def test_a_slot_entered_by_command_keeps_the_command() -> None:
    slot = {
        "nodes": [{"id": "note", "type": "script", "set": {"seen": "true"}}],
        "edges": [{"from": "in", "to": "note"}, {"from": "note", "to": "out"}],
    }
    workflow = compile_slot(slot, "slot:draft_to_submit").unwrap()
    (entry,) = workflow.inbound("sys:slot:draft_to_submit:in")
    assert entry.label == "submit"


def test_an_empty_slot_that_needs_approval_asks_whoever_may_do_the_transition() -> None:
    workflow = compile_effective(invoice_envelope()).unwrap()
    asks = workflow.nodes["sys:approval:approve"]
    (tier,) = asks.config["tiers"]
    assert tier == {"groups": [{"name": "approvers", "approvers": {"permission": "approve"}, "mode": "any"}]}
    assert workflow.slot_map[asks.id] == "slot:submitted_to_approved"
    assert asks.id in workflow.stable_nodes
    (rejected,) = workflow.answers(asks.id, Outcome.REJECTED)
    assert (rejected.target, rejected.leaves_slot) == ("sys:gate:approve", True)


def test_every_source_of_a_gate_that_needs_approval_asks_for_itself() -> None:
    lifecycle = {
        "initial": "a",
        "states": {"a": {"edit": "editable"}, "b": {"edit": "editable"}, "c": {"edit": "locked"}},
        "transitions": {
            "move": {"from": "a", "to": "b"},
            "end": {"from": ["a", "b"], "to": "c", "approval": "required"},
        },
    }
    envelope = generate_envelope(contract_from({"contract": "x", "version": 1, "lifecycle": lifecycle}))
    workflow = compile_effective(envelope).unwrap()
    assert {"sys:approval:end:a", "sys:approval:end:b"} <= set(workflow.nodes)


def test_an_empty_patch_equals_none() -> None:
    bare = compile_effective(invoice_envelope()).unwrap()
    assert compile_slot({}).unwrap().hash == bare.hash
    assert compile_slot({"nodes": [], "edges": [], "entry": "serial"}).unwrap().hash == bare.hash


def test_a_full_id_is_the_same_node_as_the_short_id_it_derives_from() -> None:
    workflow = compile_slot(ONE_APPROVAL).unwrap()
    full = node(workflow, "boss")
    slot = {
        "nodes": [{**APPROVAL, "id": full}],
        "edges": [{"from": "in", "to": full}, {"from": full, "to": "out", "on": "approved"}],
    }
    assert full in compile_slot(slot).unwrap().nodes


def test_edges_may_name_a_node_by_its_full_id() -> None:
    full = node(compile_slot(ONE_APPROVAL).unwrap(), "boss")
    slot = {"nodes": [APPROVAL], "edges": [{"from": "in", "to": full}, {"from": "boss", "to": "out"}]}
    assert compile_slot(slot).workflow is not None


def test_two_patches_may_fill_two_slots() -> None:
    first, second = invoice_patch(), invoice_patch()
    second["slots"] = {
        "slot:approved_to_active": {
            "nodes": [{"id": "tell", "type": "notification", "channel": "email", "to": "x", "text": "y"}],
            "edges": [{"from": "in", "to": "tell"}, {"from": "tell", "to": "out"}],
        }
    }
    workflow = compile_effective(invoice_envelope(), [first, second]).unwrap()
    assert [slot.id for slot in workflow.slots.values() if slot.filled] == [
        "slot:approved_to_active",
        "slot:submitted_to_approved",
    ]


def test_two_patches_cannot_fill_one_slot() -> None:
    compilation = compile_effective(invoice_envelope(), [invoice_patch(), invoice_patch()])
    (problem,) = compilation.problems
    assert (problem.code, problem.path) == ("DUPLICATE_SLOT", (1, "slots", "slot:submitted_to_approved"))


def test_serial_has_one_way_in_and_single_one_way_out() -> None:
    slot = {
        "entry": "serial",
        "exit": "single",
        "nodes": [APPROVAL, {**APPROVAL, "id": "chief"}],
        "edges": [
            {"from": "in", "to": "boss", "when": "entity.grand_total < 10"},
            {"from": "in", "to": "chief"},
            {"from": "boss", "to": "out"},
            {"from": "chief", "to": "out"},
        ],
    }
    assert codes(compile_slot(slot)) == ["ENTRY_MODE", "EXIT_MODE"]
    assert compile_slot({**slot, "entry": "branch", "exit": "join"}).workflow is not None


def test_a_rejection_is_not_a_way_out_that_single_counts() -> None:
    edges = [*ONE_APPROVAL["edges"], {"from": "boss", "to": "out", "on": "rejected"}]
    workflow = compile_slot({**ONE_APPROVAL, "edges": edges, "exit": "single"}).unwrap()
    (rejected,) = workflow.answers(node(workflow, "boss"), Outcome.REJECTED)
    assert rejected.leaves_slot


def test_a_patch_may_make_a_window_stricter() -> None:
    workflow = compile_slot({**ONE_APPROVAL, "edit": "locked"}).unwrap()
    assert workflow.window(node(workflow, "boss")) is EditWindow.LOCKED
    assert workflow.slots["slot:submitted_to_approved"].window is EditWindow.LOCKED


def test_a_single_node_may_be_stricter_than_its_slot() -> None:
    workflow = compile_slot({**ONE_APPROVAL, "nodes": [{**APPROVAL, "edit": "locked"}]}).unwrap()
    assert workflow.window(node(workflow, "boss")) is EditWindow.LOCKED
    assert workflow.window("sys:slot:submitted_to_approved:in") is EditWindow.AMEND_ONLY


@pytest.mark.parametrize("where", ["slot", "node"])
def test_a_patch_cannot_make_a_window_looser(where: str) -> None:
    slot = dict(ONE_APPROVAL)
    slot |= {"edit": "editable"} if where == "slot" else {"nodes": [{**APPROVAL, "edit": "editable"}]}
    (problem,) = compile_slot(slot).problems
    assert problem.code == "LOOSER_WINDOW"
    assert problem.path[-1] == "edit"


def test_an_amendment_window_needs_a_contract_that_can_amend() -> None:
    data = invoice_contract().model_dump(mode="json", by_alias=True, exclude_defaults=True)
    data["lifecycle"]["states"]["submitted"]["edit"] = "editable"
    del data["lifecycle"]["states"]["amended"]
    data["lifecycle"]["transitions"]["submit"]["from"] = ["draft"]
    envelope = generate_envelope(contract_from(data))
    patch = invoice_patch()
    patch["slots"]["slot:submitted_to_approved"]["edit"] = "amend_only"
    (problem,) = compile_effective(envelope, patch).problems
    assert problem.code == "NO_AMENDMENT"


def test_an_approval_after_the_gate_needs_its_own_way_for_a_rejection() -> None:
    (problem,) = compile_slot(ONE_APPROVAL, "slot:approved_to_active").problems
    assert (problem.code, problem.path[-2:]) == ("UNMATCHED_OUTCOME", ("nodes", 0))
    edges = [*ONE_APPROVAL["edges"], {"from": "boss", "to": "out", "on": "rejected"}]
    workflow = compile_slot({**ONE_APPROVAL, "edges": edges}, "slot:approved_to_active").unwrap()
    assert not any(
        edge.leaves_slot for edge in workflow.edges.values() if edge.provenance == "slot:approved_to_active"
    )


def test_steps_that_run_as_somebody_else_need_a_capability_to_publish() -> None:
    action = {"id": "post", "type": "action", "action": "ledger.create", "payload": {"n": "{entity.number}"}}
    slot = {
        "nodes": [
            {**action, "run_as": "system"},
            {**action, "id": "again", "run_as": "service_account", "service_account": "ledger-bot"},
        ],
        "edges": [
            {"from": "in", "to": "post"},
            {"from": "post", "to": "again"},
            {"from": "again", "to": "out"},
        ],
    }
    workflow = compile_slot(slot, "slot:approved_to_active").unwrap()
    assert workflow.publish_capabilities == (
        "workflow:publish:run_as_service_account",
        "workflow:publish:run_as_system",
    )
