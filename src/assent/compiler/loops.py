"""D3: where a workflow may go round. Patches never do; flows do where something waits for somebody.

An envelope's loop edges are marked when it is generated, a flow's here. Whatever remains has an order.
"""

from collections.abc import Iterator
from typing import Final

from assent.compiler.draft import WorkflowDraft
from assent.compiler.walk import back_edges, path_between
from assent.model.graph import Edge, NodeKind
from assent.model.problems import Problem

WAITING: Final = frozenset(
    {
        NodeKind.APPROVAL,
        NodeKind.FORM,
        NodeKind.STATE,
        NodeKind.WAIT_EVENT,
        NodeKind.WAIT_TIMER,
        NodeKind.REQUIREMENTS,
    }
)
"""Awaited effects and tasks are not among them (D30): they end by themselves, so a circle of them spins."""

CIRCLES_SHOWN_MAX: Final = 20
"""Each takes a walk to describe; who has more of them begins with these."""


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
    busy = {node.id for node in draft.nodes.values() if node.kind not in WAITING}
    spinning = {node: [e for e in outgoing[node] if e.target in busy] for node in sorted(busy)}
    for edge in back_edges(list(spinning), spinning)[:CIRCLES_SHOWN_MAX]:
        yield _circle(draft, edge, spinning, "ENDLESS_LOOP", "nothing in it waits for anybody")


def _circle(
    draft: WorkflowDraft, edge: Edge, outgoing: dict[str, list[Edge]], code: str, why: str
) -> Problem:
    way = [*path_between(edge.target, edge.source, outgoing), edge.target]
    shown = " → ".join(draft.called(node) for node in way[:12]) + (" → …" if len(way) > 12 else "")
    return Problem(code, f"this edge closes a circle, {shown}: {why}", draft.place(edge.id))
