"""The outcomes that a node can end with, and those that an edge must answer."""

from dataclasses import dataclass

from assent.compiler.draft import WorkflowDraft
from assent.model.graph import Node, NodeKind, Outcome


@dataclass(frozen=True, slots=True)
class Outcomes:
    possible: frozenset[str]
    required: frozenset[str]
    open: bool = False
    """Whether edges may name outcomes of their own."""


def outcomes_of(draft: WorkflowDraft, node: Node) -> Outcomes:
    """Return the outcomes of a node: the facts of its kind, and what its author declared."""
    declared = draft.declared.get(node.id)
    if declared is None:
        return Outcomes(frozenset({Outcome.COMPLETED}), frozenset({Outcome.COMPLETED}))
    own = declared.own_outcomes
    possible, required = declared.given_outcomes | own, own
    if node.timeout_seconds is not None and declared.may_time_out:
        possible |= {Outcome.TIMEOUT}
        required |= {Outcome.TIMEOUT} if declared.must_answer_timeout and not _expires(draft) else frozenset()
    if declared.outcomes_open and not own:
        return Outcomes(possible, required, open=True)
    if node.kind is NodeKind.PARALLEL_JOIN:
        possible, required = _of_join(draft, node, possible, required)
    return Outcomes(possible, required | declared.outcomes_required)


def _of_join(
    draft: WorkflowDraft, node: Node, possible: frozenset[str], required: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    join = draft.joins.get(node.id)
    if join is None:  # not matched with its split, and complained about elsewhere
        return possible, required
    may_be_none = join.mode == "any" and join.may_be_none
    return (possible, required | {Outcome.NONE}) if may_be_none else (possible - {Outcome.NONE}, required)


def _expires(draft: WorkflowDraft) -> bool:
    """Return whether the flow itself says where to go when the time is over."""
    return draft.flow is not None and draft.flow.on_timeout is not None
