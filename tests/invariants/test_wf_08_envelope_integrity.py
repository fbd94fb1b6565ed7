"""WF-08: a workflow whose envelope is missing something, altered or reordered is not compiled."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import pytest

from assent.compiler import compile_effective
from assent.compiler.attach import attach_slots, begin_effective
from assent.compiler.build import put_in_order
from assent.compiler.draft import WorkflowDraft
from assent.compiler.envelope import check_integrity
from assent.model.contract import EditWindow
from assent.model.graph import Envelope, NodeKind
from tests.authored import codes, invoice_envelope, invoice_patch

V = TypeVar("V")


def without(mapping: Mapping[str, V], key: str) -> dict[str, V]:
    return {name: value for name, value in mapping.items() if name != key}


def found(envelope: Envelope) -> list[tuple[str, tuple[str | int, ...]]]:
    compilation = compile_effective(envelope, invoice_patch())
    assert compilation.workflow is None
    return [(problem.code, problem.path) for problem in compilation.problems]


@pytest.mark.parametrize("node_id", sorted(invoice_envelope().nodes))
def test_a_missing_system_node_is_named(node_id: str) -> None:
    envelope = invoice_envelope()
    broken = replace(envelope, nodes=without(envelope.nodes, node_id))
    assert found(broken) == [("SYSTEM_MISSING", ("nodes", node_id))]


@pytest.mark.parametrize("edge_id", sorted(invoice_envelope().edges))
def test_a_missing_system_edge_is_named(edge_id: str) -> None:
    envelope = invoice_envelope()
    broken = replace(envelope, edges=without(envelope.edges, edge_id))
    assert found(broken) == [("SYSTEM_MISSING", ("edges", edge_id))]


@pytest.mark.parametrize("node_id", sorted(invoice_envelope().nodes))
def test_an_altered_system_node_is_named(node_id: str) -> None:
    envelope = invoice_envelope()
    altered = replace(envelope.nodes[node_id], kind=NodeKind.SCRIPT)
    broken = replace(envelope, nodes={**envelope.nodes, node_id: altered})
    assert found(broken) == [("SYSTEM_ALTERED", ("nodes", node_id))]


def test_a_loosened_slot_is_named() -> None:
    envelope = invoice_envelope()
    slot_id = "slot:submitted_to_approved"
    for change in ({"window": EditWindow.EDITABLE}, {"stable": False}, {"needs_approval": False}):
        altered = envelope.slots[slot_id].evolve(**change)
        broken = replace(envelope, slots={**envelope.slots, slot_id: altered})
        assert found(broken) == [("SYSTEM_ALTERED", ("slots", slot_id))]


def test_reordered_system_nodes_are_refused() -> None:
    envelope = invoice_envelope()
    first, second = "sys:state:draft->sys:gate:submit:submit", "sys:gate:submit->sys:state:submitted"
    swapped = {
        **envelope.edges,
        first: envelope.edges[first].evolve(source="sys:gate:submit", target="sys:state:draft"),
        second: envelope.edges[second].evolve(source="sys:state:submitted", target="sys:gate:submit"),
    }
    assert found(replace(envelope, edges=swapped)) == [
        ("SYSTEM_ALTERED", ("edges", second)),
        ("SYSTEM_ALTERED", ("edges", first)),
    ]


def test_a_system_node_that_the_contract_does_not_have_is_refused() -> None:
    envelope = invoice_envelope()
    extra = replace(envelope.nodes["sys:end"], id="sys:state:posted")
    broken = replace(envelope, nodes={**envelope.nodes, extra.id: extra})
    assert found(broken) == [("SYSTEM_ALTERED", ("nodes", "sys:state:posted"))]


def test_a_redirected_amendment_is_refused() -> None:
    assert found(replace(invoice_envelope(), amendment=None)) == [("SYSTEM_ALTERED", ("amendment",))]


def draft() -> WorkflowDraft:
    return put_in_order(attach_slots(begin_effective(invoice_envelope())))


def problems_after(broken: WorkflowDraft) -> list[str]:
    return [problem.code for problem in check_integrity(broken).problems]


def test_the_result_is_checked_too_whatever_the_passes_did() -> None:
    """Damage done after the envelope was checked is seen by the last pass."""
    whole = draft()
    assert problems_after(whole) == []
    for node_id in invoice_envelope().nodes:
        nodes = without(whole.nodes, node_id)
        assert "SYSTEM_MISSING" in problems_after(whole.evolve(nodes=nodes))
    for edge_id in invoice_envelope().edges:
        edges = tuple(edge for edge in whole.edges if edge.id != edge_id)
        if len(edges) < len(whole.edges):
            assert problems_after(whole.evolve(edges=edges)) == ["SYSTEM_MISSING"]


def test_a_slot_that_leads_somewhere_else_does_not_stand_for_its_edge() -> None:
    whole = draft()
    edges = tuple(
        edge.evolve(target="sys:state:active") if edge.source == "sys:approval:approve" else edge
        for edge in whole.edges
    )
    assert problems_after(whole.evolve(edges=edges)) == ["SYSTEM_MISSING"]


def test_a_result_in_the_wrong_order_is_refused() -> None:
    whole = draft()
    assert set(problems_after(whole.evolve(order=whole.order[::-1]))) == {"SYSTEM_REORDERED"}


def test_a_whole_envelope_says_so() -> None:
    workflow = compile_effective(invoice_envelope(), invoice_patch()).unwrap()
    assert workflow.gate_integrity.is_valid
    assert workflow.gate_integrity.required == tuple(sorted(invoice_envelope().nodes))


def test_system_nodes_keep_the_order_of_the_lifecycle() -> None:
    order = compile_effective(invoice_envelope(), invoice_patch()).unwrap().topological_order
    chain = [
        "sys:start",
        "sys:state:draft",
        "sys:gate:submit",
        "sys:state:submitted",
        "sys:slot:submitted_to_approved:in",
        "sys:slot:submitted_to_approved:out",
        "sys:gate:approve",
        "sys:state:active",
        "sys:end",
    ]
    assert [node for node in order if node in chain] == chain


def test_a_contract_that_was_altered_under_its_envelope_is_seen() -> None:
    envelope = invoice_envelope()
    lifecycle = envelope.contract.lifecycle
    states = {name: state for name, state in lifecycle.states.items() if name != "cancelled"}
    contract = envelope.contract.model_copy(
        update={"lifecycle": lifecycle.model_copy(update={"states": states})}
    )
    assert codes(compile_effective(replace(envelope, contract=contract))) == ["UNKNOWN_STATE"]
