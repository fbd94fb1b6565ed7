"""Random contracts that must have an envelope: a chain of states to an end, with ways back and out."""

from itertools import pairwise
from typing import Any

from tests.properties.choosing import Chooser, chance, pick

WINDOWS = ("editable", "amend_only", "locked")
FIELDS = {
    "number": {"type": "text", "required": True},
    "total": {"type": "money"},
    "kind": {"type": "enum", "values": ["a", "b"]},
    "stamp": {"type": "datetime", "system": True},
}


def contract(chooser: Chooser) -> dict[str, Any]:
    length = chooser.number(2, 5)
    chain = [f"s{number}" for number in range(length)]
    states: dict[str, Any] = {name: {"edit": pick(chooser, WINDOWS)} for name in chain}
    states[chain[-1]]["edit"] = "locked"
    transitions: dict[str, Any] = {}
    for number, (first, second) in enumerate(pairwise(chain)):
        transitions[f"t{number}"] = _forward(chooser, first, second, chain[: number + 1])
    _ways_back(chooser, chain, transitions)
    _way_out(chooser, chain, states, transitions)
    drift = _amendment(chooser, chain, states, transitions)
    made: dict[str, Any] = {
        "contract": "thing",
        "version": chooser.number(1, 3),
        "fields": FIELDS,
        "lifecycle": {"initial": chain[0], "states": states, "transitions": transitions},
        "on_drift": drift,
    }
    if chance(chooser, 20):
        made["separation"] = {pick(chooser, ("originator", "twice")): pick(chooser, ("allowed", "refused"))}
    if chance(chooser, 20):
        made["inbox"] = {"title": pick(chooser, ("number", "kind")), "figure": "total"}
    return made


def _forward(chooser: Chooser, first: str, second: str, before: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"from": [first], "to": second, "on_reject": pick(chooser, before)}
    if chance(chooser, 50):
        made["approval"] = "required"
    elif chance(chooser, 20):
        made["auto"] = True
    return made


def _ways_back(chooser: Chooser, chain: list[str], transitions: dict[str, Any]) -> None:
    for number in range(chooser.number(0, 2)):
        first = chooser.number(1, len(chain) - 1)
        transitions[f"back{number}"] = {"from": [chain[first]], "to": chain[chooser.number(0, first)]}


def _way_out(chooser: Chooser, chain: list[str], states: dict[str, Any], transitions: dict[str, Any]) -> None:
    if chance(chooser, 50):
        states["void"] = {"edit": pick(chooser, WINDOWS[1:]) if chance(chooser, 10) else "locked"}
        sources = chain[: chooser.number(1, len(chain))]
        transitions["cancel"] = {"from": sources, "to": "void"}


def _amendment(
    chooser: Chooser, chain: list[str], states: dict[str, Any], transitions: dict[str, Any]
) -> str:
    rests = any(state["edit"] == "amend_only" for state in states.values())
    if not rests or chance(chooser, 30):
        return "fail"
    states["amended"] = {"edit": "editable"}
    transitions["t0"]["from"].append("amended")
    transitions["t0"]["on_reject"] = chain[0]
    return "amend"
