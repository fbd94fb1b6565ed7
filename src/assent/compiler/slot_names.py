"""Which slots a contract has, and what they are called.

- before a gate `slot:<state>_to_<transition>`, or `slot:<state>_to_approved` where it needs approval;
- on the way back from an amendment `slot:amendment_cycle`;
- after a gate that needs approval `slot:approved_to_<state>`.

A name that two slots would share gives way to the transition's name in both.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count

from assent.compiler.lifecycle import AMENDED, has_amendment, is_way_out, ways
from assent.model.contract import Contract

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
