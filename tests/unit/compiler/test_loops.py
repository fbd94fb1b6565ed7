"""Where a workflow may go round: never in a patch, in a flow only where it waits for somebody."""

from typing import Any

import pytest

from tests.authored import codes, compile_slot, compile_steps

END = {"id": "done", "type": "terminal"}
PEOPLE = {"role": "clerk"}

WAITING: list[dict[str, Any]] = [
    {"id": "x", "type": "approval", "assignee": PEOPLE},
    {"id": "x", "type": "action"},
    {"id": "x", "type": "wait", "for": "1d"},
    {"id": "x", "type": "wait", "key": "k"},
    {
        "id": "x",
        "type": "requirements",
        "requirements": [{"type": "requirement_satisfied", "doc_type": "passport"}],
    },
]
BUSY: list[dict[str, Any]] = [
    {"id": "x", "type": "system", "operation": {"sdk": "a.b"}},
    {"id": "x", "type": "system", "operation": {"openapi": "a.b"}, "await": True},
    {"id": "x", "type": "task", "task": "a.b", "await": True},
    {"id": "x", "type": "webhook_out", "url": "https://example.org", "await": True},
    {"id": "x", "type": "script", "set": {"n": "1"}},
    {"id": "x", "type": "notification", "channel": "email", "to": "a", "text": "b"},
]


def circle(step: dict[str, Any]) -> list[str]:
    back = [{"from": "again", "to": "x", "condition": "workflow.n > 1"}, {"from": "again", "to": "done"}]
    transitions = [{"from": "x", "to": "again"}, *back]
    if step["type"] == "approval":
        transitions.append({"from": "x", "to": "done", "event": "rejected"})
    return codes(compile_steps([step, {"id": "again", "type": "condition"}, END], transitions))


@pytest.mark.parametrize("step", WAITING, ids=lambda step: step["type"])
def test_a_flow_may_go_round_by_a_step_that_waits(step: dict[str, Any]) -> None:
    assert circle(step) == []


@pytest.mark.parametrize("step", BUSY, ids=lambda step: step["type"])
def test_a_flow_must_not_go_round_by_steps_that_end_by_themselves(step: dict[str, Any]) -> None:
    assert circle(step) == ["ENDLESS_LOOP"]


def test_an_endless_loop_is_shown_with_its_way_and_its_edge() -> None:
    compilation = compile_steps(
        [{"id": "a", "type": "condition"}, {"id": "b", "type": "condition"}, END],
        [
            {"from": "a", "to": "b"},
            {"from": "b", "to": "a", "condition": "workflow.n > 1"},
            {"from": "b", "to": "done"},
        ],
    )
    (problem,) = compilation.problems
    assert "a → b → a" in problem.message
    assert problem.path == ("transitions", 1)


def test_which_edge_is_the_loop_edge_does_not_depend_on_the_order_of_the_source() -> None:
    steps = [{"id": "a", "type": "action"}, {"id": "b", "type": "action"}, END]
    transitions = [
        {"from": "a", "to": "b"},
        {"from": "b", "to": "a", "event": "back"},
        {"from": "b", "to": "done"},
    ]
    first = compile_steps(steps, transitions).unwrap()
    second = compile_steps(steps, transitions[::-1]).unwrap()
    assert [edge.id for edge in first.edges.values() if edge.loop] == ["b->a:back"]
    assert first.hash == second.hash


def test_a_patch_must_not_loop_even_by_an_approval() -> None:
    slot = {
        "nodes": [
            {"id": "a", "type": "approval", "approvers": PEOPLE},
            {"id": "b", "type": "approval", "approvers": PEOPLE},
        ],
        "edges": [
            {"from": "in", "to": "a"},
            {"from": "a", "to": "b"},
            {"from": "b", "to": "out"},
            {"from": "b", "to": "a", "on": "rejected"},
        ],
    }
    (problem,) = compile_slot(slot).problems
    assert problem.code == "CYCLE"
    assert problem.path == ("slots", "slot:submitted_to_approved", "edges", 3)


def test_a_step_must_not_lead_to_itself_without_waiting() -> None:
    compilation = compile_steps(
        [{"id": "a", "type": "condition"}, END],
        [{"from": "a", "to": "a", "condition": "workflow.n > 1"}, {"from": "a", "to": "done"}],
    )
    assert codes(compilation) == ["ENDLESS_LOOP"]
