"""WF-08: the envelope is whole. Every system node and edge is there, as the contract generates it, in order.

Asked first of the envelope itself, which may come from a database that was changed by hand, then of the result.
"""

from collections.abc import Iterator, Mapping

from assent.compiler.draft import WorkflowDraft
from assent.compiler.envelope import envelope_of
from assent.model.envelope import Envelope
from assent.model.graph import Edge, Node, Slot
from assent.model.problems import Problem


def check_generated(envelope: Envelope) -> Iterator[Problem]:
    """What differs from the envelope that its own contract generates."""
    generated, problems = envelope_of(envelope.contract)
    if generated is None:
        yield from (problem.under("contract") for problem in problems)
        return
    yield from _differences("node", envelope.nodes, generated.nodes)
    yield from _differences("edge", envelope.edges, generated.edges)
    yield from _differences("slot", envelope.slots, generated.slots)
    if envelope.amendment != generated.amendment:
        message = f"the amendment gate is {envelope.amendment}, not {generated.amendment}"
        yield Problem("SYSTEM_ALTERED", message, ("amendment",))


def _differences(
    what: str, found: Mapping[str, Node | Edge | Slot], expected: Mapping[str, Node | Edge | Slot]
) -> Iterator[Problem]:
    for key in sorted(expected.keys() | found.keys()):
        if key not in found:
            yield Problem("SYSTEM_MISSING", f"the system {what} `{key}` is missing", (f"{what}s", key))
        elif key not in expected:
            yield Problem("SYSTEM_ALTERED", f"the contract has no system {what} `{key}`", (f"{what}s", key))
        elif found[key] != expected[key]:
            yield Problem("SYSTEM_ALTERED", f"the system {what} `{key}` was altered", (f"{what}s", key))


def check_integrity(draft: WorkflowDraft) -> WorkflowDraft:
    """The nodes and edges of the envelope in the draft."""
    if draft.envelope is None or not draft.is_walkable:
        return draft
    nodes = {node_id: node for node_id, node in draft.nodes.items() if node_id in draft.envelope.nodes}
    problems = [*_differences("node", nodes, draft.envelope.nodes), *_check_edges(draft, draft.envelope)]
    return draft.noting(problems or _check_order(draft, draft.envelope))


def _check_edges(draft: WorkflowDraft, envelope: Envelope) -> Iterator[Problem]:
    """An envelope's edge is still there, or its slot leads from its source to its target and nowhere else."""
    present = {edge.id: edge for edge in draft.edges}
    slots = {(slot.entry, slot.exit): slot.id for slot in envelope.slots.values()}
    follows: dict[str, list[str]] = {}
    for edge in draft.edges:
        follows.setdefault(edge.source, []).append(edge.target)
    for edge in envelope.edges.values():
        if present.get(edge.id) == edge:
            continue
        slot_id = slots.get((edge.source, edge.target))
        inside = {node for node, owner in draft.slot_map.items() if owner == slot_id}
        ways = {target for node in inside for target in follows.get(node, ())} - inside
        if ways != {edge.target} or not inside & set(follows.get(edge.source, ())):
            yield Problem("SYSTEM_MISSING", f"the system edge `{edge.id}` is missing", ("edges", edge.id))


def _check_order(draft: WorkflowDraft, envelope: Envelope) -> Iterator[Problem]:
    rank = {node_id: number for number, node_id in enumerate(draft.order)}
    for edge in envelope.edges.values():
        if not edge.loop and rank[edge.source] >= rank[edge.target]:
            message = f"`{edge.target}` comes before `{edge.source}`"
            yield Problem("SYSTEM_REORDERED", message, ("edges", edge.id))
