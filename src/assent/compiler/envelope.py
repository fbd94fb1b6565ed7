"""From a contract to its envelope: `sys:*` nodes and edges, slots, and the loop edges among them.

The nodes are the lifecycle's: a state that rests, a gate that makes a transition, a start and an end. A state
is left by an edge labelled with the transition's name (a command), or by `completed` where the workflow sets
out by itself or ends.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Final

from assent.compiler.edges import default_priority, stem_of
from assent.compiler.envelope_check import check_envelope
from assent.compiler.lifecycle import (
    AMEND,
    AMENDED,
    PREFIX,
    Gap,
    automatic,
    has_amendment,
    is_final,
    resting_states,
    slot_ids,
    ways,
)
from assent.model.contract import Contract, EditWindow, TransitionSpec, check_contract, strictest
from assent.model.envelope import Envelope
from assent.model.graph import Edge, Node, NodeKind, Outcome, Slot
from assent.model.problems import Invalid, Problem

START, END = "sys:start", "sys:end"


def state_id(state: str) -> str:
    return f"sys:state:{state}"


def gate_id(transition: str) -> str:
    return f"sys:gate:{transition}"


def generate_envelope(contract: Contract) -> Envelope:
    """The envelope of a contract; raises `Invalid` with every problem where it can have none."""
    envelope, problems = envelope_of(contract)
    if envelope is None:
        raise Invalid(problems)
    return envelope


def envelope_of(contract: Contract) -> tuple[Envelope | None, tuple[Problem, ...]]:
    """The envelope of a contract, or every problem that keeps it from having one."""
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
    """Where a gate goes with a rejection: where the contract says, else back to where the token came from."""
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
    """A gate is as strict as the states before it; into a resting state it rests already."""
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
