"""The lifecycle of a contract, and the names of its slots. Nothing here makes nodes or edges."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import chain, count
from typing import Final

from assent.model.contract import Contract, EditWindow, Lifecycle, TransitionSpec

AMENDED: Final = "amended"
"""The state of an entity that was edited where it should have rested."""
AMEND: Final = "amend"
"""The transition into it; reserved, so that no contract declares it."""


def ways(lifecycle: Lifecycle) -> Iterator[tuple[str, str, TransitionSpec]]:
    """Yield every (state, transition) by which a state can be left, in canonical order."""
    for name, transition in sorted(lifecycle.transitions.items()):
        for state in sorted(set(transition.from_)):
            yield state, name, transition


def leaving(lifecycle: Lifecycle, state: str) -> list[str]:
    return list(lifecycle.leaving.get(state, ()))


def is_way_out(lifecycle: Lifecycle, transition: TransitionSpec) -> bool:
    """Return whether a transition gives up (cancel, void): from several states into one that nothing leaves."""
    return (
        transition.approval == "none"
        and len(set(transition.from_)) > 1
        and not leaving(lifecycle, transition.to)
    )


def automatic(contract: Contract, state: str) -> list[str]:
    """Return the transitions on which a workflow sets out on reaching `state`; more than one is a mistake."""
    transitions = contract.lifecycle.transitions
    names = leaving(contract.lifecycle, state)
    declared = [name for name in names if transitions[name].auto]
    if declared or contract.window(state) is EditWindow.EDITABLE:
        return declared
    asking = [name for name in names if transitions[name].approval == "required"]
    return asking if len(asking) == 1 and transitions[asking[0]].auto is None else []


def is_final(contract: Contract, state: str) -> bool:
    """Return whether a workflow ends in `state`."""
    declared = contract.lifecycle.states[state].final
    if declared is not None:
        return declared
    if automatic(contract, state):
        return False
    return contract.window(state) is EditWindow.LOCKED or not leaving(contract.lifecycle, state)


def resting_states(contract: Contract) -> list[str]:
    """Return the states whose edits are amendments."""
    return sorted(
        state for state in contract.lifecycle.states if contract.window(state) is EditWindow.AMEND_ONLY
    )


def has_amendment(contract: Contract) -> bool:
    return (
        contract.on_drift == "amend"
        and AMENDED in contract.lifecycle.states
        and bool(resting_states(contract))
    )


def successors(contract: Contract, state: str) -> set[str]:
    """Return the states that one step of the lifecycle leads to, rejections and amendments included."""
    transitions = contract.lifecycle.transitions
    leaves = [transitions[name] for name in leaving(contract.lifecycle, state)]
    found = {transition.to for transition in leaves}
    found |= {transition.on_reject for transition in leaves if transition.on_reject is not None}
    return (
        found | {AMENDED}
        if has_amendment(contract) and contract.window(state) is EditWindow.AMEND_ONLY
        else found
    )


def reachable_states(contract: Contract) -> Set[str]:
    return _closure([contract.lifecycle.initial], lambda state: successors(contract, state))


def ending_states(contract: Contract) -> Set[str]:
    """Return the states from which an end can be reached."""
    before: dict[str, list[str]] = {}
    for state in contract.lifecycle.states:
        for after in successors(contract, state):
            before.setdefault(after, []).append(state)
    ends = [state for state in contract.lifecycle.states if is_final(contract, state)]
    return _closure(ends, lambda state: before.get(state, ()))


def _closure(first: Iterable[str], step: Callable[[str], Iterable[str]]) -> Set[str]:
    """Return the states that any number of steps leads to, the first ones included."""
    found: set[str] = set()
    waiting = list(first)
    while waiting:
        state = waiting.pop()
        if state not in found:
            found.add(state)
            waiting.extend(step(state))
    return found


PREFIX = "slot:"


@dataclass(frozen=True, slots=True)
class Gap:
    """A place where there could be a slot: before or after the gate of a transition."""

    state: str
    transition: str
    after_gate: bool
    name: str
    fallback: str
    enabled: bool
    """Whether there is a slot when the contract does not say."""


def slot_ids(contract: Contract) -> dict[str, Gap]:
    """Derived slot id → the gap; the same contract gives the same names."""
    gaps = sorted(_gaps(contract), key=lambda gap: not gap.enabled)
    uses = Counter(gap.name for gap in gaps)
    uses_enabled = Counter(gap.name for gap in gaps if gap.enabled)
    named: dict[str, Gap] = {}
    for gap in gaps:
        rivals = (uses_enabled if gap.enabled else uses)[gap.name]
        named[_free(PREFIX + (gap.name if rivals == 1 else gap.fallback), named)] = gap
    return named


def _gaps(contract: Contract) -> Iterator[Gap]:
    transitions = sorted(contract.lifecycle.transitions.items())
    for state, name, transition in ways(contract.lifecycle):
        way_out = is_way_out(contract.lifecycle, transition)
        yield Gap(state, name, False, _before(contract, state, name), f"{state}_to_{name}", not way_out)
    for name, transition in transitions:
        approved = transition.approval == "required"
        before = "approved" if approved else name
        yield Gap(
            transition.to, name, True, f"{before}_to_{transition.to}", f"{name}_to_{transition.to}", approved
        )


def _before(contract: Contract, state: str, name: str) -> str:
    transition = contract.lifecycle.transitions[name]
    if state == AMENDED and has_amendment(contract) and not is_way_out(contract.lifecycle, transition):
        return "amendment_cycle"
    return f"{state}_to_{'approved' if transition.approval == 'required' else name}"


def _free(name: str, taken: dict[str, Gap]) -> str:
    # Two fallbacks can still meet (`a` by `b_to_c`, `a_to_b` by `c`); gaps have an order, so a number does.
    numbered = (f"{name}_{number}" for number in count(2))
    return next(candidate for candidate in chain([name], numbered) if candidate not in taken)
