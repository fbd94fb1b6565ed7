"""Every node is reached from the start, and reaches an end."""

from collections.abc import Iterator

from assent.compiler.blocks import roots
from assent.compiler.draft import WorkflowDraft
from assent.compiler.walk import reached
from assent.model.graph import NodeKind
from assent.model.problems import Problem


def check_reach(draft: WorkflowDraft) -> WorkflowDraft:
    if draft.torn:
        return draft
    return draft.noting([*_check_reached(draft), *_check_ending(draft)])


def _check_reached(draft: WorkflowDraft) -> Iterator[Problem]:
    """The first nodes of every part that nothing leads to; what follows them is only a consequence."""
    outgoing, inbound = draft.outgoing(), draft.inbound()
    found = reached(roots(draft), lambda node: [edge.target for edge in outgoing[node]])
    lost = sorted(draft.nodes.keys() - found)
    first = [node for node in lost if not inbound[node]]
    for node_id in (*first, *lost):  # a circle has no first node, so then the lowest id stands for it
        if node_id not in found:
            yield Problem("UNREACHABLE", f"nothing leads to `{draft.called(node_id)}`", draft.place(node_id))
            found |= reached([node_id], lambda node: [edge.target for edge in outgoing[node]])


def _check_ending(draft: WorkflowDraft) -> Iterator[Problem]:
    """The first nodes of every part that never ends; a dead end was noted before and explains the rest."""
    inbound, outgoing = draft.inbound(), draft.outgoing()
    ends = [node.id for node in draft.nodes.values() if node.kind is NodeKind.END or not outgoing[node.id]]
    ending = reached(ends, lambda node: [edge.source for edge in inbound[node]])
    for node in draft.nodes.values():
        if node.id not in ending:
            message = f"no end can be reached from `{node.name}`"
            yield Problem("CANNOT_END", message, draft.place(node.id))
