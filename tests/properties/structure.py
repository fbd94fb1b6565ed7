"""What holds of every workflow that the compiler lets out, checked naively and from the compiled form alone."""

from assent.compiler import verify_hash
from assent.model.graph import Envelope, NodeKind
from assent.model.workflow import Workflow


def check_structure(workflow: Workflow) -> None:
    assert verify_hash(workflow)
    assert set(workflow.topological_order) == set(workflow.nodes) == set(workflow.edit_windows)
    rank = {node: number for number, node in enumerate(workflow.topological_order)}
    for edge in workflow.edges.values():
        assert edge.loop or rank[edge.source] < rank[edge.target], edge.id
    _check_slots(workflow)
    _check_joins(workflow)
    _check_reach(workflow)


def _check_slots(workflow: Workflow) -> None:
    """A filled slot has a single entry and a single exit."""
    for slot in workflow.slots.values():
        if not slot.filled:
            continue
        inside = {node for node, owner in workflow.slot_map.items() if owner == slot.id}
        way_in, way_out = f"sys:{slot.id}:in", f"sys:{slot.id}:out"
        crossing = [e for e in workflow.edges.values() if (e.source in inside) != (e.target in inside)]
        entering = [(e.source, e.target) for e in crossing if e.target in inside]
        leaving = {(e.source, e.target) for e in crossing if e.source in inside}
        assert entering == [(slot.entry, way_in)]
        assert leaving == {(way_out, slot.exit)}


def _check_joins(workflow: Workflow) -> None:
    """Every join has its own split, and waits for as many tokens as that sends out."""
    kinds = {node.id: node.kind for node in workflow.nodes.values()}
    joins = {node for node, kind in kinds.items() if kind is NodeKind.PARALLEL_JOIN}
    splits = {node for node, kind in kinds.items() if kind is NodeKind.PARALLEL_SPLIT}
    assert joins == set(workflow.joins)
    assert splits == {join.split for join in workflow.joins.values()}
    assert len(splits) == len(joins)
    for join in workflow.joins.values():
        assert join.token_count == len(workflow.outgoing(join.split))


def _check_reach(workflow: Workflow) -> None:
    roots = {workflow.start} | ({workflow.expiry.target} if workflow.expiry else set())
    pairs = [(edge.source, edge.target) for edge in workflow.edges.values()]
    assert _closure({root for root in roots if root}, pairs) == set(workflow.nodes)
    ends = {node.id for node in workflow.nodes.values() if node.kind is NodeKind.END}
    assert _closure(ends, [(target, source) for source, target in pairs]) == set(workflow.nodes)


def _closure(found: set[str], pairs: list[tuple[str, str]]) -> set[str]:
    found = set(found)
    while more := {target for source, target in pairs if source in found and target not in found}:
        found |= more
    return found


def check_envelope_inside(workflow: Workflow, envelope: Envelope) -> None:
    """All system nodes are there as generated, and in the order that the lifecycle gives them."""
    rank = {node: number for number, node in enumerate(workflow.topological_order)}
    for node_id, node in envelope.nodes.items():
        assert workflow.nodes[node_id] == node
    for edge in envelope.edges.values():
        assert edge.loop or rank[edge.source] < rank[edge.target], edge.id
