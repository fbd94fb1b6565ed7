"""What may be written about a node, kind by kind; whatever else is a problem at its key."""

from typing import Any

import pytest

from assent.definitions.sources import data_of
from assent.model.flow import parse_flow
from assent.model.patch import PATCH_KINDS, parse_patch


def problems_of(node: dict[str, Any]) -> list[tuple[str, tuple[str | int, ...]]]:
    base = {"entity_type": "invoice", "envelope_version": 1}
    _, problems = parse_patch({"patch": "p", "base": base, "slots": {"s": {"nodes": [{"id": "x", **node}]}}})
    return [(problem.code, problem.path[4:]) for problem in problems]


TIER: dict[str, Any] = {"approvers": {"role": "a"}}
GROUPS: dict[str, Any] = {"a": {"approvers": {"role": "a"}}}
GOOD: list[dict[str, Any]] = [
    {"type": "approval", "approvers": {"role": "a"}, "mode": "quorum", "quorum": 2, "due": "3d"},
    {"type": "approval", "approvers": {"chain": "large invoices"}},
    {"type": "approval", "assignee": {"manager": "entity.owner_id"}, "outcomes": ["more"], "timeout": "1d"},
    {"type": "approval", "approvers": {"role": "a"}, "mode": "percentage", "quorum": 100},
    {"type": "approval", "approvers": {"rule": "org.board"}, "mode": "sequence"},
    {
        "type": "approval",
        "approvers": {"role": "a", "pick": "first_available"},
        "remind": "1d",
        "notify": "chat",
    },
    {
        "type": "approval",
        "approvers": {"manager": True, "levels": 10},
        "timeout": "1d",
        "default": "approved",
    },
    {"type": "approval", "groups": {"a": {"approvers": {"role": "a"}}}, "enough": "a"},
    {"type": "approval", "tiers": [{"up_to": -5, "approvers": {"chain": "c"}}, {"assignee": {"role": "b"}}]},
    {"type": "form", "form": {"note": {"type": "text"}}, "capabilities": ["a:b", "a:*"]},
    {"type": "form", "assignee": {"role": "a", "pick": "round_robin"}, "due": "1d", "remind": "4h"},
    {
        "type": "system",
        "operation": {"openapi": "orders.confirm"},
        "input": {"n": 1, "t": None},
        "timeout": "9s",
    },
    {"type": "action", "action": "a.b", "payload": {"x": [1, {"y": "{now}"}]}, "run_as": "system"},
    {"type": "action", "action": "a.b", "run_as": "service_account", "service_account": "bot"},
    {"type": "wait_timer", "cron": "*/5 8-18 1,15 * MON-FRI"},
    {"type": "webhook_out", "url": "https://x", "await": "result", "expects": 500},
    {"type": "webhook_out", "url": "https://x", "method": "PUT", "headers": {"A": "b"}, "body": [1, None]},
    {"type": "task", "task": "a.b", "await": False, "priority": 200},
    {"type": "emit", "key": "order:paid:{workflow.order_id}", "data": {"lines": ["{now}", 1]}},
    {"type": "rule", "rule": "any rule", "label": "Credit check", "edit": "locked"},
    {"type": "condition"},
    {"type": "notification", "channel": "email", "to": "{entity.email}", "text": "Done."},
    {"type": "parallel_split"},
    {"type": "parallel_join", "mode": "any"},
    {"type": "policy_gate", "capability": "a:b"},
    {
        "type": "requirements",
        "requirements": [{"type": "requirement_satisfied", "doc_type": "passport", "subject": "$client"}],
    },
    {"type": "script", "set": {"lane": "'fast'"}},
    {"type": "wait_event", "key": "paid:{entity.number}"},
]
BAD: list[tuple[dict[str, Any], str, tuple[str | int, ...]]] = [
    ({"type": "approval"}, "BAD_VALUE", ()),
    ({"type": "approval", "approvers": {"role": "a"}, "assignee": {"role": "b"}}, "BAD_VALUE", ()),
    ({"type": "approval", "approvers": {}}, "BAD_VALUE", ("approvers",)),
    ({"type": "approval", "approvers": {"role": "a", "user": "b"}}, "BAD_VALUE", ("approvers",)),
    ({"type": "approval", "approvers": {"manager": False}}, "WRONG_TYPE", ("approvers", "manager")),
    ({"type": "approval", "approvers": {"role": "a"}, "mode": "quorum"}, "BAD_VALUE", ()),
    ({"type": "approval", "approvers": {"role": "a"}, "quorum": 2}, "BAD_VALUE", ()),
    ({"type": "webhook_out", "url": "u", "expects": 2}, "BAD_VALUE", ()),
    ({"type": "webhook_out", "url": "u", "await": True, "expects": 2}, "BAD_VALUE", ()),
    ({"type": "webhook_out", "url": "u", "await": "result", "expects": 0}, "WRONG_TYPE", ("expects",)),
    ({"type": "webhook_out", "url": "u", "await": "result", "expects": 501}, "WRONG_TYPE", ("expects",)),
    ({"type": "approval", "approvers": {"role": "a"}, "due": "soon"}, "BAD_DURATION", ("due",)),
    ({"type": "approval", "approvers": {"role": "a"}, "mode": "percentage"}, "BAD_VALUE", ()),
    (
        {"type": "approval", "approvers": {"role": "a"}, "mode": "percentage", "quorum": 101},
        "WRONG_TYPE",
        ("quorum",),
    ),
    ({"type": "approval", "approvers": {"role": "a"}, "mode": "most"}, "BAD_VALUE", ("mode",)),
    ({"type": "approval", "approvers": {"role": "a"}, "mode": "all", "quorum": 2}, "BAD_VALUE", ()),
    ({"type": "approval", "approvers": {"chain": "a"}, "mode": "all"}, "MISPLACED_KEY", ()),
    ({"type": "approval", "approvers": {"role": "a", "pick": "best"}}, "BAD_VALUE", ("approvers", "pick")),
    ({"type": "approval", "approvers": {"user": "a", "pick": "all"}}, "MISPLACED_KEY", ("approvers",)),
    ({"type": "approval", "approvers": {"role": "a", "levels": 2}}, "MISPLACED_KEY", ("approvers",)),
    (
        {"type": "approval", "approvers": {"manager": True, "levels": 0}},
        "WRONG_TYPE",
        ("approvers", "levels"),
    ),
    (
        {"type": "approval", "approvers": {"manager": True, "levels": 11}},
        "WRONG_TYPE",
        ("approvers", "levels"),
    ),
    ({"type": "approval", "approvers": {"role": "a"}, "groups": GROUPS}, "BAD_VALUE", ()),
    ({"type": "approval", "approvers": {"role": "a"}, "enough": "a"}, "MISPLACED_KEY", ()),
    ({"type": "approval", "groups": GROUPS, "mode": "all"}, "MISPLACED_KEY", ()),
    ({"type": "approval", "groups": GROUPS, "quorum": 2}, "BAD_VALUE", ()),
    ({"type": "approval", "groups": {}}, "WRONG_TYPE", ("groups",)),
    ({"type": "approval", "groups": {"A": GROUPS["a"]}}, "BAD_NAME", ("groups", "A")),
    ({"type": "approval", "groups": {"escalation": GROUPS["a"]}}, "RESERVED_NAME", ("groups",)),
    ({"type": "approval", "groups": {"a": {}}}, "MISSING_KEY", ("groups", "a", "approvers")),
    (
        {"type": "approval", "groups": {"a": {"approvers": {"chain": "c"}}}},
        "BAD_VALUE",
        ("groups", "a", "approvers"),
    ),
    (
        {"type": "approval", "groups": {"a": {"approvers": {"role": "x"}, "mode": "quorum"}}},
        "BAD_VALUE",
        ("groups", "a"),
    ),
    ({"type": "approval", "tiers": []}, "BAD_VALUE", ("tiers",)),
    ({"type": "approval", "tiers": [TIER]}, "BAD_VALUE", ("tiers",)),
    ({"type": "approval", "tiers": [TIER, TIER]}, "BAD_VALUE", ("tiers",)),
    ({"type": "approval", "tiers": [{"up_to": 5, **TIER}, {"up_to": 6, **TIER}]}, "BAD_VALUE", ("tiers",)),
    (
        {"type": "approval", "tiers": [{"up_to": 5, **TIER}, {"up_to": 5, **TIER}, TIER]},
        "BAD_VALUE",
        ("tiers",),
    ),
    ({"type": "approval", "tiers": [{"up_to": 5}, TIER]}, "BAD_VALUE", ("tiers", 0)),
    ({"type": "approval", "tiers": [{"up_to": "5.5", **TIER}, TIER]}, "WRONG_TYPE", ("tiers", 0, "up_to")),
    ({"type": "approval", "tiers": [{"tiers": [], **TIER}, TIER]}, "UNKNOWN_KEY", ("tiers", 0, "tiers")),
    ({"type": "approval", **TIER, "amount": "entity.total"}, "MISPLACED_KEY", ()),
    ({"type": "approval", **TIER, "notify": "post"}, "BAD_VALUE", ("notify",)),
    ({"type": "approval", **TIER, "remind": "daily"}, "BAD_DURATION", ("remind",)),
    ({"type": "approval", **TIER, "escalate": {"to": {"role": "b"}}}, "MISSING_KEY", ("escalate", "after")),
    (
        {"type": "approval", **TIER, "escalate": {"after": "1d", "to": {"chain": "c"}}},
        "BAD_VALUE",
        ("escalate", "to"),
    ),
    (
        {"type": "approval", **TIER, "escalate": {"after": "1d", "to": {"role": "b"}}, "timeout": "24h"},
        "BAD_VALUE",
        (),
    ),
    ({"type": "approval", **TIER, "default": "approved"}, "MISSING_KEY", ()),
    ({"type": "approval", **TIER, "timeout": "1d", "default": "maybe"}, "BAD_VALUE", ("default",)),
    (
        {"type": "approval", **TIER, "timeout": "1d", "default": "rejected", "on_timeout": "out"},
        "MISPLACED_KEY",
        (),
    ),
    ({"type": "form", "assignee": {"chain": "x"}}, "BAD_VALUE", ()),
    ({"type": "form", "assignee": {"user": "x", "pick": "round_robin"}}, "MISPLACED_KEY", ("assignee",)),
    ({"type": "form", "remind": "soon"}, "BAD_DURATION", ("remind",)),
    ({"type": "form", "escalate": {"after": "1d", "to": {"role": "b"}}}, "UNKNOWN_KEY", ("escalate",)),
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
    ({"type": "emit", "data": {}}, "MISSING_KEY", ("key",)),
    ({"type": "emit", "key": "k", "timeout": "1d"}, "UNKNOWN_KEY", ("timeout",)),
    ({"type": "notification", "channel": "email", "to": "a"}, "MISSING_KEY", ("text",)),
    ({"type": "notification", "channel": "email", "to": [], "text": "b"}, "WRONG_TYPE", ("to",)),
    ({"type": "notification", "channel": "email", "to": 7, "text": "b"}, "WRONG_TYPE", ("to",)),
    ({"type": "notification", "channel": "email", "to": ["a", ""], "text": "b"}, "WRONG_TYPE", ("to", 1)),
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


@pytest.mark.parametrize("node", GOOD, ids=str)
def test_what_is_kept_of_a_node_is_read_again(node: dict[str, Any]) -> None:
    """A published patch is kept without what it does not say, and compiled from that with the org's others."""
    base = {"entity_type": "invoice", "envelope_version": 1}
    patch, _ = parse_patch({"patch": "p", "base": base, "slots": {"s": {"nodes": [{"id": "x", **node}]}}})
    assert patch is not None
    assert parse_patch(data_of(patch)) == (patch, [])


def test_every_kind_is_tried() -> None:
    assert {node["type"] for node in GOOD} == set(PATCH_KINDS)


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
