"""From a flow to a draft: steps and states become nodes, transitions and timeouts become edges."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from assent.compiler.draft import WorkflowDraft, node_of, on_timeout
from assent.compiler.edges import PRIORITY_UNCONDITIONAL, Arrow, stem_of, written_edges
from assent.model.contract import Contract
from assent.model.flow import Flow
from assent.model.graph import FLOW, Edge, Node, NodeKind, Outcome
from assent.model.nodes import Join, NodeDeclaration
from assent.model.parse import NAME_PATTERN, shown
from assent.model.problems import Path, Problem, did_you_mean

START: Final = "sys:start"


def begin_flow(flow: Flow, contract: Contract | None) -> WorkflowDraft:
    declared, places, torn = _steps(flow)
    nodes = {name: node_of(step, name, name) for name, step in declared.items()}
    torn += _check_references(flow, declared, places)
    written = written_edges(_arrows(flow, declared, nodes, places), "", FLOW)
    start = (_start_edge(flow.start),) if flow.start in nodes else ()
    nodes[START] = Node(START, NodeKind.START, "start")
    return WorkflowDraft(
        flow=flow,
        contract=contract,
        nodes=nodes,
        edges=(*start, *written.edges),
        start=START,
        slot_map=dict.fromkeys(nodes, FLOW),
        declared=declared,
        conditions=written.conditions,
        places={START: ("start",), **places, **written.places},
        problems=(*_check_head(flow, contract), *torn, *written.problems),
        torn=bool(torn),
    )


def _check_head(flow: Flow, contract: Contract | None) -> Iterator[Problem]:
    if flow.on_timeout is not None and flow.timeout is None:
        message = "`on_timeout` says where to go, `timeout` must say when"
        yield Problem("MISSING_KEY", message, ("on_timeout",), hint="add `timeout: <duration>`")
    if contract is not None and contract.name != flow.entity:
        message = f"the contract is of `{contract.name}`, the flow names {flow.entity or 'no entity'}"
        yield Problem("BASE_MISMATCH", message, ("entity",))


def _start_edge(first: str) -> Edge:
    edge_id = stem_of(START, first, Outcome.COMPLETED, NodeKind.START)
    return Edge(edge_id, START, first, Outcome.COMPLETED.value, PRIORITY_UNCONDITIONAL, provenance=FLOW)


def _steps(flow: Flow) -> tuple[dict[str, NodeDeclaration], dict[str, Path], list[Problem]]:
    """Return steps and states by name, where each was written, and the names that cannot be."""
    declared: dict[str, NodeDeclaration] = {}
    places: dict[str, Path] = {}
    problems = []
    for step, path, at_name in _all_steps(flow):
        if not _is_name(step.id):
            message = f"{shown(step.id)} is not a name: lower-case ASCII letters, digits and _"
            problems.append(Problem("BAD_NAME", message, at_name))
        elif step.id in declared:
            problems.append(Problem("DUPLICATE_ID", f"another step is called `{step.id}`", at_name))
        else:
            declared[step.id] = step
            places[step.id] = path
    return declared, places, problems


def _all_steps(flow: Flow) -> Iterator[tuple[NodeDeclaration, Path, Path]]:
    for index, step in enumerate(flow.steps):
        yield step, ("steps", index), ("steps", index, "id")
    for name, state in flow.states.items():
        yield state.step(name), ("states", name), ("states", name)


def _is_name(text: str) -> bool:
    return re.fullmatch(NAME_PATTERN, text, re.ASCII) is not None


def _check_references(
    flow: Flow, declared: Mapping[str, NodeDeclaration], places: Mapping[str, Path]
) -> Iterator[Problem]:
    for name, path in _references(flow, declared, places):
        if name not in declared:
            message = f"{shown(name)} is not a step of this flow"
            yield Problem("UNKNOWN_NODE", message, path, did_you_mean(name, declared))


def _references(
    flow: Flow, declared: Mapping[str, NodeDeclaration], places: Mapping[str, Path]
) -> Iterator[tuple[str, Path]]:
    yield flow.start, ("start",)
    if flow.on_timeout is not None:
        yield flow.on_timeout, ("on_timeout",)
    for name, step in declared.items():
        if (target := on_timeout(step)) is not None:
            yield target, (*places[name], "on_timeout")
    for index, transition in enumerate(flow.transitions):
        yield transition.from_, ("transitions", index, "from")
        yield transition.to, ("transitions", index, "to")


def _arrows(
    flow: Flow,
    declared: Mapping[str, NodeDeclaration],
    nodes: Mapping[str, Node],
    places: Mapping[str, Path],
) -> Iterator[Arrow]:
    any_joins = {name for name, step in declared.items() if isinstance(step, Join) and step.mode == "any"}
    for index, transition in enumerate(flow.transitions):
        source, target = transition.from_, transition.to
        path: Path = ("transitions", index)
        if source in nodes and target in nodes:
            yield Arrow(
                source,
                target,
                (source, target),
                nodes[source].kind,
                path,
                label=transition.event,
                condition=transition.condition,
                condition_path=(*path, "condition"),
                guard=transition.guard,
                priority=transition.priority,
                qualifies=target in any_joins,
            )
    for name, step in declared.items():
        escape = on_timeout(step)
        if escape is not None and escape in nodes:
            path = (*places[name], "on_timeout")
            yield Arrow(name, escape, (name, escape), nodes[name].kind, path, label=Outcome.TIMEOUT)
