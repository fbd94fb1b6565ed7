"""Contracts: every contradiction is found, each at its place."""

from typing import Any

import pytest

from assent.model.actor import Actor
from assent.model.contract import EditWindow, contract_from, parse_contract, strictest
from assent.model.problems import Invalid


def contract(**changes: Any) -> dict[str, Any]:
    return {
        "contract": "invoice",
        "version": 1,
        "fields": {"total": {"type": "money", "required": True, "min": 0}},
        "lifecycle": {
            "initial": "draft",
            "states": {"draft": {"edit": "editable"}, "sent": {"edit": "locked"}},
            "transitions": {"send": {"from": "draft", "to": "sent"}},
        },
        **changes,
    }


def lifecycle(**changes: Any) -> dict[str, Any]:
    return contract(lifecycle={**contract()["lifecycle"], **changes})


def field(**spec: Any) -> dict[str, Any]:
    return contract(fields={"it": spec})


def found(data: Any) -> list[tuple[str, str]]:
    return [(problem.code, problem.where) for problem in parse_contract(data)[1]]


def test_one_source_state_is_written_without_a_list() -> None:
    assert contract_from(contract()).lifecycle.transitions["send"].from_ == ("draft",)


@pytest.mark.parametrize(
    ("data", "code", "where"),
    [
        (contract(version=0), "WRONG_TYPE", "version"),
        (contract(contract="Invoice"), "BAD_NAME", "contract"),
        (contract(contract="іnvoice"), "BAD_NAME", "contract"),
        (contract(colour="red"), "UNKNOWN_KEY", "colour"),
        ({"contract": "x", "version": 1}, "MISSING_KEY", "lifecycle"),
        (contract(on_drift="ignore"), "BAD_VALUE", "on_drift"),
        (contract(separation={"originator": "yes"}), "BAD_VALUE", "separation.originator"),
        (contract(separation={"delegate": "allowed"}), "UNKNOWN_KEY", "separation.delegate"),
        (contract(inbox={"title": "name"}), "UNKNOWN_FIELD", "inbox.title"),
        (contract(inbox={"figure": "amount"}), "UNKNOWN_FIELD", "inbox.figure"),
        (field(type="text") | {"inbox": {"figure": "it"}}, "WRONG_TYPE", "inbox.figure"),
        (field(type="object") | {"inbox": {"title": "it"}}, "WRONG_TYPE", "inbox.title"),
        (contract(fields={"state": {"type": "text"}}), "RESERVED_NAME", "fields.state"),
        (field(type="txt"), "BAD_VALUE", "fields.it.type"),
        (field(type="enum"), "MISSING_KEY", "fields.it"),
        (field(type="enum", values=["a", "a"]), "DUPLICATE", "fields.it.values"),
        (field(type="text", values=["a"]), "MISPLACED_KEY", "fields.it.values"),
        (field(type="list"), "MISSING_KEY", "fields.it"),
        (field(type="list", of={"type": "enum"}), "MISSING_KEY", "fields.it.of"),
        (field(type="text", to="order"), "MISPLACED_KEY", "fields.it.to"),
        (field(type="boolean", min=1), "MISPLACED_KEY", "fields.it.min"),
        (field(type="date", min="soon"), "WRONG_TYPE", "fields.it.min"),
        (field(type="datetime", max="2026-01-01T00:00:00"), "WRONG_TYPE", "fields.it.max"),
        (field(type="integer", min="many"), "WRONG_TYPE", "fields.it.min"),
        (
            field(type="object", fields={"x": {"type": "text", "of": {"type": "text"}}}),
            "MISPLACED_KEY",
            "fields.it.fields.x.of",
        ),
        (field(type="text", currency="EUR"), "MISPLACED_KEY", "fields.it.currency"),
        (field(type="money", currency="curency"), "UNKNOWN_FIELD", "fields.it.currency"),
        (field(type="money", currency="it"), "WRONG_TYPE", "fields.it.currency"),
        (lifecycle(initial="gone"), "UNKNOWN_STATE", "lifecycle.initial"),
        (
            lifecycle(transitions={"send": {"from": ["draft", "gone"], "to": "sent"}}),
            "UNKNOWN_STATE",
            "lifecycle.transitions.send.from[1]",
        ),
        (
            lifecycle(transitions={"send": {"from": "draft", "to": "gone"}}),
            "UNKNOWN_STATE",
            "lifecycle.transitions.send.to",
        ),
        (
            lifecycle(transitions={"send": {"from": "draft", "to": "sent", "on_reject": "gone"}}),
            "UNKNOWN_STATE",
            "lifecycle.transitions.send.on_reject",
        ),
        (
            lifecycle(transitions={"update": {"from": "draft", "to": "sent"}}),
            "RESERVED_NAME",
            "lifecycle.transitions.update",
        ),
        (contract(permissions={"create": []}), "EMPTY_ROLES", "permissions.create"),
        ("not a contract", "WRONG_TYPE", ""),
    ],
)
def test_a_problem_is_found_at_its_place(data: Any, code: str, where: str) -> None:
    assert (code, where) in found(data)


def test_all_problems_are_found_at_once() -> None:
    broken = lifecycle(initial="gone", transitions={"send": {"from": "lost", "to": "sent"}})
    assert len(found(broken)) == 2


def test_contract_from_raises_every_problem() -> None:
    with pytest.raises(Invalid) as caught:
        contract_from(contract(version=0, colour="red"))
    assert len(caught.value.problems) == 2


def test_the_strictest_window_wins() -> None:
    assert strictest([EditWindow.EDITABLE, EditWindow.LOCKED, EditWindow.AMEND_ONLY]) is EditWindow.LOCKED
    assert strictest([EditWindow.EDITABLE, EditWindow.AMEND_ONLY]) is EditWindow.AMEND_ONLY


@pytest.mark.parametrize(
    ("held", "asked", "answer"),
    [
        ("a:b", "a:b", True),
        ("a:*", "a:b", True),
        ("a:*", "a:b:c", True),
        ("*", "a:b", True),
        ("a:b", "a:b:c", False),
        ("a:b:c", "a:b", False),
        ("a:*", "ab:c", False),
        ("a", "a:b", False),
    ],
)
def test_a_capability_covers_what_lies_below_its_star(held: str, asked: str, answer: bool) -> None:
    assert Actor("x", capabilities=frozenset({held})).can(asked) is answer
