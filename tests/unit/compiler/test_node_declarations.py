"""What may be written about a node, kind by kind; whatever else is a problem at its key."""

from typing import Any

import pytest

from assent.model.flow import parse_flow
from assent.model.patch import PATCH_KINDS, parse_patch


def problems_of(node: dict[str, Any]) -> list[tuple[str, tuple[str | int, ...]]]:
    base = {"entity_type": "invoice", "envelope_version": 1}
    _, problems = parse_patch({"patch": "p", "base": base, "slots": {"s": {"nodes": [{"id": "x", **node}]}}})
    return [(problem.code, problem.path[4:]) for problem in problems]


GOOD: list[dict[str, Any]] = [
    {"type": "approval", "approvers": {"role": "a"}, "mode": "quorum", "quorum": 2, "due": "3d"},
    {"type": "approval", "approvers": {"chain": "large invoices"}},
    {"type": "approval", "assignee": {"manager": "entity.owner_id"}, "outcomes": ["more"], "timeout": "1d"},
    {"type": "form", "form": {"note": {"type": "text"}}, "capabilities": ["a:b", "a:*"]},
    {
        "type": "system",
        "operation": {"openapi": "orders.confirm"},
        "input": {"n": 1, "t": None},
        "timeout": "9s",
    },
    {"type": "action", "action": "a.b", "payload": {"x": [1, {"y": "{now}"}]}, "run_as": "system"},
    {"type": "action", "action": "a.b", "run_as": "service_account", "service_account": "bot"},
    {"type": "wait_timer", "cron": "*/5 8-18 1,15 * MON-FRI"},
    {"type": "webhook_out", "url": "https://x", "method": "PUT", "headers": {"A": "b"}, "body": [1, None]},
    {"type": "task", "task": "a.b", "await": False, "priority": -5},
    {"type": "rule", "rule": "any rule", "label": "Credit check", "edit": "locked"},
]
BAD: list[tuple[dict[str, Any], str, tuple[str | int, ...]]] = [
    ({"type": "approval"}, "BAD_VALUE", ()),
    ({"type": "approval", "approvers": {"role": "a"}, "assignee": {"role": "b"}}, "BAD_VALUE", ()),
    ({"type": "approval", "approvers": {}}, "BAD_VALUE", ("approvers",)),
    ({"type": "approval", "approvers": {"role": "a", "user": "b"}}, "BAD_VALUE", ("approvers",)),
    ({"type": "approval", "approvers": {"manager": False}}, "WRONG_TYPE", ("approvers", "manager")),
    ({"type": "approval", "approvers": {"role": "a"}, "mode": "quorum"}, "BAD_VALUE", ()),
    ({"type": "approval", "approvers": {"role": "a"}, "quorum": 2}, "BAD_VALUE", ()),
    ({"type": "approval", "approvers": {"role": "a"}, "due": "soon"}, "BAD_DURATION", ("due",)),
    ({"type": "form", "assignee": {"chain": "x"}}, "BAD_VALUE", ()),
    ({"type": "system"}, "MISSING_KEY", ("operation",)),
    ({"type": "system", "operation": {}}, "BAD_VALUE", ("operation",)),
    ({"type": "system", "operation": {"sdk": "a", "openapi": "b"}}, "BAD_VALUE", ("operation",)),
    ({"type": "system", "operation": {"sdk": "a.b"}, "input": {"n": [1]}}, "WRONG_TYPE", ("input", "n")),
    ({"type": "system", "operation": {"sdk": "a.b"}, "output": {"N": "result"}}, "BAD_NAME", ("output", "N")),
    ({"type": "action", "action": "a.b", "run_as": "root"}, "BAD_VALUE", ("run_as",)),
    ({"type": "action", "action": "a.b", "run_as": "service_account"}, "BAD_VALUE", ()),
    ({"type": "action", "action": "a.b", "service_account": "bot"}, "BAD_VALUE", ()),
    ({"type": "wait_timer"}, "BAD_VALUE", ()),
    ({"type": "wait_timer", "for": "1d", "cron": "* * * * *"}, "BAD_VALUE", ()),
    ({"type": "wait_timer", "cron": "every monday"}, "BAD_CRON", ("cron",)),
    ({"type": "wait_timer", "for": "1d", "timeout": "2d"}, "UNKNOWN_KEY", ("timeout",)),
    ({"type": "wait_event"}, "MISSING_KEY", ("key",)),
    ({"type": "notification", "channel": "email", "to": "a"}, "MISSING_KEY", ("text",)),
    ({"type": "script", "set": {}}, "WRONG_TYPE", ("set",)),
    ({"type": "condition", "when": "true"}, "UNKNOWN_KEY", ("when",)),
    ({"type": "parallel_join", "mode": "first"}, "BAD_VALUE", ("mode",)),
    ({"type": "policy_gate", "capability": "may do"}, "BAD_CAPABILITY", ("capability",)),
    ({"type": "requirements", "requirements": []}, "WRONG_TYPE", ("requirements",)),
    (
        {"type": "requirements", "requirements": [{"all": [{"any": [{"type": "document_seen"}]}]}]},
        "UNKNOWN_KIND",
        ("requirements", 0, "all", 0, "any", 0, "type"),
    ),
    (
        {
            "type": "requirements",
            "requirements": [{"type": "requirement_satisfied", "doc_type": "p", "min_state": "x"}],
        },
        "BAD_VALUE",
        ("requirements", 0, "min_state"),
    ),
    (
        {
            "type": "requirements",
            "requirements": [{"type": "document_exists", "document_type": "p", "subject": "me"}],
        },
        "BAD_VALUE",
        ("requirements", 0, "subject"),
    ),
    ({"type": "task", "task": "two words"}, "BAD_NAME", ("task",)),
    ({"type": "task", "task": "a.b", "capabilities": "a:b"}, "WRONG_TYPE", ("capabilities",)),
    ({"type": "terminal"}, "UNKNOWN_KIND", ("type",)),
    ({"type": None}, "UNKNOWN_KIND", ("type",)),
    ({}, "UNKNOWN_KIND", ("type",)),
]


@pytest.mark.parametrize("node", GOOD, ids=str)
def test_a_whole_node_is_read(node: dict[str, Any]) -> None:
    assert problems_of(node) == []


@pytest.mark.parametrize(("node", "code", "path"), BAD, ids=str)
def test_a_mistake_is_found_at_its_key(node: dict[str, Any], code: str, path: tuple[str | int, ...]) -> None:
    assert problems_of(node) == [(code, path)]


@pytest.mark.parametrize("kind", PATCH_KINDS)
def test_every_kind_refuses_keys_that_it_does_not_know(kind: str) -> None:
    assert ("UNKNOWN_KEY", ("colour",)) in problems_of({"type": kind, "colour": "red"})


def test_all_mistakes_of_a_flow_are_found_at_once() -> None:
    _, problems = parse_flow(
        {
            "flow": "a b",
            "version": 0,
            "start": "x",
            "timeout": "now",
            "steps": [{"id": "x", "type": "wait"}, {"id": "y", "type": "teleport"}],
            "transitions": [{"from": "x"}, {"to": "y", "priority": -1}],
            "colour": "red",
        }
    )
    assert {problem.path for problem in problems} == {
        ("flow",),
        ("version",),
        ("timeout",),
        ("steps", 0),
        ("steps", 1, "type"),
        ("transitions", 0, "to"),
        ("transitions", 1, "from"),
        ("transitions", 1, "priority"),
        ("colour",),
    }


def test_on_fail_without_requirements_is_misplaced() -> None:
    blocker = {"blocker": {"type": "X", "resolution": "(a.b)"}}
    _, problems = parse_flow(
        {"flow": "a", "version": 1, "start": "x", "states": {"x": {"on_fail": blocker}}, "transitions": []}
    )
    assert [(problem.code, problem.path) for problem in problems] == [("MISPLACED_KEY", ("states", "x"))]
