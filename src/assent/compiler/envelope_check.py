"""What keeps a sound contract from having an envelope: states out of reach, circles without rest."""

from collections.abc import Iterator
from typing import Final

from assent.compiler.lifecycle import (
    AMENDED,
    PREFIX,
    automatic,
    ending_states,
    has_amendment,
    is_final,
    reachable_states,
    resting_states,
    slot_ids,
)
from assent.model.contract import Contract
from assent.model.graph import Outcome
from assent.model.parse import listed
from assent.model.problems import Path, Problem

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


def _check_slots(contract: Contract) -> Iterator[Problem]:
    derived = slot_ids(contract)
    taken: set[str] = set(derived) - set(contract.slots)
    for slot_id, said in contract.slots.items():
        if slot_id not in derived:
            message = f"`{slot_id}` is not one of the slots: {listed(sorted(derived))}"
            yield Problem("UNKNOWN_SLOT", message, ("slots", slot_id))
        name = PREFIX + said.name if said.name else slot_id
        if name in taken:
            yield Problem("DUPLICATE", f"two slots are called `{name}`", ("slots", slot_id, "name"))
        taken.add(name)
