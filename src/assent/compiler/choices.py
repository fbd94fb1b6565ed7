"""Outcomes and edges (D2): each outcome of a node is answered by exactly one edge, and each node is reached.

Finds dead ends, outcomes without an edge, labels that never come, edges that are never taken, unreachable nodes.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from assent.compiler.draft import WorkflowDraft
from assent.compiler.structure import reached, roots
from assent.model.graph import Edge, Node, NodeKind, Outcome
from assent.model.nodes import KINDS
from assent.model.patch import IN
from assent.model.problems import Problem


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


def check_choices(draft: WorkflowDraft) -> WorkflowDraft:
    if draft.torn:
        return draft.noting(
            problem for node, edges in _written(draft) for problem in _check_labels(draft, node, edges)
        )
    return draft.noting(problem for node, edges in _written(draft) for problem in _check(draft, node, edges))


def _written(draft: WorkflowDraft) -> Iterator[tuple[Node, list[Edge]]]:
    """Yield the nodes whose edges an author wrote: declared ones, and the ways into slots."""
    outgoing = draft.outgoing()
    for node in draft.nodes.values():
        if node.id in draft.declared or (node.kind is NodeKind.SLOT and node.name == IN):
            yield node, outgoing[node.id]


def _check(draft: WorkflowDraft, node: Node, edges: list[Edge]) -> Iterator[Problem]:
    if node.kind is NodeKind.END:
        for edge in edges:
            yield Problem(
                "END_WITH_EDGES", f"`{node.name}` is an end; nothing leaves it", draft.place(edge.id)
            )
        return
    if not edges:
        yield Problem("DEAD_END", f"nothing leads on from `{node.name}`", draft.place(node.id))
        return
    yield from _check_labels(draft, node, edges)
    yield from _check_answers(draft, node, edges)
    if node.kind is not NodeKind.PARALLEL_SPLIT:
        yield from _check_alternatives(draft, node, edges)


def _check_labels(draft: WorkflowDraft, node: Node, edges: list[Edge]) -> Iterator[Problem]:
    outcomes = outcomes_of(draft, node)
    if node.kind is NodeKind.END:
        return
    for edge in edges:
        is_own = outcomes.open and edge.label != Outcome.TIMEOUT
        if edge.label not in outcomes.possible and not is_own:
            known = ", ".join(sorted(outcomes.possible))
            message = f"`{node.name}` never ends with `{edge.label}`; it ends with: {known}"
            key = "event" if draft.flow is not None else "on"
            yield Problem("DANGLING_LABEL", message, (*draft.place(edge.id), key), _label_hint(edge.label))


def _label_hint(label: str) -> str | None:
    return "add `timeout: <duration>` to the step" if label == Outcome.TIMEOUT else None


def _check_answers(draft: WorkflowDraft, node: Node, edges: list[Edge]) -> Iterator[Problem]:
    for outcome in sorted(outcomes_of(draft, node).required):
        answers = [edge for edge in edges if edge.label == outcome]
        if not answers:
            message = f"`{node.name}` can end with `{outcome}`, and no edge answers that"
            yield Problem("UNMATCHED_OUTCOME", message, draft.place(node.id))
        elif not any(_always(edge, node) for edge in answers):
            message = f"when no condition holds at `{outcome}`, `{node.name}` leads nowhere"
            hint = "add an edge without a condition"
            yield Problem("NO_DEFAULT", message, draft.place(node.id), hint)


def _always(edge: Edge, node: Node) -> bool:
    return edge.condition is None and (edge.guard is None or KINDS[node.kind].by_people)


def _check_alternatives(draft: WorkflowDraft, node: Node, edges: list[Edge]) -> Iterator[Problem]:
    by_label: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        by_label[edge.label].append(edge)
    for label, family in by_label.items():
        plain = [edge for edge in family if edge.is_unconditional]
        if len(plain) > 1:
            message = f"`{node.name}` has {len(plain)} edges for `{label}` without a condition, and takes one"
            for edge in plain:
                hint = "use a parallel_split to take all of them"
                yield Problem("SEVERAL_UNCONDITIONAL", message, draft.place(edge.id), hint)
        elif plain:
            first = draft.called(plain[0].target)
            message = f"never asked: the edge from `{node.name}` to `{first}` comes first"
            for edge in family[family.index(plain[0]) + 1 :]:
                yield Problem("SHADOWED_EDGE", message, draft.place(edge.id), "give it a lower `priority`")


def check_reach(draft: WorkflowDraft) -> WorkflowDraft:
    if draft.torn:
        return draft
    return draft.noting([*_check_reached(draft), *_check_ending(draft)])


def _check_reached(draft: WorkflowDraft) -> Iterator[Problem]:
    """Yield the first nodes of every part that nothing leads to; what follows them is only a consequence."""
    outgoing, inbound = draft.outgoing(), draft.inbound()
    found = reached(roots(draft), lambda node: [edge.target for edge in outgoing[node]])
    lost = sorted(draft.nodes.keys() - found)
    first = [node for node in lost if not inbound[node]]
    for node_id in (*first, *lost):  # a circle has no first node, so then the lowest id stands for it
        if node_id not in found:
            yield Problem("UNREACHABLE", f"nothing leads to `{draft.called(node_id)}`", draft.place(node_id))
            found |= reached([node_id], lambda node: [edge.target for edge in outgoing[node]])


def _check_ending(draft: WorkflowDraft) -> Iterator[Problem]:
    """Yield the first nodes of every part that never ends; a dead end was noted before and explains the rest."""
    inbound, outgoing = draft.inbound(), draft.outgoing()
    ends = [node.id for node in draft.nodes.values() if node.kind is NodeKind.END or not outgoing[node.id]]
    ending = reached(ends, lambda node: [edge.source for edge in inbound[node]])
    for node in draft.nodes.values():
        if node.id not in ending:
            message = f"no end can be reached from `{node.name}`"
            yield Problem("CANNOT_END", message, draft.place(node.id))
