"""The contract, patch and flow of the design compile as written, and mean what the design says."""

from assent.compiler import compile_effective, compile_flow, verify_hash
from assent.model.contract import EditWindow
from assent.model.graph import NodeKind, Outcome
from assent.model.workflow import Expiry, Workflow
from tests.authored import invoice_envelope, invoice_patch, node, orders_flow


def invoice() -> Workflow:
    return compile_effective(invoice_envelope(), invoice_patch()).unwrap()


def orders() -> Workflow:
    return compile_flow(orders_flow()).unwrap()


def test_the_patch_compiles_into_its_envelope() -> None:
    workflow = invoice()
    assert (workflow.kind, workflow.key, workflow.envelope_version) == ("effective", "invoice", 1)
    assert verify_hash(workflow)
    assert workflow.gate_integrity.is_valid


def test_both_waits_for_the_two_branches_of_fork() -> None:
    workflow = invoice()
    join = workflow.joins[node(workflow, "both")]
    assert (join.split, join.token_count, join.mode) == (node(workflow, "fork"), 2, "all")


def test_size_asks_its_edges_by_priority() -> None:
    workflow = invoice()
    targets = [workflow.nodes[edge.target].name for edge in workflow.outgoing(node(workflow, "size"))]
    assert targets == ["fast", "fork", "one"]


def test_a_rejection_without_an_edge_of_its_own_leaves_the_slot() -> None:
    workflow = invoice()
    way_out = "sys:slot:submitted_to_approved:out"
    for name in ("one", "finance", "budget"):
        (edge,) = workflow.answers(node(workflow, name), Outcome.REJECTED)
        assert (edge.target, edge.leaves_slot) == (way_out, True)
    (onward,) = workflow.answers(way_out, Outcome.REJECTED)
    assert onward.target == "sys:gate:approve"
    (back,) = workflow.answers("sys:gate:approve", Outcome.REJECTED)
    assert (back.target, back.loop) == ("sys:state:draft", True)


def test_the_slot_is_a_stable_region_that_can_only_be_amended() -> None:
    workflow = invoice()
    inside = {node_id for node_id, slot in workflow.slot_map.items() if slot == "slot:submitted_to_approved"}
    assert len(inside) == 9
    assert inside < workflow.stable_nodes
    assert {workflow.window(node_id) for node_id in inside} == {EditWindow.AMEND_ONLY}


def test_ids_of_nodes_are_derived_from_slot_and_short_id() -> None:
    assert node(invoice(), "size") == "usr:slot:submitted_to_approved:626cea32-4be4-55f0-8883-0960c9ac69d6"


def test_the_flow_compiles_with_its_step_types() -> None:
    workflow = orders()
    kinds = {name: workflow.nodes[name].kind for name in ("review", "process", "notify", "approved")}
    assert kinds == {
        "review": NodeKind.APPROVAL,
        "process": NodeKind.SYSTEM,
        "notify": NodeKind.NOTIFICATION,
        "approved": NodeKind.END,
    }
    assert workflow.capabilities == ("orders:approve:execute",)


def test_a_step_that_times_out_goes_where_it_says() -> None:
    workflow = orders()
    assert workflow.nodes["review"].timeout_seconds == 24 * 3600
    (edge,) = workflow.answers("review", Outcome.TIMEOUT)
    assert edge.target == "escalated"


def test_the_whole_flow_expires() -> None:
    assert orders().expiry == Expiry(72 * 3600, "expired")


def test_going_back_after_an_error_is_the_only_loop() -> None:
    loops = [edge.id for edge in orders().edges.values() if edge.loop]
    assert loops == ["process->review:error"]


def test_a_workflow_survives_json() -> None:
    for workflow in (invoice(), orders()):
        assert Workflow.from_json(workflow.to_json()) == workflow
