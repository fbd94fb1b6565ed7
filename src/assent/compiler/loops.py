"""Loops (D3): a patch has none; a flow has them where a node waits for a person, a time or an event.

The loop edges of an envelope are marked when it is generated, those of a flow here. The other edges have an order.
"""

from collections.abc import Iterator
from typing import Final

from assent.compiler.draft import WorkflowDraft
from assent.compiler.walk import back_edges, path_between
from assent.model.graph import Edge, Node
from assent.model.nodes import KINDS
from assent.model.problems import Problem

CIRCLES_SHOWN_MAX: Final = 20
"""How many circles are reported: each takes a walk through the graph."""


def refuse_circles(draft: WorkflowDraft) -> WorkflowDraft:
    """No patch may close a circle."""
    outgoing = {node: [e for e in edges if not e.loop] for node, edges in draft.outgoing().items()}
    closing = back_edges(sorted(draft.nodes), outgoing)[:CIRCLES_SHOWN_MAX]
    problems = [_circle(draft, edge, outgoing, "CYCLE", "patches do not loop") for edge in closing]
    return draft.noting(problems).evolve(knotted=bool(problems))


def mark_loops(draft: WorkflowDraft) -> WorkflowDraft:
    """Marks a flow's loop edges; a circle that waits for nothing is a problem."""
    outgoing = draft.outgoing()
    loops = {edge.id for edge in back_edges((draft.start, *sorted(draft.nodes)), outgoing)}
    edges = tuple(edge.evolve(loop=edge.id in loops) for edge in draft.edges)
    return draft.noting(_check_waits(draft, outgoing)).evolve(edges=edges)


def _check_waits(draft: WorkflowDraft, outgoing: dict[str, list[Edge]]) -> Iterator[Problem]:
    busy = {node.id for node in draft.nodes.values() if not _waits(node)}
    spinning = {node: [e for e in outgoing[node] if e.target in busy] for node in sorted(busy)}
    for edge in back_edges(list(spinning), spinning)[:CIRCLES_SHOWN_MAX]:
        yield _circle(draft, edge, spinning, "ENDLESS_LOOP", "nothing in it waits for anybody")


def _waits(node: Node) -> bool:
    """Return whether a circle may pass here. Awaited effects and tasks do not count (D30): a circle of them spins."""
    return KINDS[node.kind].waits or KINDS[node.kind].by_people


def _circle(
    draft: WorkflowDraft, edge: Edge, outgoing: dict[str, list[Edge]], code: str, why: str
) -> Problem:
    way = [*path_between(edge.target, edge.source, outgoing), edge.target]
    shown = " → ".join(draft.called(node) for node in way[:12]) + (" → …" if len(way) > 12 else "")
    return Problem(code, f"this edge closes a circle, {shown}: {why}", draft.place(edge.id))
