"""Approvals: where the contract requires one, every way through the slot holds one, or a node that waives it (D21).

An approval counts only when it is left by `approved`; its timeout is no approval. Branches of an
ALL join all complete, so one approved branch is enough there; of an ANY join each must be.

Separation of duties, what inboxes show and the amount that tiers go by are written once in the contract, for all
approvals; here each approval gets them, and each form what inboxes show. What is enough is an expression of the names
of groups, of AND and OR and nothing else.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from assent.compiler.draft import WorkflowDraft
from assent.compiler.expressions import as_written
from assent.compiler.namespace import proxy_id
from assent.compiler.structure import topological_order
from assent.language import OPEN, Expression, parse, render
from assent.language.syntax import And, Or, Variable, marked
from assent.language.syntax import Node as Syntax
from assent.model.contract import NUMBER_TYPES, Contract, FieldSpec, FieldType, SeparationSpec
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
    """Return the nodes that can be reached without an approval, each with an edge by which that happens."""
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
    """Return whether the node can be entered without an approval, given the edges that bring none."""
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


_DUTIES: Final = tuple(SeparationSpec.model_fields)


def complete_approvals(draft: WorkflowDraft) -> WorkflowDraft:
    """Return every approval and form with what it takes from contract and flow, and with canonical `enough`."""
    inbox = shown_in_inbox(draft.contract)
    shared = {"separation": relaxed(draft), "inbox": inbox}
    nodes = dict(draft.nodes)
    problems: list[Problem] = []
    for node in draft.nodes.values():
        if node.kind is NodeKind.APPROVAL:
            config, found = _completed(node, draft.contract)
            nodes[node.id] = replace(
                node, config=config | {key: said for key, said in shared.items() if said}
            )
            problems += (as_written(draft, node.id, problem) for problem in found)
        elif node.kind is NodeKind.FORM and inbox:
            nodes[node.id] = replace(node, config={**node.config, "inbox": inbox})
    return draft.noting(problems).evolve(nodes=nodes)


def relaxed(draft: WorkflowDraft) -> dict[str, str]:
    """Return the duties that may lie in one hand: as the flow says, else as the contract says, else none."""
    said = [owner.separation for owner in (draft.flow, draft.contract) if owner is not None]
    answers = {duty: _first(getattr(spec, duty) for spec in said) for duty in _DUTIES}
    return {duty: "allowed" for duty, answer in answers.items() if answer == "allowed"}


def _first(answers: Iterator[str | None]) -> str | None:
    return next((answer for answer in answers if answer is not None), None)


def shown_in_inbox(contract: Contract | None) -> dict[str, str]:
    """Return the fields that stand for an entity of the contract: its title and its figure, where it has such."""
    if contract is None:
        return {}
    said = contract.inbox.model_dump(exclude_none=True)
    return _fields_to_show(contract.fields) | said


def _fields_to_show(fields: Mapping[str, FieldSpec]) -> dict[str, str]:
    """By name, because the order in which fields were written does not survive storage."""
    texts = [name for name in sorted(fields) if fields[name].type is FieldType.TEXT]
    titles = sorted(texts, key=lambda name: not fields[name].required)
    numbers = [name for name in sorted(fields) if fields[name].type in NUMBER_TYPES]
    figures = sorted(numbers, key=lambda name: fields[name].type is not FieldType.MONEY)
    return {key: names[0] for key, names in (("title", titles), ("figure", figures)) if names}


def _completed(node: Node, contract: Contract | None) -> tuple[dict[str, Any], list[Problem]]:
    config = dict(node.config)
    problems: list[Problem] = []
    if len(config["tiers"]) > 1 and "amount" not in config:
        if figure := shown_in_inbox(contract).get("figure"):
            config["amount"] = f"entity.{figure}"
        else:
            problems.append(_no_amount())
    tiers = [_with_enough(tier) for tier in config["tiers"]]
    for index, (_, found) in enumerate(tiers):
        problems += (problem.under("tiers", index) for problem in found)
    return config | {"tiers": [tier for tier, _ in tiers]}, problems


def _no_amount() -> Problem:
    hint = "add `amount: <expression>`"
    return Problem("MISSING_KEY", "tiers go by an amount, and no contract has a figure", ("amount",), hint)


def _with_enough(tier: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    names = [group["name"] for group in tier["groups"]]
    problems = list(_check_names(names))
    if "enough" not in tier:
        return dict(tier), problems
    expression, unread = parse(tier["enough"])
    if expression is None:
        return dict(tier), problems + [problem.under("enough") for problem in unread]
    problems += (problem.under("enough") for problem in _check_enough(expression, names))
    return {**tier, "enough": render(expression)}, problems


def _check_names(names: Sequence[str]) -> Iterator[Problem]:
    for index, name in enumerate(names):
        expression, _ = parse(name)
        if expression is None or expression.root != Variable((name,)) or name in OPEN.roots:
            message = f"`{name}` means something else in expressions; choose another name"
            yield Problem("RESERVED_NAME", message, ("groups", index))


def _check_enough(expression: Expression, names: Sequence[str]) -> Iterator[Problem]:
    said: set[str] = set()
    for part in _leaves(expression.root):
        if not isinstance(part, Variable):
            message = "only names of groups, && and || say what is enough"
            yield marked("NOT_OF_GROUPS", message, expression.text, part.span)
        elif (name := ".".join(part.path)) not in names:
            message = f"`{name}` is not one of the groups: {', '.join(names)}"
            yield marked("UNKNOWN_GROUP", message, expression.text, part.span)
        else:
            said.add(name)
    for name in names:
        if name not in said:
            yield Problem("UNUSED_GROUP", f"the group `{name}` is not named; it would be asked for nothing")


def _leaves(node: Syntax) -> Iterator[Syntax]:
    """Yield what AND and OR join."""
    if isinstance(node, And | Or):
        for part in node.parts:
            yield from _leaves(part)
    else:
        yield node
