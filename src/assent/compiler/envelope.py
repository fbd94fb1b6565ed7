"""From a contract to its envelope: `sys:*` nodes and edges, slots, and the loop edges among them.

The nodes are the lifecycle's: a state that rests, a gate that makes a transition, a start and an end. A state
is left by an edge labelled with the transition's name (a command), or by `completed` where the workflow sets
out by itself or ends. First comes what keeps a sound contract from having an envelope: states out of reach, circles
without rest.

WF-08: the envelope is whole. Every system node and edge is there, as the contract generates it, in order. That is asked
first of the envelope itself, which may come from a database that was changed by hand, then of the result.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

from assent.compiler.draft import WorkflowDraft
from assent.compiler.edges import default_priority, stem_of
from assent.compiler.lifecycle import (
    AMEND,
    AMENDED,
    PREFIX,
    Gap,
    automatic,
    ending_states,
    has_amendment,
    is_final,
    reachable_states,
    resting_states,
    slot_ids,
    ways,
)
from assent.language import default_scope, prepare_template
from assent.model.contract import Contract, EditWindow, TransitionSpec, check_contract, strictest
from assent.model.graph import Edge, Envelope, Node, NodeKind, Outcome, Slot
from assent.model.parse import listed
from assent.model.problems import Invalid, Path, Problem, did_you_mean
from assent.model.values import check_value

STATES: Final[Path] = ("lifecycle", "states")
TRANSITIONS: Final[Path] = ("lifecycle", "transitions")


def check_envelope(contract: Contract) -> Iterator[Problem]:
    if contract.workflow == "none":
        yield Problem("NO_ENVELOPE", "this contract runs without a workflow", ("workflow",))
        return
    yield from _check_names(contract)
    yield from _check_amendment(contract)
    yield from _check_automatic(contract)
    yield from _check_ways(contract)
    yield from _check_slots(contract)
    yield from check_defaults(contract)


def _check_names(contract: Contract) -> Iterator[Problem]:
    for name in contract.lifecycle.transitions:
        if name in set(Outcome):
            yield Problem("RESERVED_NAME", f"`{name}` is an outcome of steps", (*TRANSITIONS, name))


def _check_amendment(contract: Contract) -> Iterator[Problem]:
    resting = resting_states(contract)
    if contract.on_drift == "amend" and resting and not has_amendment(contract):
        yield Problem(
            "MISSING_STATE",
            f"an edit in state `{resting[0]}` leads to state `{AMENDED}`, which is not there",
            ("on_drift",),
            hint=f"declare a state `{AMENDED}`, or say `on_drift: fail`",
        )


def _check_automatic(contract: Contract) -> Iterator[Problem]:
    for state in contract.lifecycle.states:
        names = automatic(contract, state)
        for name in names[1:]:
            message = (
                f"state `{state}` sets out on `{names[0]}` already; only one transition can be automatic"
            )
            yield Problem("AMBIGUOUS_AUTO", message, (*TRANSITIONS, name, "auto"))
        if names and is_final(contract, state):
            message = f"a workflow cannot end in `{state}` and set out on `{names[0]}` from there"
            yield Problem("FINAL_AND_AUTO", message, (*STATES, state, "final"))
        for name in names:
            if contract.lifecycle.transitions[name].on_reject is None:
                message = f"`{name}` sets out by itself, so a rejection would ask again at once"
                yield Problem(
                    "MISSING_REJECTION", message, (*TRANSITIONS, name), hint="add `on_reject: <state>`"
                )
    yield from _check_endless(contract)


def _check_endless(contract: Contract) -> Iterator[Problem]:
    """Refuse automatic transitions that run in a circle."""
    transitions = contract.lifecycle.transitions
    follows = {
        state: names[0]
        for state in contract.lifecycle.states
        if (names := automatic(contract, state)) and transitions[names[0]].approval == "none"
    }
    for first in sorted(follows):
        seen, state = [], first
        while state in follows and state not in seen:
            seen.append(state)
            state = transitions[follows[state]].to
        if state == first and first == min(seen):
            message = f"states {listed(seen)} follow each other by themselves for ever"
            yield Problem("ENDLESS_LOOP", message, (*TRANSITIONS, follows[first], "auto"))


def _check_ways(contract: Contract) -> Iterator[Problem]:
    reachable, ending = reachable_states(contract), ending_states(contract)
    for state in contract.lifecycle.states:
        if state not in reachable:
            message = f"nothing leads from `{contract.lifecycle.initial}` to state `{state}`"
            yield Problem("UNREACHABLE", message, (*STATES, state))
        elif state not in ending:
            message = f"no end can be reached from state `{state}`"
            yield Problem("CANNOT_END", message, (*STATES, state), hint="mark a state `final: true`")


def check_defaults(contract: Contract) -> Iterator[Problem]:
    """Yield what is wrong with the defaults of fields: values against their field, texts in braces as expressions."""
    scope = default_scope(contract)
    for name, spec in contract.fields.items():
        path = ("fields", name, "default")
        if isinstance(spec.default, str) and "{" in spec.default:
            _, problems = prepare_template(spec.default, scope)
            yield from (problem.under(*path) for problem in problems)
        elif spec.default is not None:
            yield from check_value(spec, spec.default, path)[1]


def _check_slots(contract: Contract) -> Iterator[Problem]:
    derived = slot_ids(contract)
    taken: set[str] = set(derived) - set(contract.slots)
    for slot_id, said in contract.slots.items():
        if slot_id not in derived:
            message = f"`{slot_id}` is not one of the slots: {listed(sorted(derived))}"
            yield Problem("UNKNOWN_SLOT", message, ("slots", slot_id), did_you_mean(slot_id, derived))
        name = PREFIX + said.name if said.name else slot_id
        if name in taken:
            yield Problem("DUPLICATE", f"two slots are called `{name}`", ("slots", slot_id, "name"))
        taken.add(name)


START, END = "sys:start", "sys:end"


def state_id(state: str) -> str:
    return f"sys:state:{state}"


def gate_id(transition: str) -> str:
    return f"sys:gate:{transition}"


def generate_envelope(contract: Contract) -> Envelope:
    """Return the envelope of a contract; raise `Invalid` with every problem where it can have none."""
    envelope, problems = envelope_of(contract)
    if envelope is None:
        raise Invalid(problems)
    return envelope


def envelope_of(contract: Contract) -> tuple[Envelope | None, tuple[Problem, ...]]:
    """Return the envelope of a contract, or every problem that keeps it from having one."""
    problems = tuple(check_contract(contract)) or tuple(check_envelope(contract))
    return (None, problems) if problems else (_generate(contract), ())


def _generate(contract: Contract) -> Envelope:
    nodes = {node.id: node for node in sorted(_nodes(contract), key=lambda node: node.id)}
    slots = {slot.id: slot for slot in sorted(_slots(contract), key=lambda slot: slot.id)}
    entered = {slot.exit for slot in slots.values() if slot.ends_in_gate}
    edges = with_loops(sorted(_edges(contract, entered), key=lambda edge: edge.id))
    amendment = gate_id(AMEND) if has_amendment(contract) else None
    return Envelope(contract, nodes, {edge.id: edge for edge in edges}, slots, amendment)


def _nodes(contract: Contract) -> Iterator[Node]:
    yield Node(START, NodeKind.START, "start")
    yield Node(END, NodeKind.END, "end")
    for name, state in contract.lifecycle.states.items():
        config = {"state": name, "final": is_final(contract, name)}
        yield Node(state_id(name), NodeKind.STATE, name, state.label, config)
    for name, transition in contract.lifecycle.transitions.items():
        yield _gate(
            name, transition.from_, transition.to, transition.approval == "required", transition.label
        )
    if has_amendment(contract):
        yield _gate(AMEND, resting_states(contract), AMENDED, False, None)


def _gate(name: str, sources: Sequence[str], target: str, approval: bool, label: str | None) -> Node:
    config = {"transition": name, "from": sorted(set(sources)), "to": target, "approval": approval}
    return Node(gate_id(name), NodeKind.LIFECYCLE_GATE, name, label, config)


def _edges(contract: Contract, gates_with_slot: Set[str]) -> Iterator[Edge]:
    yield _edge(START, state_id(contract.lifecycle.initial))
    for state in contract.lifecycle.states:
        if is_final(contract, state):
            yield _edge(state_id(state), END)
    for state, name, _ in ways(contract.lifecycle):
        label = Outcome.COMPLETED if name in automatic(contract, state) else name
        yield _edge(state_id(state), gate_id(name), label)
    for name, transition in contract.lifecycle.transitions.items():
        yield _edge(gate_id(name), state_id(transition.to))
        if transition.on_reject is not None or gate_id(name) in gates_with_slot:
            yield from _rejections(name, transition)
    if has_amendment(contract):
        yield _edge(gate_id(AMEND), state_id(AMENDED))
        for state in resting_states(contract):
            yield _edge(state_id(state), gate_id(AMEND), Outcome.DRIFT)


def _rejections(name: str, transition: TransitionSpec) -> Iterator[Edge]:
    """Yield where a gate goes with a rejection: where the contract says, else back to where the token came from."""
    sources = [transition.on_reject] if transition.on_reject else sorted(set(transition.from_))
    for state in sources[:-1]:
        yield _edge(gate_id(name), state_id(state), Outcome.REJECTED, condition=f"entity.state == '{state}'")
    yield _edge(gate_id(name), state_id(sources[-1]), Outcome.REJECTED)


def _edge(source: str, target: str, label: str = Outcome.COMPLETED, condition: str | None = None) -> Edge:
    priority = default_priority(conditional=condition is not None)
    edge_id = stem_of(source, target, label, NodeKind.STATE)
    return Edge(edge_id, source, target, str(label), priority, condition)


def _slots(contract: Contract) -> Iterator[Slot]:
    for derived, gap in slot_ids(contract).items():
        said = contract.slots.get(derived)
        enabled = gap.enabled if said is None else said.enabled
        if not enabled and not _asks(contract, gap):
            continue
        slot_id = PREFIX + said.name if said is not None and said.name else derived
        yield _slot(contract, slot_id, gap, enabled)


def _asks(contract: Contract, gap: Gap) -> bool:
    return not gap.after_gate and contract.lifecycle.transitions[gap.transition].approval == "required"


def _slot(contract: Contract, slot_id: str, gap: Gap, enabled: bool) -> Slot:
    state, gate, window = state_id(gap.state), gate_id(gap.transition), contract.window(gap.state)
    return Slot(
        id=slot_id,
        entry=gate if gap.after_gate else state,
        exit=state if gap.after_gate else gate,
        window=window,
        stable=not gap.after_gate and window is EditWindow.AMEND_ONLY,
        ends_in_gate=not gap.after_gate,
        needs_approval=_asks(contract, gap),
        enabled=enabled,
    )


def gate_window(contract: Contract, sources: list[str], target: str) -> EditWindow:
    """Return the edit window of a gate: as strict as the states before it; into a resting state it rests already."""
    windows = [contract.window(state) for state in sources]
    if contract.window(target) is EditWindow.AMEND_ONLY:
        windows.append(EditWindow.AMEND_ONLY)
    return strictest(windows)


_GATE: Final = "sys:gate:"
_AMENDMENT: Final = "sys:gate:amend"


def with_loops(edges: Sequence[Edge]) -> list[Edge]:
    depth = _depths(edges)
    follows: dict[str, set[str]] = {}
    loops = set()
    for edge in sorted(edges, key=lambda edge: (*_rank(edge), depth.get(edge.source, 0), edge.id)):
        if edge.source.startswith(_GATE) and _leads(follows, edge.target, edge.source):
            loops.add(edge.id)
        else:
            follows.setdefault(edge.source, set()).add(edge.target)
    return [replace(edge, loop=edge.id in loops) for edge in edges]


def _rank(edge: Edge) -> tuple[bool, bool]:
    leaves_gate = edge.source.startswith(_GATE)
    goes_back = leaves_gate and (edge.label == Outcome.REJECTED or edge.source == _AMENDMENT)
    return leaves_gate, goes_back


def _depths(edges: Sequence[Edge]) -> dict[str, int]:
    depth: dict[str, int] = {}
    layer, distance = {"sys:start"}, 0
    while layer:
        depth |= dict.fromkeys(layer, distance)
        layer = {edge.target for edge in edges if edge.source in layer} - depth.keys()
        distance += 1
    return depth


def _leads(follows: dict[str, set[str]], source: str, target: str) -> bool:
    seen, waiting = set(), [source]
    while waiting:
        node = waiting.pop()
        if node == target:
            return True
        if node not in seen:
            seen.add(node)
            waiting.extend(follows.get(node, ()))
    return False


def check_generated(envelope: Envelope) -> Iterator[Problem]:
    """Yield what differs from the envelope that its own contract generates."""
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
    """Check that a draft still has the nodes and edges of its envelope."""
    if draft.envelope is None or not draft.is_walkable:
        return draft
    nodes = {node_id: node for node_id, node in draft.nodes.items() if node_id in draft.envelope.nodes}
    problems = [*_differences("node", nodes, draft.envelope.nodes), *_check_edges(draft, draft.envelope)]
    return draft.noting(problems or _check_order(draft, draft.envelope))


def _check_edges(draft: WorkflowDraft, envelope: Envelope) -> Iterator[Problem]:
    """Yield an envelope's edge is still there, or its slot leads from its source to its target and nowhere else."""
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
