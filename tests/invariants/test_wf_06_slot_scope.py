"""WF-06: what a patch writes stays inside the slots that it names; the system's nodes stay untouched."""

from typing import Any

import pytest

from assent.compiler import compile_effective, generate_envelope
from assent.compiler.namespace import user_id
from assent.model.graph import NodeKind
from assent.model.patch import Patch
from tests.authored import codes, compile_slot, invoice_contract, invoice_envelope, invoice_patch

SLOT = "slot:submitted_to_approved"
OTHER = "slot:draft_to_submit"
UUID = "00000000-0000-4000-8000-000000000001"


def boss(node_id: str = "boss") -> dict[str, Any]:
    return {"id": node_id, "type": "approval", "approvers": {"role": "manager"}}


def slot(*edges: tuple[str, str], node_id: str = "boss") -> dict[str, Any]:
    return {"nodes": [boss(node_id)], "edges": [{"from": source, "to": target} for source, target in edges]}


SYSTEM_NODES = sorted(invoice_envelope().nodes)


@pytest.mark.parametrize(
    "target", [*SYSTEM_NODES, f"sys:{SLOT}:in", f"sys:{SLOT}:out", "sys:approval:approve"]
)
def test_no_edge_leads_to_or_from_a_system_node(target: str) -> None:
    assert codes(compile_slot(slot(("in", "boss"), ("boss", target)))) == ["SYSTEM_NODE"]
    assert codes(compile_slot(slot((target, "boss"), ("boss", "out")))) == ["SYSTEM_NODE"]


@pytest.mark.parametrize("target", SYSTEM_NODES)
def test_no_node_takes_the_place_of_a_system_node(target: str) -> None:
    compilation = compile_slot(slot(("in", target), (target, "out"), node_id=target))
    assert compilation.workflow is None
    assert compilation.problems[0].code == "SYSTEM_NODE"
    assert compilation.problems[0].path == ("slots", SLOT, "nodes", 0, "id")


def test_a_node_of_another_slot_is_out_of_scope() -> None:
    foreign = user_id(OTHER, "boss")
    assert "OUT_OF_SLOT" in codes(compile_slot(slot(("in", foreign), (foreign, "out"), node_id=foreign)))
    assert codes(compile_slot(slot(("in", "boss"), ("boss", foreign)))) == ["OUT_OF_SLOT"]


def test_a_short_id_means_a_node_of_its_own_slot_only() -> None:
    patch = invoice_patch()
    patch["slots"][OTHER] = {
        "nodes": [{"id": "note", "type": "script", "set": {"x": "1"}}],
        "edges": [{"from": "in", "to": "note"}, {"from": "note", "to": "size"}],
    }
    (problem,) = compile_effective(invoice_envelope(), patch).problems
    assert (problem.code, problem.path) == ("UNKNOWN_NODE", ("slots", OTHER, "edges", 1, "to"))


@pytest.mark.parametrize(
    "node_id",
    [f"usr:{SLOT}:not-a-uuid", f"usr:{SLOT}:{UUID}x", f"usr:{SLOT}:{UUID.upper()[:-1]}A", f"usr:{SLOT}:"],
)
def test_a_full_id_ends_in_a_uuid(node_id: str) -> None:
    assert "BAD_NAME" in codes(compile_slot(slot(("in", node_id), (node_id, "out"), node_id=node_id)))


def test_the_same_short_id_in_two_slots_gives_two_nodes() -> None:
    assert user_id(SLOT, "boss") != user_id(OTHER, "boss")
    assert user_id(SLOT, "boss").startswith(f"usr:{SLOT}:")


@pytest.mark.parametrize("slot_id", ["slot:nowhere", "submitted_to_approved", "slot:active_to_cancel", ""])
def test_only_declared_slots_can_be_filled(slot_id: str) -> None:
    (problem,) = compile_slot(slot(("in", "boss"), ("boss", "out")), slot_id).problems
    assert (problem.code, problem.path) == ("UNKNOWN_SLOT", ("slots", slot_id))


@pytest.mark.parametrize("kind", ["start", "end", "state", "lifecycle_gate", "slot"])
def test_a_patch_cannot_bring_system_kinds(kind: str) -> None:
    compilation = compile_slot({"nodes": [{"id": "x", "type": kind}], "edges": []})
    assert codes(compilation) == ["UNKNOWN_KIND"]


def test_in_only_leads_in_and_out_only_leads_out() -> None:
    assert codes(compile_slot(slot(("in", "boss"), ("boss", "in"), ("boss", "out")))) == ["WRONG_WAY"]
    assert codes(compile_slot(slot(("in", "boss"), ("boss", "out"), ("out", "boss")))) == ["WRONG_WAY"]


def test_every_node_of_a_workflow_is_the_envelope_s_or_lies_in_a_slot_s_namespace() -> None:
    workflow = compile_effective(invoice_envelope(), invoice_patch()).unwrap()
    for node in workflow.nodes.values():
        owner = workflow.slot_map[node.id]
        if owner == "envelope":
            assert node.id in invoice_envelope().nodes
        elif node.kind is NodeKind.SLOT:
            assert node.id in {f"sys:{owner}:in", f"sys:{owner}:out"}
        else:
            assert node.id.startswith(f"usr:{owner}:")


def test_every_edge_of_a_patch_stays_in_its_slot_or_joins_it_to_its_entry_and_exit() -> None:
    workflow = compile_effective(invoice_envelope(), invoice_patch()).unwrap()
    for edge in workflow.edges.values():
        if edge.provenance == "envelope":
            continue
        found = workflow.slots[edge.provenance]
        inside = {node for node, owner in workflow.slot_map.items() if owner == found.id}
        assert edge.source in inside or (edge.source, edge.target) == (found.entry, f"sys:{found.id}:in")
        assert edge.target in inside or (edge.source, edge.target) == (f"sys:{found.id}:out", found.exit)


def test_a_patch_made_for_another_envelope_is_refused() -> None:
    for key, value in (("entity_type", "order"), ("envelope_version", 2)):
        patch = invoice_patch()
        patch["base"][key] = value
        (problem,) = compile_effective(invoice_envelope(), Patch.model_validate(patch)).problems
        assert (problem.code, problem.path) == ("BASE_MISMATCH", ("base", key))


def test_a_patch_made_for_an_older_envelope_is_refused() -> None:
    envelope = generate_envelope(invoice_contract().model_copy(update={"version": 2}))
    (problem,) = compile_effective(envelope, invoice_patch()).problems
    assert (problem.code, problem.path) == ("BASE_MISMATCH", ("base", "envelope_version"))
