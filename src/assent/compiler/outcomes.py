"""Which outcomes a node can end with, and which of them somebody must answer."""

from dataclasses import dataclass

from assent.compiler.draft import WorkflowDraft
from assent.compiler.edges import success_of
from assent.model.graph import Node, NodeKind, Outcome
from assent.model.nodes import Approval, Form, NodeDeclaration, WaitEvent, Webhook

PEOPLE = frozenset({NodeKind.APPROVAL, NodeKind.FORM, NodeKind.STATE})
"""Where a person moves the token: who lacks an edge's guard is refused, and nothing is stuck."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    possible: frozenset[str]
    required: frozenset[str]
    open: bool = False
    """Whether edges may name outcomes of their own."""


def outcomes_of(draft: WorkflowDraft, node: Node) -> Outcomes:
    declared = draft.declared.get(node.id)
    if declared is None:
        return Outcomes(frozenset({Outcome.COMPLETED}), frozenset({Outcome.COMPLETED}))
    own = _own(declared)
    possible = _given(declared) | own
    required = own
    if node.timeout_seconds is not None and not _decides_by_itself(declared):
        possible |= {Outcome.TIMEOUT}
        required |= frozenset() if _expires(draft) or _fails_in_time(declared) else {Outcome.TIMEOUT}
    is_open = node.kind in (NodeKind.FORM, NodeKind.STATE) and not own
    if is_open or node.kind is NodeKind.END:
        return Outcomes(possible, required, is_open)
    if node.kind is NodeKind.APPROVAL:
        required |= {Outcome.REJECTED}
    if node.kind is NodeKind.PARALLEL_JOIN:
        possible, required = _of_join(draft, node, possible, required)
    good = frozenset() if node.kind is NodeKind.FORM else {success_of(node.kind)}
    return Outcomes(possible, required | good)


def _of_join(
    draft: WorkflowDraft, node: Node, possible: frozenset[str], required: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    join = draft.joins.get(node.id)
    if join is None:  # not matched with its split, and complained about elsewhere
        return possible, required
    may_be_none = join.mode == "any" and join.may_be_none
    return (possible, required | {Outcome.NONE}) if may_be_none else (possible - {Outcome.NONE}, required)


def _own(declared: NodeDeclaration) -> frozenset[str]:
    return frozenset(declared.outcomes) if isinstance(declared, Approval | Form | WaitEvent) else frozenset()


def _given(declared: NodeDeclaration) -> frozenset[str]:
    # A webhook that nobody awaits is done when it is enqueued (D30); its errors come too late for an edge.
    if isinstance(declared, Webhook) and not declared.await_:
        return frozenset({Outcome.COMPLETED})
    if isinstance(declared, Form) and declared.outcomes:
        return frozenset()
    return declared.outcomes_given


def _decides_by_itself(declared: NodeDeclaration) -> bool:
    return isinstance(declared, Approval) and declared.default is not None


def _fails_in_time(declared: NodeDeclaration) -> bool:
    """A request whose time is over has failed, unless an edge says what else that means."""
    return isinstance(declared, Webhook) and declared.await_ == "result"


def _expires(draft: WorkflowDraft) -> bool:
    """Whether the whole flow says where to go when time is up."""
    return draft.flow is not None and draft.flow.on_timeout is not None
