"""Puts fillings into slots: proxies, the patch's nodes and edges, and the approval that an empty slot needs.

The envelope's direct edge from entry to exit gives way to entry → in, what the patch brings, and out → exit.
A rejection that has no edge of its own leaves by the out-proxy (D20).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from assent.compiler.draft import Filling, WorkflowDraft, node_of, on_timeout
from assent.compiler.edges import PRIORITY_UNCONDITIONAL, Arrow, stem_of, written_edges
from assent.compiler.namespace import proxy_id
from assent.model.graph import ENVELOPE, Edge, Envelope, Node, NodeKind, Outcome, Slot
from assent.model.nodes import Join, NodeDeclaration
from assent.model.patch import IN, OUT
from assent.model.people import ONLY_GROUP
from assent.model.problems import Path, Problem


def begin_effective(envelope: Envelope) -> WorkflowDraft:
    """Return the bare envelope, before anything is put into its slots."""
    return WorkflowDraft(
        envelope=envelope,
        contract=envelope.contract,
        nodes=dict(envelope.nodes),
        edges=tuple(envelope.edges.values()),
        slots=dict(envelope.slots),
        slot_map=dict.fromkeys(envelope.nodes, ENVELOPE),
    )


def attach_slots(draft: WorkflowDraft) -> WorkflowDraft:
    filled = {filling.slot.id for filling in draft.fillings}
    for filling in draft.fillings:
        draft = _fill(draft, filling)
    for slot in draft.slots.values():
        if slot.needs_approval and slot.id not in filled:
            draft = _ask(draft, slot)
    return draft


def _fill(draft: WorkflowDraft, filling: Filling) -> WorkflowDraft:
    slot = filling.slot
    direct = _direct_edge(draft, slot)
    nodes = {node.id: node for node in _nodes(filling)}
    written = written_edges(_arrows(filling, nodes), f"usr:{slot.id}:", slot.id)
    inner = [_leaving(edge, slot) for edge in written.edges]
    rejections = list(_missing_rejections(nodes, inner, slot))
    edges = [edge for edge in draft.edges if edge != direct]
    return draft.noting((*written.problems, *_check_modes(filling, inner))).evolve(
        nodes=draft.nodes | nodes,
        edges=(*edges, *_proxy_edges(direct, slot), *inner, *rejections),
        slots=draft.slots | {slot.id: slot.evolve(filled=True)},
        slot_map=draft.slot_map | dict.fromkeys(nodes, slot.id),
        declared=draft.declared | {filling.ids[node.id]: node for node in filling.patch.nodes},
        conditions=draft.conditions | written.conditions,
        places=draft.places | _places(filling) | written.places,
    )


def _direct_edge(draft: WorkflowDraft, slot: Slot) -> Edge:
    return next(
        edge
        for edge in draft.edges
        if edge.source == slot.entry and edge.target == slot.exit and edge.label != Outcome.REJECTED
    )


def _nodes(filling: Filling) -> Iterator[Node]:
    for side in (IN, OUT):
        yield Node(filling.ids[side], NodeKind.SLOT, side)
    for declared in filling.patch.nodes:
        yield node_of(declared, filling.ids[declared.id], declared.id.rpartition(":")[2])


def _places(filling: Filling) -> dict[str, Path]:
    places = {filling.ids[side]: filling.path for side in (IN, OUT)}
    for index, node in enumerate(filling.patch.nodes):
        places[filling.ids[node.id]] = (*filling.path, "nodes", index)
    return places


def _arrows(filling: Filling, nodes: Mapping[str, Node]) -> Iterator[Arrow]:
    any_joins = {filling.ids[node.id] for node in filling.patch.nodes if _is_any_join(node)}
    for index, edge in enumerate(filling.patch.edges):
        # An edge that leads nowhere was complained about before.
        if edge.from_ in filling.ids and edge.to in filling.ids and edge.from_ != OUT and edge.to != IN:
            arrow = _arrow(filling, nodes, edge.from_, edge.to, ("edges", index))
            yield replace(
                arrow,
                label=edge.on,
                condition=edge.when,
                condition_path=(*arrow.path, "when"),
                guard=edge.guard,
                priority=edge.priority,
                qualifies=arrow.target in any_joins,
            )
    for index, node in enumerate(filling.patch.nodes):
        target = on_timeout(node)
        if target is not None and target in filling.ids and target != IN:
            arrow = _arrow(filling, nodes, node.id, target, ("nodes", index, "on_timeout"))
            yield replace(arrow, label=Outcome.TIMEOUT)


def _arrow(filling: Filling, nodes: Mapping[str, Node], source: str, target: str, path: Path) -> Arrow:
    first, last = nodes[filling.ids[source]], nodes[filling.ids[target]]
    return Arrow(first.id, last.id, (first.name, last.name), first.kind, (*filling.path, *path))


def _is_any_join(declared: NodeDeclaration) -> bool:
    return isinstance(declared, Join) and declared.mode == "any"


def _check_modes(filling: Filling, edges: list[Edge]) -> Iterator[Problem]:
    ways_in = sum(edge.source == filling.ids[IN] for edge in edges)
    ways_out = sum(edge.target == filling.ids[OUT] and not edge.leaves_slot for edge in edges)
    if filling.patch.entry == "serial" and ways_in > 1:
        message = f"`serial` has one edge from `in`, found {ways_in}"
        yield Problem("ENTRY_MODE", message, (*filling.path, "entry"), hint="say `entry: branch`")
    if filling.patch.exit == "single" and ways_out > 1:
        message = f"`single` has one edge to `out`, found {ways_out}"
        yield Problem("EXIT_MODE", message, (*filling.path, "exit"), hint="say `exit: join`")


def _proxy_edges(direct: Edge, slot: Slot) -> Iterator[Edge]:
    """Entry → in keeps the command that the direct edge answered, out → exit its loop.

    A rejection goes on as one; only after a gate, where its author sent it to `out`, it means nothing any more.
    """
    way_in, way_out = proxy_id(slot.id, IN), proxy_id(slot.id, OUT)
    yield _system_edge(slot, slot.entry, way_in, direct.label)
    yield _system_edge(slot, way_out, slot.exit).evolve(loop=direct.loop)
    yield _system_edge(slot, way_out, slot.exit, Outcome.REJECTED).evolve(loop=direct.loop)


def _system_edge(slot: Slot, source: str, target: str, label: str = Outcome.COMPLETED) -> Edge:
    edge_id = stem_of(source, target, label, NodeKind.SLOT)
    return Edge(edge_id, source, target, str(label), PRIORITY_UNCONDITIONAL, provenance=slot.id)


def _leaving(edge: Edge, slot: Slot) -> Edge:
    rejects = edge.label == Outcome.REJECTED and edge.target == proxy_id(slot.id, OUT) and slot.ends_in_gate
    return edge.evolve(leaves_slot=True) if rejects else edge


def _missing_rejections(nodes: Mapping[str, Node], edges: list[Edge], slot: Slot) -> Iterator[Edge]:
    if not slot.ends_in_gate:
        return
    answered = {edge.source for edge in edges if edge.label == Outcome.REJECTED}
    for node in nodes.values():
        if node.kind is NodeKind.APPROVAL and node.id not in answered:
            ends = stem_of(node.name, OUT, Outcome.REJECTED, node.kind)
            edge = _system_edge(slot, node.id, proxy_id(slot.id, OUT), Outcome.REJECTED)
            yield edge.evolve(id=f"usr:{slot.id}:{ends}", leaves_slot=True)


def approval_id(draft: WorkflowDraft, slot: Slot) -> str:
    """`sys:approval:<transition>`, with the state where several lead to one gate."""
    gate = draft.nodes[slot.exit]
    alone = len(gate.config["from"]) == 1
    return (
        f"sys:approval:{gate.name}" if alone else f"sys:approval:{gate.name}:{draft.nodes[slot.entry].name}"
    )


def _ask(draft: WorkflowDraft, slot: Slot) -> WorkflowDraft:
    """Add an approval to an empty slot, by the people who may make the transition under the contract."""
    direct, node_id = _direct_edge(draft, slot), approval_id(draft, slot)
    transition = draft.nodes[slot.exit].name
    group = {"name": ONLY_GROUP, "approvers": {"permission": transition}, "mode": "any"}
    config = {"tiers": [{"groups": [group]}]}
    asks = Node(node_id, NodeKind.APPROVAL, transition, config=config)
    edges = (
        _system_edge(slot, slot.entry, node_id, direct.label),
        _system_edge(slot, node_id, slot.exit, Outcome.APPROVED).evolve(loop=direct.loop),
        _system_edge(slot, node_id, slot.exit, Outcome.REJECTED).evolve(leaves_slot=True),
    )
    return draft.evolve(
        nodes=draft.nodes | {node_id: asks},
        edges=(*(edge for edge in draft.edges if edge != direct), *edges),
        slot_map=draft.slot_map | {node_id: slot.id},
    )
