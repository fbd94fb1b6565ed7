"""D21: where the contract requires approval, every way through the slot holds one, or a node that waives it.

An approval counts only when it is left by `approved`; its timeout is no approval. Branches of an
ALL join all complete, so one approved branch is enough there; of an ANY join each must be.
"""

from collections import defaultdict
from collections.abc import Iterator

from assent.compiler.draft import WorkflowDraft
from assent.compiler.namespace import proxy_id
from assent.compiler.walk import topological_order
from assent.model.graph import Edge, Node, NodeKind, Outcome, Slot
from assent.model.patch import IN, OUT
from assent.model.problems import Problem


def require_approvals(draft: WorkflowDraft) -> WorkflowDraft:
    problems = list(_check_waivers(draft))
    if draft.is_walkable:
        for slot in draft.slots.values():
            if slot.filled and slot.needs_approval:
                problems += _check_slot(draft, slot)
    return draft.noting(problems)


def _check_waivers(draft: WorkflowDraft) -> Iterator[Problem]:
    for node_id, declared in draft.declared.items():
        slot = draft.slots.get(draft.slot_map[node_id])
        if declared.waives_approval and (slot is None or not slot.needs_approval):
            message = f"nothing needs approval where `{draft.called(node_id)}` is"
            yield Problem("NOTHING_TO_WAIVE", message, (*draft.place(node_id), "waives_approval"))


def _check_slot(draft: WorkflowDraft, slot: Slot) -> Iterator[Problem]:
    inner = {node for node, owner in draft.slot_map.items() if owner == slot.id}
    edges = [e for e in draft.edges if e.source in inner and e.target in inner and not e.leaves_slot]
    way_in, way_out = proxy_id(slot.id, IN), proxy_id(slot.id, OUT)
    bare = _bare_nodes(draft, way_in, inner, edges)
    if way_out in bare:
        way = _bare_way(bare, way_out)
        shown = " → ".join(draft.called(node) for node in way)
        message = f"`{slot.id}` needs an approval on every way, this one has none: {shown}"
        hint = "put an approval on it, or mark a node of it `waives_approval: true`"
        yield Problem("MISSING_APPROVAL", message, draft.place(way[-2] if len(way) > 2 else way_out), hint)


def _bare_nodes(
    draft: WorkflowDraft, root: str, nodes: set[str], edges: list[Edge]
) -> dict[str, Edge | None]:
    """The nodes that can be reached without an approval, each with an edge by which that happens."""
    inbound: dict[str, list[Edge]] = defaultdict(list)
    for edge in sorted(edges, key=lambda edge: edge.order):
        if edge.source in draft.branches:
            inbound[edge.target].append(edge)
    bare: dict[str, Edge | None] = {root: None}
    for node_id in topological_order(nodes, edges):
        arrivals = inbound[node_id]
        unsettled = [edge for edge in arrivals if edge.source in bare and not _settles(draft, edge)]
        if unsettled and _passes(draft, draft.nodes[node_id], arrivals, unsettled):
            bare[node_id] = unsettled[0]
    return bare


def _settles(draft: WorkflowDraft, edge: Edge) -> bool:
    source = draft.nodes[edge.source]
    return source.waives_approval or (source.kind is NodeKind.APPROVAL and edge.label == Outcome.APPROVED)


def _passes(draft: WorkflowDraft, node: Node, arrivals: list[Edge], unsettled: list[Edge]) -> bool:
    """Whether the node can be entered without an approval, given the edges that bring none."""
    if node.kind is not NodeKind.PARALLEL_JOIN or draft.joins[node.id].mode == "any":
        return True
    return {_branch(draft, edge) for edge in unsettled} == {_branch(draft, edge) for edge in arrivals}


def _branch(draft: WorkflowDraft, edge: Edge) -> str:
    split = draft.nodes[edge.source].kind is NodeKind.PARALLEL_SPLIT
    return edge.id if split else draft.branches[edge.source][-1][1]


def _bare_way(bare: dict[str, Edge | None], target: str) -> list[str]:
    way = [target]
    while (edge := bare[way[-1]]) is not None:
        way.append(edge.source)
    return way[::-1]
