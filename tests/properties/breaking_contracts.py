"""Ways to break a contract that has an envelope, and the envelope itself."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

from assent.model.graph import Envelope
from tests.properties.breaking import Broken
from tests.properties.choosing import Chooser, pick


def lead_to_a_ghost(chooser: Chooser, contract: dict[str, Any]) -> Broken:
    name = pick(chooser, sorted(contract["lifecycle"]["transitions"]))
    contract["lifecycle"]["transitions"][name]["to"] = "ghost"
    return Broken(contract, {"UNKNOWN_STATE"}, ("lifecycle", "transitions", name, "to"))


def begin_with_a_ghost(chooser: Chooser, contract: dict[str, Any]) -> Broken:
    contract["lifecycle"]["initial"] = "ghost"
    return Broken(contract, {"UNKNOWN_STATE"}, ("lifecycle", "initial"))


def mistype_a_window(chooser: Chooser, contract: dict[str, Any]) -> Broken:
    name = pick(chooser, sorted(contract["lifecycle"]["states"]))
    contract["lifecycle"]["states"][name]["edit"] = "open"
    return Broken(contract, {"BAD_VALUE"}, ("lifecycle", "states", name, "edit"))


def lose_a_state(chooser: Chooser, contract: dict[str, Any]) -> Broken:
    contract["lifecycle"]["states"]["lost"] = {"edit": "locked"}
    return Broken(contract, {"UNREACHABLE"}, ("lifecycle", "states", "lost"))


def never_end(chooser: Chooser, contract: dict[str, Any]) -> Broken:
    """Nothing that was final is, and what rests rests for ever."""
    for state in contract["lifecycle"]["states"].values():
        state["final"] = False
    return Broken(contract, {"CANNOT_END"}, ("lifecycle", "states"))


def take_an_outcome_s_name(chooser: Chooser, contract: dict[str, Any]) -> Broken:
    transitions = contract["lifecycle"]["transitions"]
    name = pick(chooser, ("rejected", "completed", "drift", "timeout"))
    transitions[name] = transitions.pop("t0")
    return Broken(contract, {"RESERVED_NAME"}, ("lifecycle", "transitions", name))


def take_a_verb_s_name(chooser: Chooser, contract: dict[str, Any]) -> Broken:
    transitions = contract["lifecycle"]["transitions"]
    transitions["amend"] = transitions.pop("t0")
    return Broken(contract, {"RESERVED_NAME"}, ("lifecycle", "transitions", "amend"))


def change_a_slot_that_is_not_there(chooser: Chooser, contract: dict[str, Any]) -> Broken:
    contract["slots"] = {"slot:ghost": {"enabled": False}}
    return Broken(contract, {"UNKNOWN_SLOT"}, ("slots", "slot:ghost"))


def mistype_a_field(chooser: Chooser, contract: dict[str, Any]) -> Broken:
    name = pick(chooser, sorted(contract["fields"]))
    contract["fields"][name]["type"] = "colour"
    return Broken(contract, {"BAD_VALUE"}, ("fields", name, "type"))


CONTRACT_BREAKERS = (
    lead_to_a_ghost,
    begin_with_a_ghost,
    mistype_a_window,
    lose_a_state,
    never_end,
    take_an_outcome_s_name,
    take_a_verb_s_name,
    change_a_slot_that_is_not_there,
    mistype_a_field,
)


def broken_contract(chooser: Chooser, contract: dict[str, Any]) -> Broken:
    return pick(chooser, CONTRACT_BREAKERS)(chooser, deepcopy(contract))


def broken_envelope(chooser: Chooser, envelope: Envelope) -> tuple[Envelope, str]:
    """The envelope without one of its nodes, edges or slots, and the id of what is missing."""
    part = pick(chooser, [part for part in ("nodes", "edges", "slots") if getattr(envelope, part)])
    whole: dict[str, Any] = getattr(envelope, part)
    missing = pick(chooser, sorted(whole))
    rest = {key: value for key, value in whole.items() if key != missing}
    return replace(envelope, **{part: rest}), missing
