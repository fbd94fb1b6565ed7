"""Everything in the language is checked against its scope and kept in canonical text."""

from typing import Any

import pytest

from tests.authored import compile_slot, compile_steps, node

SLOT = ("slots", "slot:approved_to_active")


def compiled_node(declared: dict[str, Any]) -> Any:
    slot = {
        "nodes": [{"id": "x", **declared}],
        "edges": [{"from": "in", "to": "x"}, {"from": "x", "to": "out"}],
    }
    return compile_slot(slot, SLOT[1])


def test_a_condition_is_kept_in_canonical_text() -> None:
    slot = {
        "nodes": [{"id": "x", "type": "condition"}],
        "edges": [
            {"from": "in", "to": "x"},
            {"from": "x", "to": "out", "when": "entity.grand_total>10   AND entity.currency = 'EUR'"},
            {"from": "x", "to": "out"},
        ],
    }
    workflow = compile_slot(slot, SLOT[1]).unwrap()
    first, _ = workflow.outgoing(node(workflow, "x"))
    assert first.condition == "entity.grand_total > 10 && entity.currency == 'EUR'"


def test_spelling_does_not_change_the_hash() -> None:
    def hash_of(first: str, second: str) -> str:
        slot = {
            "nodes": [{"id": "x", "type": "condition"}],
            "edges": [
                {"from": "in", "to": "x"},
                {"from": "x", "to": "out", "when": first},
                {"from": "x", "to": "out", "when": second},
                {"from": "x", "to": "out"},
            ],
        }
        return compile_slot(slot, SLOT[1]).unwrap().hash

    one = hash_of("entity.grand_total > 10", "entity.currency == 'EUR'")
    assert one == hash_of('entity.currency = "EUR"', "(entity.grand_total)>10")


def test_a_condition_may_be_written_as_json() -> None:
    slot = {
        "nodes": [{"id": "x", "type": "condition"}],
        "edges": [
            {"from": "in", "to": "x"},
            {"from": "x", "to": "out", "when": {"field": "entity.grand_total", "op": ">", "value": 10}},
            {"from": "x", "to": "out"},
        ],
    }
    compilation = compile_slot(slot, SLOT[1])
    workflow = compilation.unwrap()
    assert workflow.outgoing(node(workflow, "x"))[0].condition == "entity.grand_total > 10"


@pytest.mark.parametrize(
    ("declared", "path"),
    [
        ({"type": "script", "set": {"a": "entity.colour"}}, ("set", "a")),
        ({"type": "system", "operation": {"sdk": "a.b"}, "input": {"n": "entity.colour"}}, ("input", "n")),
        ({"type": "system", "operation": {"sdk": "a.b"}, "output": {"n": "outcome.x"}}, ("output", "n")),
        ({"type": "system", "operation": {"sdk": "a.b"}, "input": {"n": "result.x"}}, ("input", "n")),
        ({"type": "wait_timer", "until": "entity.colour"}, ("until",)),
        ({"type": "wait_event", "key": "k:{entity.colour}"}, ("key",)),
        ({"type": "webhook_out", "url": "https://example.org/{entity.colour}"}, ("url",)),
        ({"type": "webhook_out", "url": "u", "headers": {"X": "{entity.colour}"}}, ("headers", "X")),
        ({"type": "webhook_out", "url": "u", "body": {"a": ["{entity.colour}"]}}, ("body", "a", 0)),
        ({"type": "notification", "channel": "email", "to": "{entity.colour}", "text": "t"}, ("to",)),
        (
            {"type": "notification", "channel": "email", "to": ["ann", "{entity.colour}"], "text": "t"},
            ("to", 1),
        ),
        ({"type": "notification", "channel": "email", "to": "t", "text": "an {open brace"}, ("text",)),
        (
            {"type": "action", "action": "order.create", "payload": {"a": {"b": "{entity.colour}"}}},
            ("payload", "a", "b"),
        ),
        ({"type": "action", "action": "order.hold", "entity": "entity.colour"}, ("entity",)),
        ({"type": "task", "task": "a.b", "input": {"a": "1 +"}}, ("input", "a")),
        ({"type": "form", "assignee": {"rule": "entity.colour"}}, ("assignee", "rule")),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else value["type"],
)
def test_a_mistake_is_shown_at_the_text_that_holds_it(
    declared: dict[str, Any], path: tuple[str | int, ...]
) -> None:
    (problem,) = compiled_node(declared).problems
    assert problem.path == (*SLOT, "nodes", 0, *path)
    assert problem.position is not None


def test_the_rule_of_an_assignee_is_shown_where_its_author_wrote_it() -> None:
    steps = [
        {"id": "x", "type": "approval", "assignee": {"rule": "entity.owner"}},
        {"id": "done", "type": "terminal"},
    ]
    transitions = [{"from": "x", "to": "done"}, {"from": "x", "to": "done", "event": "rejected"}]
    (problem,) = compile_steps(steps, transitions).problems
    assert problem.path == ("steps", 0, "assignee", "rule")


def test_a_condition_of_unlike_types_is_a_problem_at_the_condition() -> None:
    slot = {
        "nodes": [{"id": "x", "type": "condition"}],
        "edges": [
            {"from": "in", "to": "x"},
            {"from": "x", "to": "out", "when": "entity.grand_total == 'much'"},
            {"from": "x", "to": "out"},
        ],
    }
    (problem,) = compile_slot(slot, SLOT[1]).problems
    assert problem.path == (*SLOT, "edges", 1, "when")


@pytest.mark.parametrize(
    ("declared", "path"),
    [
        ({"type": "wait_timer", "until": "entity.number"}, ("until",)),
        ({"type": "form", "assignee": {"rule": "entity.grand_total"}}, ("assignee", "rule")),
        ({"type": "action", "action": "order.hold", "entity": "entity.posted_at"}, ("entity",)),
    ],
    ids=["until", "rule", "entity"],
)
def test_a_value_of_the_wrong_kind_is_a_problem(declared: dict[str, Any], path: tuple[str, ...]) -> None:
    (problem,) = compiled_node(declared).problems
    assert (problem.code, problem.path) == ("WRONG_TYPE", (*SLOT, "nodes", 0, *path))


def test_values_that_are_no_text_stand_for_themselves() -> None:
    workflow = compiled_node({"type": "script", "set": {"a": 3, "b": True, "c": None}}).unwrap()
    assert workflow.nodes[node(workflow, "x")].config["set"] == {"a": 3, "b": True, "c": None}
